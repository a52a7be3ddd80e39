"""The explorer's plots: the data of marks, then their positions and links for templates.

A plot of many items is a grid of cells, each drawn once, so that a page stays small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from aleatoric.reporting.tables import printable
from aleatoric.studies.figure_data import Reliability
from aleatoric.types import Floats, Ints

Data = dict[str, Any]
CELLS = 32
BINS = 30


@dataclass(frozen=True)
class Axis:
    """A linear axis with a few round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, low: float, high: float) -> Axis:
        """An axis from `low` to `high` with about five steps."""
        if not high > low:
            low, high = low - 0.5, low + 0.5
        least = (high - low) / 5
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


Bin = tuple[float, float, int]
"""A bar of a histogram: both ends, and the number of items."""


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
    shares = [(side - a.low) / (a.high - a.low) for side, a in ((x, x_axis), (y, y_axis))]
    column, row = (np.clip((share * CELLS).astype(np.int64), 0, CELLS - 1) for share in shares)
    place = column * CELLS + row
    return Cloud(x_axis, y_axis, _cells(x, y, rows, place), correlation, len(rows))


def histogram(values: Floats) -> tuple[Bin, ...]:
    """Counts over equal bins from or to 0; measures in [0, 1] have the same bins on every page."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ()
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    ends = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    counts, edges = np.histogram(finite, BINS, ends)
    return tuple(zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True))


def _ends(values: Floats) -> tuple[float, float]:
    """The ends of an axis: 0 and 1 for shares, else a little beyond the values."""
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    if low == 0 and high <= 1:
        return 0.0, 1.0
    return low * 1.02, high * 1.02


def _cells(x: Floats, y: Floats, rows: Ints, place: Ints) -> tuple[PlotCell, ...]:
    if not len(place):
        return ()
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    counts = np.diff(starts, append=len(place))
    _, which = np.unique(place, return_inverse=True)
    means = [(np.bincount(which, side) / counts).tolist() for side in (x, y)]
    ends = []
    for side in (x[order], y[order]):
        low, high = (f.reduceat(side, starts).tolist() for f in (np.minimum, np.maximum))
        ends.append(zip(low, high, strict=True))
    columns = (*means, counts.tolist(), rows[order[starts]].tolist(), *ends)
    return tuple(PlotCell(*row) for row in zip(*columns, strict=True))


@dataclass(frozen=True)
class Frame:
    """The size and margins of a plot, in SVG units."""

    width: int = 460
    height: int = 300
    left: int = 56
    right: int = 12
    top: int = 12
    bottom: int = 40

    def x(self, share: float) -> float:
        """Return the place of a share of the width."""
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, share: float) -> float:
        """Return the place of a share of the height, from below."""
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)

    def axes(self, x_axis: Axis, y_axis: Axis, x_label: str, y_label: str) -> Data:
        """Return the frame with the ticks and labels of both axes."""
        return {
            "frame": self,
            "x_ticks": [(self.x(x_axis.share(tick)), f"{tick:g}") for tick in x_axis.ticks],
            "y_ticks": [(self.y(y_axis.share(tick)), f"{tick:g}") for tick in y_axis.ticks],
            "x_label": x_label,
            "y_label": y_label,
        }


def cloud_plot(
    points: Cloud, labels: tuple[str, str], link: Callable[[PlotCell], str], frame: Frame
) -> Data:
    """Scatter plot of two measures: each mark links to its item, or to the list of its items."""
    from markupsafe import Markup

    most = max((cell.count for cell in points.cells), default=1)
    least = 4.4 if len(points.cells) < 60 else 3.2 if len(points.cells) < 300 else 2.6
    marks = []
    for cell in points.cells:
        size = least + 3.4 * math.log(cell.count) / math.log(most) if most > 1 else least
        x, y = frame.x(points.x_axis.share(cell.x)), frame.y(points.y_axis.share(cell.y))
        n = "1 item" if cell.count == 1 else f"{cell.count} items"
        label = f"{n}: {labels[0]} {cell.x:.3f}, {labels[1]} {cell.y:.3f}"
        # In a template, a thousand marks would be slow.
        circle = f'class="{"many" if cell.count > 1 else "single"}" cx="{x}" cy="{y}"'
        tip = f'r="{size:.1f}" data-tip="{escape(printable(label))}"'
        marks.append(f'<a href="{escape(link(cell))}" tabindex="-1"><circle {circle} {tip}/></a>')
    return frame.axes(points.x_axis, points.y_axis, *labels) | {
        "dots": Markup("\n".join(marks)),
        "correlation": points.correlation,
        "n": points.n,
    }


def histogram_plot(bins: Sequence[Bin], label: str, link: Callable[[float, float], str]) -> Data:
    """Histogram of a measure; each bar links to its items."""
    frame = Frame()
    x_axis = Axis.over(bins[0][0], bins[-1][1]) if bins else Axis.over(0, 1)
    y_axis = Axis.over(0, max((count for *_, count in bins), default=0) or 1)
    bars = []
    for low, high, count in (bin_ for bin_ in bins if bin_[2]):
        left, right = (frame.x(x_axis.share(end)) for end in (low, high))
        top = frame.y(y_axis.share(count))
        bar: Data = {"x": left + 0.5, "width": max(1.0, right - left - 1)}
        bar |= {"y": top, "height": round(frame.y(0) - top, 1), "href": link(low, high)}
        bars.append(bar | {"label": f"{count} from {low:.3f} to {high:.3f}"})
    return frame.axes(x_axis, y_axis, label, "count") | {"bars": bars}


def reliability_bins(diagram: Reliability) -> Iterator[tuple[Any, ...]]:
    """Yield the title, ends, confidence, accuracy, consistency bar and count of every bin."""
    columns = (diagram.confidence, diagram.accuracy, diagram.low, diagram.high, diagram.counts)
    for low, high, *rest in zip(diagram.edges[:-1], diagram.edges[1:], *columns, strict=True):
        yield (diagram.title, low, high, *rest)


def reliability_plot(diagram: Reliability) -> Data:
    """Accuracy by bin of confidence, with consistency bars and counts."""
    frame, axis = Frame(width=400, height=360), Axis.over(0.0, 1.0)
    scale = 0.35 * (frame.y(0) - frame.y(1)), max(diagram.counts, default=1.0) or 1.0
    bins = [
        {
            "x": frame.x(low) + 0.5,
            "width": frame.x(high) - frame.x(low) - 1,
            "count_height": round(scale[0] * count / scale[1], 1),
            "px": frame.x(confidence),
            "py": frame.y(accuracy),
            "ends": [frame.y(end) for end in ends if not math.isnan(end)],
            "label": f"{low:.2f} to {high:.2f}: confidence {confidence:.3f}, "
            f"accuracy {accuracy:.3f}, {count:.0f} tokens",
        }
        for _, low, high, confidence, accuracy, *ends, count in reliability_bins(diagram)
        if count
    ]
    axes = frame.axes(axis, axis, "confidence", "accuracy")
    return axes | {"title": diagram.title, "name": diagram.title, "bins": bins}
