"""What pages share: the site they belong to, numbers, shortened texts, plots with links."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aleatoric.report.explorer.library import Library, OpenRun
from aleatoric.report.explorer.plots import Axis, Bin, Cloud, PlotCell
from aleatoric.report.explorer.rendering import Dot, Links, Pairs, dots_markup
from aleatoric.report.explorer.snapshot import (
    PAGE,
    Columns,
    Measure,
    Query,
    Range,
    in_one_line,
    n_pages,
    page_of,
)
from aleatoric.report.tables import UNDEFINED, number
from aleatoric.runs.run import AT_ONCE, heads_of
from aleatoric.types import Ints

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
    link: Callable[[PlotCell, Sequence[Range]], str],
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


def _cell_label(cell: PlotCell, labels: tuple[str, str]) -> str:
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


Address = Callable[..., str]


@dataclass(frozen=True)
class Listing:
    """Rows in an order, with the addresses of the list itself and of its items.

    `fixed` are the parameters that say what the list is about; `shown` are the columns of its
    table; `at` makes an address of the list from parameters and `item_at` one of an item's page.
    """

    run: OpenRun
    columns: Columns
    shown: tuple[Measure, ...]
    query: Query
    rows: Ints
    fixed: tuple[tuple[str, str], ...]
    at: Callable[[Pairs], str]
    item_at: Callable[[Pairs], str]

    def params(self, **changes: object) -> list[tuple[str, str]]:
        """The parameters of this list, some of the query's changed."""
        return [*self.fixed, *self.query.params(**changes)]

    def number(self, row: int) -> int:
        """The number in the run of a row's item."""
        return int(self.run.snapshot.items.numbers[self.columns.places[row]])

    @property
    def page(self) -> int:
        """The page that is shown: the last one where a later one is asked for."""
        return min(self.query.page, n_pages(self.rows))


def listed(found: Listing) -> Data:
    """What the template of a list shows."""
    last, page = n_pages(found.rows), found.page
    return {
        "query": found.query,
        "n_found": len(found.rows),
        "n_all": len(found.columns.places),
        "first": (page - 1) * PAGE + 1 if len(found.rows) else 0,
        "page": page,
        "pages": last,
        "earlier": found.at(found.params(page=page - 1)) if page > 1 else None,
        "later": found.at(found.params(page=page + 1)) if page < last else None,
        "columns": [_heading(found, one) for one in found.shown],
        "rows": list(_lines(found, page_of(found.rows, page))),
        "ranges": [_chip(found, one) for one in found.query.ranges],
        "here": found.at(()),
        "fixed": found.fixed,
        "tags": sorted(found.run.tags),
    }


def csv_rows(found: Listing) -> Iterator[list[object]]:
    """Every row of the list, read some at a time."""
    values = [found.columns.values[one.key] for one in found.shown]
    with found.run.reading() as store:
        for start in range(0, len(found.rows), AT_ONCE):
            rows = found.rows[start : start + AT_ONCE].tolist()
            heads = heads_of(store, [found.number(row) for row in rows])
            for row in rows:
                item_id, group, context = heads[found.number(row)]
                tag = tag_of(found.run, int(found.columns.places[row]))
                yield [item_id, group, tag, *(float(own[row]) for own in values), context]


def csv_heading(found: Listing, names: Sequence[str] | None = None) -> list[str]:
    """The names of the columns of `csv_rows`."""
    own = names if names is not None else [one.key for one in found.shown]
    return ["id", "group", "pos", *own, "context"]


def narrowed(found: Listing, ranges: Sequence[Range]) -> str:
    """The list of those items alone that lie in some ranges."""
    keys = {one.key for one in ranges}
    kept = tuple(one for one in found.query.ranges if one.key not in keys)
    return found.at(found.params(ranges=(*kept, *ranges), page=1))


def cell_address(found: Listing) -> Callable[[PlotCell, Sequence[Range]], str]:
    """A mark of one item leads to the item, a larger one to the list of its items."""
    # A plot has a thousand marks: what their addresses share is made once.
    item = found.item_at(found.params())
    kept = found.at(found.params(page=1))

    def address(cell: PlotCell, ranges: Sequence[Range]) -> str:
        if cell.count > 1:
            return kept + "".join(map(_in_address, ranges))
        return f"{item}&no={found.number(cell.row)}"

    return address


def _in_address(own: Range) -> str:
    """A range as a further parameter of an address.

    >>> _in_address(Range("w1_C/a&b", 0.5, 1e16))
    '&range=w1_C/a%26b:0.5:1e%2B16'
    """
    # Quoting is slow and numbers need little of it.
    ends = f"{own.low!r}:{own.high!r}".replace("+", "%2B")
    key = own.key if own.key.isidentifier() and own.key.isascii() else quote(own.key)
    return f"&range={key}:{ends}"


def neighbours(found: Listing, place: int) -> Data:
    """The items before and after one in the list, and where it stands there."""
    at = (found.columns.places[found.rows] == place).nonzero()[0]
    if not len(at):
        return {"position": None, "n_listed": len(found.rows), "before": None, "after": None}
    position = int(at[0])
    near = {"before": position - 1, "after": position + 1}
    links: dict[str, Any] = {
        name: found.item_at([("no", str(found.number(int(found.rows[i])))), *found.params()])
        if 0 <= i < len(found.rows)
        else None
        for name, i in near.items()
    }
    back = found.params(page=position // PAGE + 1)
    return links | {"position": position + 1, "n_listed": len(found.rows), "back": found.at(back)}


def _heading(found: Listing, measure: Measure) -> Data:
    """A heading sorts by its measure, and again the other way round."""
    is_sorted, down = found.query.sort == measure.key, found.query.descending
    params = found.params(sort=measure.key, descending=not (is_sorted and down), page=1)
    way = ("descending" if down else "ascending") if is_sorted else None
    return {"measure": measure, "href": found.at(params), "sorted": way}


def _lines(found: Listing, rows: Ints) -> Iterator[Data]:
    with found.run.reading() as store:
        heads = heads_of(store, [found.number(row) for row in rows.tolist()])
    for row in rows.tolist():
        item_id, group, context = heads[found.number(row)]
        yield {
            "id": item_id,
            "group": group,
            "tag": tag_of(found.run, int(found.columns.places[row])),
            "context": beginning(context, found.run.snapshot.level),
            "cells": [shown(found.columns.values[one.key][row], one) for one in found.shown],
            "href": found.item_at([("id", item_id), *found.params()]),
        }


def _chip(found: Listing, own: Range) -> Data:
    """A range in force, with the address of the list without it."""
    named = {one.key: one.heading for one in (*found.run.snapshot.measures, *found.shown)}
    left = tuple(other for other in found.query.ranges if other != own)
    return {
        "text": f"{own.low:.3g} ≤ {named.get(own.key, own.key)} ≤ {own.high:.3g}",
        "href": found.at(found.params(ranges=left, page=1)),
        "value": str(own),
    }
