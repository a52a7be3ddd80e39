"""What pages share: the site they belong to, numbers, shortened texts, plots with links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aleatoric.report.numbers import UNDEFINED, number
from aleatoric.viewer.library import Library, OpenRun
from aleatoric.viewer.links import Links
from aleatoric.viewer.measures import Measure
from aleatoric.viewer.plots import Axis, Bin, Cell, Cloud
from aleatoric.viewer.query import Range
from aleatoric.viewer.rendering import Dot, dots_markup
from aleatoric.viewer.snapshot import in_one_line

Data = dict[str, Any]
CONTEXT_CHARS = 180
N_GROUPS = 400
"""So many groups fit a list to choose from."""
N_SERIES = 7
"""People and six systems: more colours are not told apart."""
TITLES = {"word": "Next words", "token": "Reference tokens", "text": "Whole texts"}
ITEMS = {"word": "contexts", "token": "tokens", "text": "inputs"}
LEADS = {
    "word": "People were asked for the next word of each context. H is how often two people "
    "agree, M how often two draws of a system agree, C how often a draw agrees with a person. The "
    "overlap 2C / (H + M) is 1 for a perfect model.",
    "token": "At each position of a text the model gives a distribution, and the text has a token. "
    "Is the model right as often as it is sure?",
    "text": "Several people wrote a text to each input. H are distances between two people's "
    "texts, M between two of the generator's, C between one of each. The energy distance "
    "2C − M − H is 0 in expectation for a perfect generator; M above H means that the generator "
    "varies more than people.",
}


@dataclass(frozen=True)
class Site:
    """The runs, and how to link to them."""

    library: Library
    links: Links


def shown(value: float, measure: Measure) -> str:
    """A value of a measure as it stands in a table."""
    return UNDEFINED if math.isnan(value) else number(float(value), measure.digits)


def beginning(saved: str, level: str) -> str:
    """What a list shows of a context: its end, where the gap is, or the beginning of an input.

    >>> beginning("a " * 100, "word")[:5], beginning('["Hi", "you"]', "text")
    ('… a a', 'Hi / you')
    """
    if level == "text":
        text = in_one_line(saved)
        return text if len(text) <= CONTEXT_CHARS else f"{text[:CONTEXT_CHARS]} …"
    if len(saved) <= CONTEXT_CHARS:
        return saved
    return f"… {saved[-CONTEXT_CHARS:].lstrip()}"


def run_head(site: Site, run: OpenRun, here: str) -> Data:
    """What stands above every page of a run."""
    level = run.snapshot.level
    tabs = [("Overview", "", site.links.run(run.key))]
    if level == "token":
        tabs.append(("Reliability", "tokens", site.links.run(run.key, "tokens")))
    else:
        tabs.append((ITEMS[level].title(), "contexts", site.links.run(run.key, "contexts")))
        tabs.append(("Compare", "compare", site.links.to("compare", params=[("run", run.key)])))
    return {
        "run": run,
        "level": level,
        "tabs": [{"title": t, "here": key == here, "href": href} for t, key, href in tabs],
        "home": site.links.to() if len(site.library.runs) > 1 else None,
        "watch": None if run.progress.finished else site.links.run(run.key, "progress.json"),
    }


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
        """A share of the width."""
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, share: float) -> float:
        """A share of the height, from below."""
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)


def ticks(axis: Axis, place: Callable[[float], float]) -> list[tuple[float, str]]:
    """Where the numbers of an axis stand."""
    return [(place(axis.share(one)), f"{one:g}") for one in axis.ticks]


def cloud_plot(
    found: Cloud,
    labels: tuple[str, str],
    keys: tuple[str, str],
    link: Callable[[Cell, Sequence[Range]], str],
    frame: Frame | None = None,
) -> Data:
    """Two measures against each other: each mark leads to its item, or to the list of its items."""
    own = frame or Frame()
    most = max((cell.count for cell in found.cells), default=1)
    least = 4.4 if len(found.cells) < 60 else 3.2 if len(found.cells) < 300 else 2.6
    dots = []
    for cell in found.cells:
        ends = [Range(keys[0], *cell.x_ends), Range(keys[1], *cell.y_ends)]
        size = least + 3.4 * math.log(cell.count) / math.log(most) if most > 1 else least
        x, y = own.x(found.x_axis.share(cell.x)), own.y(found.y_axis.share(cell.y))
        dots.append(Dot(x, y, size, cell.count, link(cell, ends), _cell_label(cell, labels)))
    return {
        "frame": own,
        "dots": dots_markup(dots),
        "x_ticks": ticks(found.x_axis, own.x),
        "y_ticks": ticks(found.y_axis, own.y),
        "x_label": labels[0],
        "y_label": labels[1],
        "correlation": found.correlation,
        "n": found.n,
    }


def _cell_label(cell: Cell, labels: tuple[str, str]) -> str:
    many = "1 item" if cell.count == 1 else f"{cell.count} items"
    return f"{many}: {labels[0]} {cell.x:.3f}, {labels[1]} {cell.y:.3f}"


def histogram_plot(bins: Sequence[Bin], label: str, link: Callable[[Bin], str]) -> Data:
    """How often each value occurs; a bar leads to its items."""
    frame = Frame()
    most = max((one.count for one in bins), default=0) or 1
    x_axis = Axis.over(bins[0].low, bins[-1].high) if bins else Axis.over(0, 1)
    y_axis = Axis.over(0, most)
    bars = [
        {
            "x": frame.x(x_axis.share(one.low)) + 0.5,
            "width": max(1.0, frame.x(x_axis.share(one.high)) - frame.x(x_axis.share(one.low)) - 1),
            "y": frame.y(y_axis.share(one.count)),
            "height": round(frame.y(0) - frame.y(y_axis.share(one.count)), 1),
            "label": f"{one.count} from {one.low:.3f} to {one.high:.3f}",
            "href": link(one),
        }
        for one in bins
        if one.count
    ]
    return {
        "frame": frame,
        "bars": bars,
        "x_ticks": ticks(x_axis, frame.x),
        "y_ticks": ticks(y_axis, frame.y),
        "x_label": label,
        "y_label": "how many",
    }


def progress_data(run: OpenRun) -> Data:
    """How far a run has come, for pages and for those that ask again and again."""
    found = run.progress
    return {
        "total": found.total,
        "scored": found.scored,
        "scoring": found.scoring,
        "finished": found.finished,
        "version": ".".join(map(str, run.snapshot.version)),
        "summary": run.summary is not None and run.summary.version == run.snapshot.version,
        "systems": [
            {"name": s.name, "done": s.done, "finished": s.finished, "tokens": s.tokens}
            for s in found.systems
        ],
    }


def groups_of(run: OpenRun) -> tuple[str, ...]:
    """The groups to choose from; none where there are too many for a list."""
    groups = run.snapshot.items.groups
    return groups if len(groups) <= N_GROUPS else ()


def tag_of(run: OpenRun, place: int) -> str:
    """The part of speech of an item, where contexts are tagged."""
    tags: Mapping[str, Any] = run.tags
    return next((tag for tag, own in tags.items() if own[place]), "")
