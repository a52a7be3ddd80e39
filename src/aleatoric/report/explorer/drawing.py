"""The explorer's plots as data for templates: where marks stand, and where they lead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from aleatoric.report.explorer.plots import Axis, Bin, Cloud, PlotCell
from aleatoric.report.tables import printable
from aleatoric.studies.figure_data import Reliability

Data = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """The inside of a plot, in its own units."""

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
            "x_ticks": [(self.x(x_axis.share(one)), f"{one:g}") for one in x_axis.ticks],
            "y_ticks": [(self.y(y_axis.share(one)), f"{one:g}") for one in y_axis.ticks],
            "x_label": x_label,
            "y_label": y_label,
        }


def cloud_plot(
    found: Cloud,
    labels: tuple[str, str],
    link: Callable[[PlotCell], str],
    frame: Frame | None = None,
) -> Data:
    """Two measures against each other: each mark leads to its item, or to the list of its items."""
    own = frame or Frame()
    most = max((cell.count for cell in found.cells), default=1)
    least = 4.4 if len(found.cells) < 60 else 3.2 if len(found.cells) < 300 else 2.6
    marks = []
    for cell in found.cells:
        size = least + 3.4 * math.log(cell.count) / math.log(most) if most > 1 else least
        x, y = own.x(found.x_axis.share(cell.x)), own.y(found.y_axis.share(cell.y))
        n = "1 item" if cell.count == 1 else f"{cell.count} items"
        label = f"{n}: {labels[0]} {cell.x:.3f}, {labels[1]} {cell.y:.3f}"
        marks.append(mark_markup((x, y, size), cell.count, link(cell), label))
    return own.axes(found.x_axis, found.y_axis, *labels) | {
        "dots": _as_markup("\n".join(marks)),
        "correlation": found.correlation,
        "n": found.n,
    }


def mark_markup(place: tuple[float, float, float], count: int, href: str, label: str) -> str:
    """Return one mark of a scatter as escaped markup: in a template, a thousand would be slow.

    >>> mark_markup((1.0, 2.0, 3.0), 1, "/a?b&c", "<i>")
    '<a href="/a?b&amp;c" tabindex="-1"><circle class="single" cx="1.0" cy="2.0" r="3.0" \
data-tip="&lt;i&gt;"/></a>'
    """
    x, y, size = place
    kind = "many" if count > 1 else "single"
    circle = f'class="{kind}" cx="{x}" cy="{y}" r="{size:.1f}"'
    tip = escape(printable(label))
    return f'<a href="{escape(href)}" tabindex="-1"><circle {circle} data-tip="{tip}"/></a>'


def _as_markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def histogram_plot(bins: Sequence[Bin], label: str, link: Callable[[Bin], str]) -> Data:
    """How often each value occurs; a bar leads to its items."""
    frame = Frame()
    most = max((one.count for one in bins), default=0) or 1
    x_axis = Axis.over(bins[0].low, bins[-1].high) if bins else Axis.over(0, 1)
    y_axis = Axis.over(0, most)
    bars = []
    for one in bins:
        left, right = (frame.x(x_axis.share(end)) for end in (one.low, one.high))
        top = frame.y(y_axis.share(one.count))
        bar = {"x": left + 0.5, "width": max(1.0, right - left - 1)}
        bar |= {"y": top, "height": round(frame.y(0) - top, 1)}
        label_of = f"{one.count} from {one.low:.3f} to {one.high:.3f}"
        if one.count:
            bars.append(bar | {"label": label_of, "href": link(one)})
    return frame.axes(x_axis, y_axis, label, "count") | {"bars": bars}


def reliability_bins(own: Reliability) -> Iterator[tuple[Any, ...]]:
    """Yield the title, ends, confidence, accuracy, consistency bar and count of every bin."""
    columns = (own.confidence, own.accuracy, own.low, own.high, own.counts)
    for low, high, *rest in zip(own.edges[:-1], own.edges[1:], *columns, strict=True):
        yield (own.title, low, high, *rest)


def reliability_plot(own: Reliability) -> Data:
    """Accuracy by bin of confidence, with consistency bars and counts."""
    frame, axis = Frame(width=400, height=360), Axis.over(0.0, 1.0)
    most = max(own.counts, default=1.0) or 1.0
    return frame.axes(axis, axis, "confidence", "accuracy") | {
        "title": own.title,
        "name": own.title,
        "bins": [_bin(frame, row[1:], most) for row in reliability_bins(own) if row[-1]],
    }


def _bin(frame: Frame, row: tuple[float, ...], most: float) -> Data:
    low, high, confidence, accuracy, *ends, count = row
    whole = frame.y(0) - frame.y(1)
    label = f"confidence {confidence:.3f}, accuracy {accuracy:.3f}, {count:.0f} tokens"
    return {
        "x": frame.x(low) + 0.5,
        "width": frame.x(high) - frame.x(low) - 1,
        "count_height": round(0.35 * whole * count / most, 1),
        "px": frame.x(confidence),
        "py": frame.y(accuracy),
        "ends": [frame.y(end) for end in ends if not math.isnan(end)],
        "label": f"{low:.2f} to {high:.2f}: {label}",
    }
