"""Addresses and answers; lists of items, of one system or of two, as pages and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import numpy as np

from aleatoric.data.files import csv_text
from aleatoric.errors import UsageError
from aleatoric.reporting.explorer.plots import Data, PlotCell
from aleatoric.reporting.explorer.snapshot import (
    MeasureColumns,
    Params,
    Query,
    Range,
    one,
    parse,
    select,
)
from aleatoric.reporting.page_data import Measure
from aleatoric.reporting.tables import UNDEFINED, number
from aleatoric.runs.run import AT_ONCE, heads_of
from aleatoric.types import Ints

if TYPE_CHECKING:
    from aleatoric.reporting.explorer.library import Library, OpenRun

HTML, JSON, CSV = "text/html; charset=utf-8", "application/json", "text/csv; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """A page, a JSON document or a file to download."""

    kind: str
    body: bytes | Iterable[bytes]
    """Whole, or in parts if it may be long."""
    status: int = 200
    filename: str | None = None
    location: str | None = None
    lasting: bool = False
    """Whether a browser may cache it."""


class NotFoundError(Exception):
    """There is no such page, run or item; the message is shown to the reader."""


def csv_lines(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[bytes]:
    """Yield a heading and rows as encoded CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(heading))
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        if out.tell() > 1 << 16:
            yield out.getvalue().encode("utf-8", "backslashreplace")
            out.seek(0)
            out.truncate()
    yield out.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return ""
    return csv_text(value) if isinstance(value, str) else value


Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Site:
    """The runs and the addresses of their pages."""

    library: Library
    token: str
    """The secret that all addresses begin with."""

    def to(self, *parts: str, params: Pairs = ()) -> str:
        """Return the address of a page; parameters without a value are left out."""
        path = "/".join(quote(part, safe="") for part in (self.token, *parts))
        query = urlencode([(key, value) for key, value in params if value])
        return f"/{path}?{query}" if query else f"/{path}"

    def run(self, key: str, *parts: str, params: Pairs = ()) -> str:
        """Return the address of a page of one run."""
        return self.to("run", key, *parts, params=params)

    def find(self, key: str) -> OpenRun:
        """Return a run by its key in addresses."""
        run = next((run for run in self.library.runs if run.key == key), None)
        if run is None:
            raise NotFoundError("There is no such run.")
        return run


PAGE = 50
"""Rows on a page of a list."""
A, B, DIFFERENCE, GAP = "a", "b", "difference", "gap"


@dataclass(frozen=True)
class NamedSystem:
    """A system of a run, as readers and addresses name it."""

    run: OpenRun
    system: str
    label: str

    @property
    def key(self) -> str:
        """The name of the system in addresses."""
        return f"{self.run.key}:{self.system}"

    @property
    def is_control(self) -> bool:
        """Whether the system is people, not a model."""
        return self.run.snapshot.is_control(self.system)


@dataclass(frozen=True)
class Listing:
    """Items of one or two systems in an order, with the addresses of the list and of its items.

    `fixed` are the parameters that say what the list is about; `shown` are its columns.
    """

    site: Site
    run: OpenRun
    systems: tuple[NamedSystem, ...]
    columns: MeasureColumns
    shown: tuple[Measure, ...]
    query: Query
    rows: Ints
    fixed: tuple[tuple[str, str], ...]
    path: tuple[str, ...]
    """The parts of its address."""
    problem: str = ""
    """What is wrong with the filter expression, which is then not applied."""

    def at(self, pairs: Pairs) -> str:
        """Return the address of the list with these parameters."""
        return self.site.to(*self.path, params=pairs)

    def item_at(self, pairs: Pairs) -> str:
        """Return the address of an item's page with these parameters."""
        return self.site.run(self.run.key, "context", params=pairs)

    def params(self, **changes: object) -> list[tuple[str, str]]:
        """Return the parameters of this list, with some of the query's changed."""
        return [*self.fixed, *self.query.params(**changes)]

    def number(self, row: int) -> int:
        """Return the number in the run of a row's item."""
        return int(self.run.snapshot.items.numbers[self.columns.places[row]])


def run_head(site: Site, run: OpenRun, here: str) -> Data:
    """Return the data of the header that all pages of a run share."""
    view = run.snapshot.view
    tabs = [("Overview", "", site.run(run.key))]
    if view.has_items:
        tabs.append((view.items.title(), "contexts", site.run(run.key, "contexts")))
        tabs.append(("Compare", "compare", site.to("compare", params=[("run", run.key)])))
    else:
        tabs.append(("Reliability", "tokens", site.run(run.key, "tokens")))
    return {
        "run": run,
        "tabs": [{"title": t, "here": key == here, "href": href} for t, key, href in tabs],
        "home": site.to() if len(site.library.runs) > 1 else None,
        "watch": None if run.progress["finished"] else site.run(run.key, "progress.json"),
    }


def system_listing(site: Site, run: OpenRun, params: Params) -> Listing:
    """Return the list of one system's items that an address asks for."""
    snapshot = run.snapshot
    name, systems = one(params, "system"), snapshot.systems
    if systems and name and name not in systems:
        raise NotFoundError(f"This run has no scored system “{name}”.")
    name = name or next(
        (key for key in systems if not snapshot.is_control(key)), next(iter(systems), "")
    )
    # An unscored run shows its items in the order of the corpus.
    columns = systems.get(name) or MeasureColumns("", np.arange(len(snapshot.items)), {})
    probe = one(params, "probe")
    probe = probe if probe in snapshot.probes else next(iter(snapshot.probes), "")
    measures = tuple(measure for measure in snapshot.measures if measure.probe == probe)
    fixed = tuple(pair for pair in (("system", columns.name), ("probe", probe)) if pair[1])
    query = parse(params, *(measure.key for measure in measures[:1]))
    rows, problem = _selected(columns, run, query)
    chosen, path = (NamedSystem(run, columns.name, columns.name),), ("run", run.key, "contexts")
    return Listing(site, run, chosen, columns, measures, query, rows, fixed, path, problem)


def _selected(columns: MeasureColumns, run: OpenRun, query: Query) -> tuple[Ints, str]:
    """Return the rows of a query, and what is wrong with its filter, which is then left out."""
    try:
        return select(columns, run.snapshot.items, query, run.tags), ""
    except UsageError as error:
        query = replace(query, where="")
        return select(columns, run.snapshot.items, query, run.tags), str(error)


def _compared_measures(measure: Measure, labels: tuple[str, str]) -> tuple[Measure, ...]:
    """A measure of each of two systems, then its difference and absolute difference."""
    what = measure.heading
    headings = {key: (name, f"{what} of {name}") for key, name in zip((A, B), labels, strict=True)}
    headings[DIFFERENCE] = ("difference", f"{what} of the first minus that of the second")
    headings[GAP] = ("|difference|", "absolute difference between the two")
    return tuple(
        replace(measure, key=key, heading=heading, about=about)
        for key, (heading, about) in headings.items()
    )


def two_systems(site: Site, params: Params) -> tuple[Listing, Measure] | None:
    """Return the items of two systems and a measure of both; `None` if there are none."""
    systems = candidates(site, run_of(site, params))
    if len(systems) < 2:
        return None
    by_key = {named.key: named for named in systems}
    first = by_key.get(one(params, A), systems[0])
    others = (named for named in systems if named != first and common_measures(first, named))
    second = by_key.get(one(params, B)) or next(others, None)
    measures = {m.key: m for m in common_measures(first, second)} if second else {}
    if second is None or not measures:
        return None
    measure = measures.get(one(params, "measure")) or next(iter(measures.values()))
    left, right = (named.run.snapshot.systems[named.system] for named in (first, second))
    columns = joined(left, right, measure.key)
    shown = _compared_measures(measure, (first.label, second.label))
    fixed = (("a", first.key), ("b", second.key), ("measure", measure.key))
    query = parse(params, GAP)
    rows, problem = _selected(columns, first.run, query)
    pair, path = (first, second), ("compare",)
    found = Listing(site, first.run, pair, columns, shown, query, rows, fixed, path, problem)
    return found, measure


def common_measures(first: NamedSystem, second: NamedSystem) -> tuple[Measure, ...]:
    """Return the measures of the first system's run that the second's has too."""
    saved = second.run.snapshot.systems[second.system].values
    return tuple(measure for measure in first.run.snapshot.measures if measure.key in saved)


def run_of(site: Site, params: Params) -> OpenRun:
    """Return the run that a comparison starts from."""
    return site.find(one(params, A).partition(":")[0] or one(params, "run") or "0")


def candidates(site: Site, run: OpenRun) -> list[NamedSystem]:
    """Return the systems that can be compared with those of a run: models before controls.

    A name that two runs share is followed by the name of its run.
    """
    pairs = [
        (open_run, name)
        for open_run in site.library.beside(run)
        for name in open_run.snapshot.systems
        if name not in open_run.snapshot.view.not_compared
    ]
    names = [name for _, name in pairs]
    named = [
        NamedSystem(open_run, name, name if names.count(name) == 1 else f"{name} ({open_run.name})")
        for open_run, name in pairs
    ]
    return sorted(named, key=lambda candidate: candidate.is_control)


def joined(first: MeasureColumns, second: MeasureColumns, key: str) -> MeasureColumns:
    """Both systems' values of a measure on their common items, and their differences."""
    # If an item has several rows, the first one is used.
    places = [np.unique(columns.places, return_index=True) for columns in (first, second)]
    common, first_at, second_at = np.intersect1d(
        places[0][0], places[1][0], assume_unique=True, return_indices=True
    )
    a = first.values[key][places[0][1][first_at]]
    b = second.values[key][places[1][1][second_at]]
    values = {A: a, B: b, DIFFERENCE: a - b, GAP: np.abs(a - b)}
    return MeasureColumns("", common.astype(np.int64), values)


def listed(items: Listing) -> Data:
    """Return what the template of a list shows."""
    last = max(1, math.ceil(len(items.rows) / PAGE))
    # A page number beyond the last page shows the last page.
    page = min(items.query.page, last)
    return {
        "list": items,
        "first": (page - 1) * PAGE + 1 if len(items.rows) else 0,
        "page": page,
        "pages": last,
        "columns": [_heading(items, measure) for measure in items.shown],
        "rows": list(_lines(items, items.rows[(page - 1) * PAGE : page * PAGE].tolist())),
        "ranges": [_chip(items, limits) for limits in items.query.ranges],
        "tags": sorted(items.run.tags),
    }


def csv_answer(items: Listing, filename: str, names: Sequence[str] | None = None) -> Answer:
    """Return the whole list as CSV, in the order shown."""
    if items.problem:
        raise NotFoundError(items.problem)
    column_names = names if names is not None else [measure.key for measure in items.shown]
    heading = ["id", "group", "pos", *column_names, "context"]
    return Answer(CSV, csv_lines(heading, _csv_rows(items)), filename=filename)


def _csv_rows(items: Listing) -> Iterator[list[object]]:
    """Yield every row of the list; a part of them is read at a time."""
    columns = [_csv_column(items.columns, measure) for measure in items.shown]
    with items.run.reading() as store:
        for start in range(0, len(items.rows), AT_ONCE):
            rows = items.rows[start : start + AT_ONCE].tolist()
            heads = heads_of(store, [items.number(row) for row in rows])
            for row in rows:
                item_id, group, context = heads[items.number(row)]
                tag = tag_of(items.run, int(items.columns.places[row]))
                yield [item_id, group, tag, *(column[row] for column in columns), context]


def _csv_column(columns: MeasureColumns, measure: Measure) -> Sequence[object]:
    """Return the numbers of a measure, or its labels by name."""
    labels = columns.labels.get(measure.key)
    return columns.values[measure.key].tolist() if labels is None else list(labels)


def cell_address(items: Listing, keys: tuple[str, str]) -> Callable[[PlotCell], str]:
    """Return the address of a mark: an item's page, or the list of several items."""
    # A plot has a thousand marks: the common part of their addresses is computed once.
    item, kept = items.item_at(items.params()), items.at(items.params(page=1))
    quoted = tuple(map(quote, keys))

    def address(cell: PlotCell) -> str:
        if cell.count == 1:
            return f"{item}&no={items.number(cell.row)}"
        across, up = Range(quoted[0], *cell.x_ends), Range(quoted[1], *cell.y_ends)
        # Of a number, such as 1e+16, only the plus sign must be quoted.
        return kept + f"&range={across}&range={up}".replace("+", "%2B")

    return address


def neighbors(items: Listing, place: int) -> Data:
    """Return the items before and after one in the list, and its position there."""
    at = (items.columns.places[items.rows] == place).nonzero()[0]
    if not len(at):
        return {"position": None, "n_listed": len(items.rows), "before": None, "after": None}
    position = int(at[0])
    links: dict[str, Any] = {
        name: items.item_at([("no", str(items.number(int(items.rows[i])))), *items.params()])
        if 0 <= i < len(items.rows)
        else None
        for name, i in (("before", position - 1), ("after", position + 1))
    }
    back = items.params(page=position // PAGE + 1)
    return links | {"position": position + 1, "n_listed": len(items.rows), "back": items.at(back)}


def shown_value(value: float, measure: Measure) -> str:
    """Return a value of a measure as tables show it."""
    if measure.names and not math.isnan(value):
        return measure.names[int(value)]
    return UNDEFINED if math.isnan(value) else number(float(value), measure.digits)


def tag_of(run: OpenRun, place: int) -> str:
    """Return the part of speech of an item, if contexts are tagged."""
    return next((tag for tag, has_tag in run.tags.items() if has_tag[place]), "")


def _heading(items: Listing, measure: Measure) -> Data:
    """Return a heading that sorts by its measure, the other way round if it is sorted already."""
    is_sorted, down = items.query.sort == measure.key, items.query.descending
    params = items.params(sort=measure.key, descending=not (is_sorted and down), page=1)
    way = ("descending" if down else "ascending") if is_sorted else None
    return {"measure": measure, "href": items.at(params), "sorted": way}


def _lines(items: Listing, rows: list[int]) -> Iterator[Data]:
    with items.run.reading() as store:
        heads = heads_of(store, [items.number(row) for row in rows])
    for row in rows:
        item_id, group, context = heads[items.number(row)]
        values = ((items.columns.values[measure.key][row], measure) for measure in items.shown)
        yield {
            "id": item_id,
            "group": group,
            "tag": tag_of(items.run, int(items.columns.places[row])),
            "context": items.run.snapshot.view.excerpt(context),
            "cells": [shown_value(*pair) for pair in values],
            "href": items.item_at([("id", item_id), *items.params()]),
        }


def _chip(items: Listing, limits: Range) -> Data:
    """Return a range in force, with the address of the list without it."""
    named = {m.key: m.heading for m in (*items.run.snapshot.measures, *items.shown)}
    remaining = tuple(other for other in items.query.ranges if other != limits)
    return {
        "text": f"{limits.low:.3g} ≤ {named.get(limits.key, limits.key)} ≤ {limits.high:.3g}",
        "href": items.at(items.params(ranges=remaining, page=1)),
        "value": str(limits),
    }
