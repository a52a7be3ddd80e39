"""Data of the explorer's plots: positions of marks, before they are drawn.

A plot of many items is a grid of cells, each drawn once, so that a page stays small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aleatoric.types import Floats, Ints

CELLS = 32
BINS = 30


@dataclass(frozen=True)
class Axis:
    """A linear axis with a few round ticks.

    >>> Axis.over(0.0, 1.0).ticks
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, low: float, high: float, about: int = 5) -> Axis:
        """An axis from `low` to `high` with `about` that many steps."""
        if not high > low:
            low, high = low - 0.5, low + 0.5
        least = (high - low) / about
        size = 10.0 ** math.floor(math.log10(least))
        parts = (size * part for part in (1, 2, 2.5, 5, 10))
        step = next(part for part in parts if part >= least * (1 - 1e-9))
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return cls(low, high, tuple(round(i * step, 12) for i in range(first, last + 1)))

    def share(self, value: float) -> float:
        """The position of a value on the axis, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class PlotCell:
    """Items that are close together: their mean, their number, one of them, and their range."""

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
    cells: tuple[PlotCell, ...]
    correlation: float | None
    n: int


@dataclass(frozen=True)
class Bin:
    """A bar of a histogram."""

    low: float
    high: float
    count: int


def cloud(x: Floats, y: Floats, rows: Ints, same_axis: bool = False) -> Cloud:
    """The items at `rows` as cells of a grid; a cell of one item is placed at the item."""
    rows = rows[np.isfinite(x[rows]) & np.isfinite(y[rows])]
    x, y = x[rows], y[rows]
    ends = [_ends(x), _ends(y)]
    if same_axis:
        ends = [(min(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1]))] * 2
    x_axis, y_axis = Axis.over(*ends[0]), Axis.over(*ends[1])
    spread = len(rows) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0
    correlation = float(np.corrcoef(x, y)[0, 1]) if spread else None
    place = _place(x, x_axis) * CELLS + _place(y, y_axis)
    return Cloud(x_axis, y_axis, _cells(x, y, rows, place), correlation, len(rows))


def histogram(values: Floats, bins: int = BINS) -> tuple[Bin, ...]:
    """Counts over equal bins; the bins of measures in [0, 1] are the same on every page."""
    known = values[np.isfinite(values)]
    if not len(known):
        return ()
    low, high = float(known.min()), float(known.max())
    ends = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    counts, edges = np.histogram(known, bins, ends)
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return tuple(Bin(*one) for one in pairs)


def _ends(values: Floats) -> tuple[float, float]:
    """The ends of an axis: 0 and 1 for shares, else a little beyond the values."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low >= 0:
        return 0.0, 1.0 if high <= 1 else high * 1.02
    return low * 1.02, high * 1.02 if high > 0 else 0.0


def _place(values: Floats, axis: Axis) -> Ints:
    shares = (values - axis.low) / (axis.high - axis.low)
    return np.clip((shares * CELLS).astype(np.int64), 0, CELLS - 1)


def _cells(x: Floats, y: Floats, rows: Ints, place: Ints) -> tuple[PlotCell, ...]:
    _, first, which, counts = np.unique(
        place, return_index=True, return_inverse=True, return_counts=True
    )
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
    return tuple(PlotCell(*one) for one in zip(*columns, *ends, strict=True))


@dataclass(frozen=True)
class BarRow:
    """A word (or probe) with one value per series; NaN is not drawn."""

    label: str
    values: tuple[float, ...]
    details: tuple[str, ...]
    """The text shown for each value."""
    marked: bool = False


def top_rows(
    shares: Mapping[str, Mapping[str, float]], top: int, marked: str | None = None
) -> list[tuple[str, tuple[float, ...], bool]]:
    """Rows of series -> word -> share: the most likely words of each series, people's order first.

    >>> top_rows({"people": {"a": 0.75, "b": 0.25}, "model": {"c": 1.0}}, 1)
    [('a', (0.75, 0.0), False), ('c', (0.0, 1.0), False)]
    """
    series = list(shares.values())
    likely = {w for one in series for w in sorted(one, key=lambda w: (-one[w], w))[:top]}
    words = sorted(likely, key=lambda w: (*(-one.get(w, 0.0) for one in series), w))
    return [(w, tuple(one.get(w, 0.0) for one in series), w == marked) for w in words]
