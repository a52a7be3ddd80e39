"""How each kind of picture is drawn with matplotlib: readable in grey.

Colours never stand alone: lines differ by dash and marker, areas by hatch.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING, Any

from aleatoric.analyses.pictures import (
    Boxes,
    Coefficients,
    Dots,
    HeatMap,
    Histograms,
    Lines,
    Points,
    Reliability,
    Scatter,
    WordBars,
)
from aleatoric.report.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "x")
HATCHES = ("///", "...", "\\\\\\", "xxx", "++", "oo")
GREY = "#888888"


def safe(text: str) -> str:
    """Text as it is: dollar signs start no formula, control characters steer nothing.

    >>> safe("costs $5 or $6")
    'costs \\\\$5 or \\\\$6'
    """
    # matplotlib leaves labels that begin with _ out of legends.
    shown = printable(text).replace("\n", " ").replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _lines(axes: Axes, data: Lines) -> None:
    for place, line in enumerate(data.lines):
        colour, dash, marker = _style(place if line.slot is None else line.slot)
        every = max(1, len(line.x) // 8)
        shift = (every // max(1, len(data.lines))) * place
        axes.plot(
            line.x,
            line.y,
            color=colour,
            linestyle=dash,
            marker=marker,
            markevery=(min(shift, max(0, len(line.x) - 1)), every),
            markersize=3.5,
            label=safe(line.label),
        )
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
    _marks(axes, data)
    _labels(axes, data.title, data.x_label, data.y_label)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if data.x_ends:
        axes.set_xlim(*data.x_ends)
    _legend_by_slot(axes, data)


def _legend_by_slot(axes: Axes, data: Lines) -> None:
    """Names stand in the order of their slots, be they curves or straight lines; others last."""
    slots = {safe(line.label): line.slot for line in data.lines}
    slots |= {safe(mark.label): mark.slot for mark in data.marks}
    known = {label: slot for label, slot in slots.items() if slot is not None}
    handles, labels = axes.get_legend_handles_labels()
    pairs = zip(handles, labels, strict=True)
    ordered = sorted(pairs, key=lambda pair: known.get(pair[1], math.inf))
    # Below the axes: in a column's width it would hide curves.
    shown = [label if len(label) <= 60 else f"{label[:59]}…" for _, label in ordered]
    columns = 2 if max(map(len, shown), default=0) <= 26 else 1
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
    axes.legend([handle for handle, _ in ordered], shown, ncols=columns, **place)


def _style(slot: int) -> tuple[str, Any, str]:
    """The colour, dash and marker of a slot; they repeat where there are not enough."""
    return (
        COLOURS[slot % len(COLOURS)],
        DASHES[slot % len(DASHES)],
        MARKERS[slot % len(MARKERS)],
    )


def _marks(axes: Axes, data: Lines) -> None:
    for mark, dash in zip(data.marks, cycle((":", "--")), strict=False):
        style: dict[str, Any] = {"color": GREY, "linestyle": dash}
        if mark.slot is not None:
            style = dict(zip(("color", "linestyle", "marker"), _style(mark.slot), strict=True))
            # One at the end of the axis would be cut in half, behind the frame (2.5).
            style |= {"markersize": 3.5, "clip_on": False, "zorder": 2.6}
        if mark.y is not None:
            axes.axhline(mark.y, label=safe(mark.label), **style)
        if mark.x is not None:
            axes.axvline(mark.x, label=safe(mark.label), **style)


def _histograms(axes: Axes, data: Histograms) -> None:
    for slot, (label, heights) in enumerate(data.heights.items(), data.first_slot):
        colour, dash, _ = _style(slot)
        if len(data.heights) <= 2:
            hatch = HATCHES[slot % len(HATCHES)]
            axes.stairs(
                heights, data.edges, fill=True, alpha=0.45, fc="none", ec=colour, hatch=hatch
            )
        shown = safe(label) + _mean_of(data, label)
        axes.stairs(heights, data.edges, color=colour, linestyle=dash, linewidth=1.4, label=shown)
    _labels(axes, data.title, data.x_label, "density")
    axes.set_xlim(*_filled(data))
    # Below the axes: within them it would hide bars.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17))


def _mean_of(data: Histograms, label: str) -> str:
    """What the legend adds to a name."""
    if label in data.means:
        return f" (mean {data.means[label]:.3g})"
    return "" if any(data.heights[label]) else " (undefined)"


def _filled(data: Histograms) -> tuple[float, float]:
    """The ends of the bins that hold anything, with an empty one to each side."""
    used = [i for heights in data.heights.values() for i, height in enumerate(heights) if height]
    first, last = min(used, default=0), max(used, default=len(data.edges) - 2)
    return data.edges[max(0, first - 1)], data.edges[min(len(data.edges) - 1, last + 2)]


def _scatter(axes: Axes, data: Scatter) -> None:
    axes.plot(data.x, data.y, ".", color=GREY, markersize=2.5, alpha=0.5, rasterized=True)
    axes.plot(data.trend.x, data.trend.y, "-o", color="black", ms=4, label=safe(data.trend.label))
    r = "" if data.correlation is None else f"r = {data.correlation:.2f}"
    _labels(axes, data.title, data.x_label, data.y_label)
    axes.legend(title=r)


def _boxes(axes: Axes, data: Boxes) -> None:
    names = [f"{safe(name)}\n{len(values)}" for name, values in data.values.items()]
    axes.boxplot(
        [list(values) for values in data.values.values()],
        tick_labels=names,
        medianprops={"color": "black", "linewidth": 1.6},
        flierprops={"marker": ".", "markersize": 2.5, "markeredgecolor": GREY},
    )
    axes.tick_params(axis="x", labelsize=6.5)
    _labels(axes, data.title, f"{data.x_label}, and number of {data.counted}", data.y_label)


def _coefficients(axes: Axes, data: Coefficients) -> None:
    axes.axvline(0, color=GREY, linewidth=0.8)
    rows = zip(data.names, data.values, data.low, data.high, data.kept, strict=True)
    for y, (_, value, low, high, kept) in enumerate(rows):
        face = "black" if kept else "white"
        axes.plot([low, high], [y, y], "-", color="black", linewidth=1.2)
        axes.plot([value], [y], "o", color="black", markerfacecolor=face, markersize=5)
    axes.set_yticks(range(len(data.names)), [safe(name) for name in data.names])
    axes.invert_yaxis()
    axes.plot([], [], "o", color="black", label="kept")
    axes.plot([], [], "o", color="black", markerfacecolor="white", label="pruned")
    _labels(axes, data.title, data.x_label, "")
    axes.legend(loc="lower right")


def _word_bars(axes: Axes, data: WordBars) -> None:
    places = range(len(data.words))
    left, right = [y - 0.2 for y in places], [y + 0.2 for y in places]
    axes.barh(left, data.human, 0.4, color="#333333", label="people")
    style: dict[str, Any] = {"color": "white", "edgecolor": COLOURS[1], "hatch": "/////"}
    axes.barh(right, data.model, 0.4, linewidth=0.8, label=safe(data.system), **style)
    axes.set_yticks(places, [safe(word) for word in data.words], fontsize=6)
    axes.invert_yaxis()
    # The end of a context says most about what follows it.
    context = textwrap.shorten(data.context[::-1], 90, placeholder="…")[::-1]
    # A space that does not break keeps the gap with the word before it.
    title = "\n".join(textwrap.wrap(f"{context}\u00a0___", 34))
    _labels(axes, title, f"probability (TVD {data.tvd:.2f})", "")
    axes.title.set_fontsize(6.5)
    axes.legend(loc="lower right")


def _reliability(axes: Axes, data: Reliability) -> None:
    _counts_behind(axes, data)
    bar: dict[str, Any] = {"color": COLOURS[1], "linewidth": 4, "alpha": 0.45}
    filled = [i for i, count in enumerate(data.counts) if count]
    for i in filled:
        axes.plot([data.confidence[i]] * 2, [data.low[i], data.high[i]], "-", **bar)
    axes.plot([], [], "-", **bar, label="if calibrated, 95%")
    axes.plot([0, 1], [0, 1], ":", color=GREY)
    points = [[side[i] for i in filled] for side in (data.confidence, data.accuracy)]
    axes.plot(*points, "o-", color="black", markersize=3.5, linewidth=1, label="model")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _labels(axes, data.title, f"confidence, {len(data.counts)} bins", "accuracy")
    axes.legend(loc="upper left")


def _counts_behind(axes: Axes, data: Reliability) -> None:
    """Tokens by bin, in grey on an axis of their own, with the diagram drawn over them."""
    counts = axes.twinx()
    counts.stairs(data.counts, data.edges, fill=True, color="#dddddd")
    counts.set_yscale("symlog", linthresh=1)
    counts.set_ylabel("tokens (grey)")
    counts.spines["right"].set_visible(True)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)


def _dots(axes: Axes, data: Dots) -> None:
    step = 0.8 / max(1, len(data.values))
    for i, (name, values) in enumerate(data.values.items()):
        colour, _, marker = _style(i)
        places = [row - 0.4 + step * (i + 0.5) for row in range(len(data.rows))]
        axes.hlines(places, data.low[name], data.high[name], color=colour, linewidth=0.8)
        face = "white" if name == data.reference else colour
        style: dict[str, Any] = {"color": colour, "markerfacecolor": face, "markersize": 4.5}
        axes.plot(values, places, linestyle="", marker=marker, label=safe(name), **style)
    for row in range(1, len(data.rows)):
        axes.axhline(row - 0.5, color="#dddddd", linewidth=0.6)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(data.rows)), [safe(row) for row in data.rows])
    axes.invert_yaxis()
    _labels(axes, data.title, data.x_label, "")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _labels(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title("\n".join(safe(line) for line in title.split("\n")))
    axes.set_xlabel(safe(x))
    axes.set_ylabel(safe(y))


def _heat_map(axes: Axes, data: HeatMap) -> None:
    longest = max(map(len, data.values))
    padded = [[*row, *[math.nan] * (longest - len(row))] for row in data.values]
    ends = (0.5, longest + 0.5, len(data.rows) - 0.5, -0.5)
    look: dict[str, Any] = {"cmap": "Greys", "aspect": "auto", "interpolation": "nearest"}
    shades = axes.imshow(padded, extent=ends, vmin=0, **look)
    every = max(1, len(data.rows) // 20)
    names = [safe(name) for name in data.rows[::every]]
    axes.set_yticks(range(0, len(data.rows), every), names, fontsize=6)
    if axes.figure is not None:
        axes.figure.colorbar(shades, ax=axes, label=safe(data.value_label))
    _labels(axes, data.title, data.x_label, data.y_label)


def _points(axes: Axes, data: Points) -> None:
    for slot, point in enumerate(data.points):
        colour, _, marker = _style(slot)
        axes.plot(point.x_ends, [point.y, point.y], "-", color=colour, linewidth=0.8)
        axes.plot([point.x, point.x], point.y_ends, "-", color=colour, linewidth=0.8)
        face = "white" if point.label == data.reference else colour
        style: dict[str, Any] = {"color": colour, "markerfacecolor": face, "linestyle": ""}
        axes.plot([point.x], [point.y], marker=marker, label=safe(point.label), **style)
    _labels(axes, data.title, data.x_label, data.y_label)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))


DRAWERS: dict[type, Callable[..., None]] = {
    Lines: _lines,
    Histograms: _histograms,
    Scatter: _scatter,
    Boxes: _boxes,
    Coefficients: _coefficients,
    WordBars: _word_bars,
    Reliability: _reliability,
    Dots: _dots,
    HeatMap: _heat_map,
    Points: _points,
}
