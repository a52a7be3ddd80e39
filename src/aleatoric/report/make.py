"""A run's page and figures, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aleatoric.pipeline import model_systems, score_word
from aleatoric.progress import Track, quietly
from aleatoric.report.collect import figure_data, tvd_densities
from aleatoric.report.figures import draw, draw_all, to_png
from aleatoric.report.html import Picture, write_html
from aleatoric.store import Store

HOW_TO_READ_TVD = (
    "How often each distance to people occurs, over contexts. The oracle is one half of the people "
    "against the other: a curve to its right is further from people than people are."
)


def make_report(
    store: Store, html: Path | None, figures: Path | None, track: Track[Any] = quietly
) -> Iterator[Path]:
    """Write what is asked for; yields each file when it is there."""
    if not store.has_stats():
        score_word(store, track)
    if html is not None:
        write_html(store, html, _pictures(store))
        yield html
    if figures is not None:
        yield from draw_all(figure_data(store), figures)


def _pictures(store: Store) -> dict[str, Picture]:
    """The figures of the page: how the distances spread, for every system and the oracle."""
    lines = tvd_densities(store, model_systems(store))
    (figure,) = draw(lines)
    return {"tvd": Picture(to_png(figure), HOW_TO_READ_TVD)}
