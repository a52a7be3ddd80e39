"""The data of the explorer's own plots: where each mark stands, before it is drawn.

A plot of any number of items is a grid of cells, each drawn once: a page stays small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.types import Floats, Ints

CELLS = 32
BINS = 30


@dataclass(frozen=True)
class Axis:
    """A straight axis with a few round numbers on it.

    >>> Axis.over(0.0, 1.0).ticks
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, low: float, high: float, about: int = 5) -> Axis:
        """An axis from `low` to `high` with about so many steps."""
        if not high > low:
            low, high = low - 0.5, low + 0.5
        step = _round_step((high - low) / about)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return cls(low, high, tuple(round(i * step, 12) for i in range(first, last + 1)))

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Cell:
    """Some items that lie together: how many, one of them, and the ends of where they lie."""

    x: float
    y: float
    count: int
    row: int
    x_ends: tuple[float, float]
    y_ends: tuple[float, float]


@dataclass(frozen=True)
class Cloud:
    """Two measures against each other."""

    x_axis: Axis
    y_axis: Axis
    cells: tuple[Cell, ...]
    correlation: float | None
    n: int


@dataclass(frozen=True)
class Bin:
    """A bar of a histogram."""

    low: float
    high: float
    count: int


def cloud(x: Floats, y: Floats, rows: Ints, same_axis: bool = False) -> Cloud:
    """The items at `rows` as cells of a grid; a cell of one item stands where the item does.

    >>> found = cloud(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0, 1]))
    >>> [(one.x, one.y, one.count) for one in found.cells]
    [(0.0, 0.0, 1), (1.0, 1.0, 1)]
    """
    known = rows[np.isfinite(x[rows]) & np.isfinite(y[rows])]
    own_x, own_y = x[known], y[known]
    x_axis, y_axis = _axes(own_x, own_y, same_axis)
    column = _place(own_x, x_axis)
    line = _place(own_y, y_axis)
    _, first, which, counts = np.unique(
        column * CELLS + line, return_index=True, return_inverse=True, return_counts=True
    )
    cells = _cells(own_x, own_y, known, first, which, counts)
    spread = len(known) > 1 and np.ptp(own_x) > 0 and np.ptp(own_y) > 0
    correlation = float(np.corrcoef(own_x, own_y)[0, 1]) if spread else None
    return Cloud(x_axis, y_axis, cells, correlation, len(known))


def histogram(values: Floats, bins: int = BINS) -> tuple[Bin, ...]:
    """Counts over equal bins; measures between 0 and 1 are cut alike on every page.

    >>> [one.count for one in histogram(np.array([0.1, 0.2, 0.9]), 2)]
    [2, 1]
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return ()
    low, high = float(known.min()), float(known.max())
    ends = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    counts, edges = np.histogram(known, bins, ends)
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return tuple(Bin(*one) for one in pairs)


def _axes(x: Floats, y: Floats, same: bool) -> tuple[Axis, Axis]:
    ends = [_ends(x), _ends(y)]
    if same:
        both = min(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1])
        ends = [both, both]
    return Axis.over(*ends[0]), Axis.over(*ends[1])


def _ends(values: Floats) -> tuple[float, float]:
    """Where an axis begins and ends: from 0 to 1 for shares, else a little beyond the values."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low >= 0:
        return 0.0, 1.0 if high <= 1 else high * 1.02
    return low * 1.02, high * 1.02 if high > 0 else 0.0


def _place(values: Floats, axis: Axis) -> Ints:
    shares = (values - axis.low) / (axis.high - axis.low)
    return np.clip((shares * CELLS).astype(np.int64), 0, CELLS - 1)


def _cells(
    x: Floats, y: Floats, rows: Ints, first: Ints, which: Ints, counts: Ints
) -> tuple[Cell, ...]:
    """Cells with the mean of their items, and the ends of what they hold."""
    n = len(counts)
    if not n:
        return ()
    means = [np.bincount(which, side, minlength=n) / counts for side in (x, y)]
    ends = []
    for side in (x, y):
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, which, side)
        np.maximum.at(high, which, side)
        ends.append(list(zip(low.tolist(), high.tolist(), strict=True)))
    columns = (means[0].tolist(), means[1].tolist(), counts.tolist(), rows[first].tolist())
    return tuple(Cell(*one) for one in zip(*columns, *ends, strict=True))


def _round_step(step: float) -> float:
    size = 10.0 ** math.floor(math.log10(step))
    return next(size * part for part in (1, 2, 2.5, 5, 10) if size * part >= step * (1 - 1e-9))


@dataclass(frozen=True)
class BarRow:
    """A word (or probe) with one value a series; NaN is not drawn."""

    label: str
    values: tuple[float, ...]
    details: tuple[str, ...]
    """What a reader sees of each value."""
    marked: bool = False


def top_rows(
    shares: Mapping[str, Mapping[str, float]], top: int, marked: str | None = None
) -> list[tuple[str, tuple[float, ...], bool]]:
    """Series -> word -> share, as rows: each series' likeliest words, people's order first.

    >>> top_rows({"people": {"a": 0.75, "b": 0.25}, "model": {"c": 1.0}}, 1)
    [('a', (0.75, 0.0), False), ('c', (0.0, 1.0), False)]
    """
    likely = [word for own in shares.values() for word in _top(own, top)]
    series = list(shares.values())
    words = sorted(set(likely), key=lambda w: (*(-own.get(w, 0.0) for own in series), w))
    return [(w, tuple(own.get(w, 0.0) for own in series), w == marked) for w in words]


def _top(shares: Mapping[str, float], top: int) -> Sequence[str]:
    return sorted(shares, key=lambda word: (-shares[word], word))[:top]
