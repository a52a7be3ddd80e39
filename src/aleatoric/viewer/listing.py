"""Lists of items: what two kinds of lists, of one system and of two, have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aleatoric.store.reading import AT_ONCE, heads_of
from aleatoric.types import Ints
from aleatoric.viewer.library import OpenRun
from aleatoric.viewer.links import Pairs
from aleatoric.viewer.measures import Measure
from aleatoric.viewer.pages.common import Data, beginning, shown, tag_of
from aleatoric.viewer.plots import Cell
from aleatoric.viewer.query import PAGE, Query, Range, n_pages, page_of
from aleatoric.viewer.snapshot import Columns

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


def cell_address(found: Listing) -> Callable[[Cell, Sequence[Range]], str]:
    """A mark of one item leads to the item, a larger one to the list of its items."""
    # A plot has a thousand marks: what their addresses share is made once.
    item = found.item_at(found.params())
    kept = found.at(found.params(page=1))

    def address(cell: Cell, ranges: Sequence[Range]) -> str:
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
