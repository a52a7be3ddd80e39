"""A run's page and figures, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aleatoric.pipeline import Track, quietly
from aleatoric.report.collect import figure_data
from aleatoric.report.figures import draw_all
from aleatoric.report.html import write_html
from aleatoric.store import Store


def make_report(
    store: Store, html: Path | None, figures: Path | None, track: Track[Any] = quietly
) -> Iterator[Path]:
    """Write what is asked for; yields each file when it is there."""
    if html is not None:
        write_html(store, html)
        yield html
    if figures is not None:
        yield from draw_all(figure_data(store), figures)
