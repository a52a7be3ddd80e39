"""A run's page and figures, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aleatoric import levels, pipeline, token_pipeline
from aleatoric.progress import Track, quietly
from aleatoric.report import collect, collect_tokens
from aleatoric.report.figures import draw, draw_all, to_png
from aleatoric.report.html import Picture, write_html
from aleatoric.store import Store

HOW_TO_READ_TVD = (
    "How often each distance to people occurs, over contexts. The oracle is one half of the people "
    "against the other: a curve to its right is further from people than people are."
)
HOW_TO_READ_RELIABILITY = (
    "Reliability diagrams: points below the dotted line are over-confident. Bars show where a "
    "calibrated model's points would lie with as many tokens; grey steps count the tokens."
)


def make_report(
    store: Store, html: Path | None, figures: Path | None, track: Track[Any] = quietly
) -> Iterator[Path]:
    """Write what is asked for; yields each file when it is there."""
    levels.score(store, track, again=False)
    is_token = levels.level_of(store) == "token"
    if html is not None:
        write_html(store, html, _token_pictures(store) if is_token else _word_pictures(store))
        yield html
    if figures is not None:
        found = collect_tokens.figure_data(store) if is_token else collect.figure_data(store)
        yield from draw_all(found, figures)


def _word_pictures(store: Store) -> dict[str, Picture]:
    """The figures of the page: how the distances spread, for every system and the oracle."""
    lines = collect.tvd_densities(store, pipeline.model_systems(store))
    (figure,) = draw(lines)
    return {"tvd": Picture(to_png(figure), HOW_TO_READ_TVD)}


def _token_pictures(store: Store) -> dict[str, Picture]:
    """The figures of the page: reliability diagrams of every system."""
    found = {}
    for system in token_pipeline.systems(store):
        for number, figure in enumerate(draw(collect_tokens.reliability(store, system)), 1):
            caption = f"{system}. {HOW_TO_READ_RELIABILITY}"
            found[f"{system} {number}"] = Picture(to_png(figure), caption)
    return found
