"""Where ECE and e-ECE part, by how often the reference token occurs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleatoric.analyses.pictures import Boxes, plain
from aleatoric.errors import UsageError
from aleatoric.tokens.table import TokenTable
from aleatoric.types import Study, Table

EDGES = (1, 2, 10, 100, 1000, 10_000)
"""The least number of occurrences of each band."""
_MOST_DRAWN = 20_000


def run(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: d, accuracy and confidence by band of frequency in the corpus itself."""
    if not len(table.target):
        raise UsageError("frequency needs at least one token.")
    bands = band_of(table.target)
    names = band_names()
    rows = tuple(_row(names[i], table, bands == i) for i in np.unique(bands))
    picture = {names[i]: _drawn(table, bands == i) for i in np.unique(bands)}
    label = "occurrences of the reference token"
    boxes = Boxes("Where ECE and e-ECE part", label, "d = |(p̂−â) − (p̃−ã)|", picture, "tokens")
    notes = (
        "Bands: how often the reference token stands in the rows themselves.",
        "d = |(p̂−â) − (p̃−ã)|; gap: mean of confidence − accuracy, plain and expected.",
    )
    columns = ("occurrences", "tokens", "types", "median d", "mean d", "gap ECE", "gap e-ECE")
    return Study(
        "frequency", (Table("Frequency", columns, rows, notes),), {"d_by_frequency": boxes}
    )


def band_of(tokens: NDArray[np.int64]) -> NDArray[np.intp]:
    """The band of each token: how often it occurs among them all.

    >>> band_of(np.array([5, 5, 7])).tolist()
    [1, 1, 0]
    """
    _, place, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    found: NDArray[np.intp] = np.searchsorted(EDGES, counts[place], side="right") - 1
    return found


def band_names() -> list[str]:
    """The bands in words.

    >>> band_names()[:3]
    ['1', '2–9', '10–99']
    """
    ends = [str(end - 1) for end in EDGES[1:]]
    names = [str(a) if str(a) == b else f"{a}–{b}" for a, b in zip(EDGES, ends, strict=False)]
    return [*names, f"{EDGES[-1]}–"]


def _row(name: str, table: TokenTable, here: NDArray[np.bool_]) -> tuple[str, ...]:
    d = table.disagreement[here]
    gap = (table.confidence - table.correct)[here].mean()
    expected = (table.plain.confidence - table.plain.accuracy)[here].mean()
    types = len(np.unique(table.target[here]))
    numbers = (np.median(d), d.mean())
    return (
        name,
        str(len(d)),
        str(types),
        *(f"{value:.4f}" for value in numbers),
        f"{gap:+.4f}",
        f"{expected:+.4f}",
    )


def _drawn(table: TokenTable, here: NDArray[np.bool_]) -> tuple[float, ...]:
    d = table.disagreement[here]
    return plain(d[:: max(1, len(d) // _MOST_DRAWN)])
