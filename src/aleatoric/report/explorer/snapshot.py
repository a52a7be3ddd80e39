"""A run as arrays, read at one moment, and queries over them: search, filter, sort."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aleatoric.report.item_data import Measure
from aleatoric.runs.run import Store, item_heads, stat_columns
from aleatoric.types import Floats, Ints

if TYPE_CHECKING:
    from aleatoric.report.views import View

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """Every item: its number in the run, its group, and its context to be searched."""

    numbers: Ints
    groups: tuple[str, ...]
    group_of: Ints
    """The place of each item's group among `groups`."""
    texts: tuple[str, ...]
    """What is searched of each item, without regard to case: id and context."""

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class MeasureColumns:
    """The measures of one system: one row per item, or several if repeated rows stay separate."""

    name: str
    places: Ints
    """The place of each row's item among the items."""
    values: Mapping[str, Floats]

    def mean(self, key: str) -> float | None:
        """Return the mean of a measure over the items that have it."""
        own = self.values.get(key, np.zeros(0))
        known = own[np.isfinite(own)]
        return float(known.mean()) if len(known) else None


@dataclass(frozen=True)
class Snapshot:
    """Everything that pages need of a run, except its texts and draws."""

    version: tuple[int, ...]
    view: View
    corpus: str
    corpus_sha256: str
    items: Items
    systems: Mapping[str, MeasureColumns]
    """The scored systems."""
    measures: tuple[Measure, ...] = ()
    tagger: str | None = None
    """What tags words, if the run was asked to tag them."""

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes that have measures of their own."""
        return tuple(dict.fromkeys(one.probe for one in self.measures if one.probe))

    def measure(self, key: str) -> Measure | None:
        """Return a measure by its key."""
        return next((one for one in self.measures if one.key == key), None)

    def is_control(self, system: str) -> bool:
        """Whether a system is people, not a model."""
        return system in self.view.level.controls

    @property
    def everything(self) -> MeasureColumns:
        """The items only, in the order of the corpus: what an unscored run can show."""
        return MeasureColumns("", np.arange(len(self.items)), {})


def take(
    store: Store, view: View, version: tuple[int, ...], earlier: Snapshot | None = None
) -> Snapshot:
    """Read a run as it is now; the items of an earlier snapshot are reused if they are all."""
    manifest = store.manifest
    whole = earlier is not None and len(earlier.items) == store.n_items
    items = earlier.items if earlier is not None and whole else _items(store, view)
    measures = view.measures(store.stat_columns()) if store.has_stats() else ()
    names = list(store.systems()) if measures else []
    return Snapshot(
        version=version,
        view=view,
        corpus=manifest["corpus"]["name"],
        corpus_sha256=manifest["corpus"]["sha256"],
        items=items,
        systems={name: _columns(store, name, measures, items) for name in names},
        measures=measures,
        tagger=manifest["tagger"] if "tvd_syn" in manifest.get("abstractions", ()) else None,
    )


def _items(store: Store, view: View) -> Items:
    numbers, groups, texts = [], [], []
    for no, item_id, group, context in item_heads(store):
        numbers.append(no)
        groups.append(group)
        texts.append(f"{item_id} {view.one_line(context)}".casefold())
    names = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    codes = np.array([names[group] for group in groups], dtype=np.int64)
    return Items(np.array(numbers, dtype=np.int64), tuple(names), codes, tuple(texts))


def _columns(
    store: Store, system: str, measures: tuple[Measure, ...], items: Items
) -> MeasureColumns:
    found = stat_columns(store, system, [one.column for one in measures])
    places = np.searchsorted(items.numbers, found.items)
    return MeasureColumns(system, places, {one.key: found.values[one.column] for one in measures})


PAGE = 50
LONGEST = 500
"""Characters of a search that are used."""
ORDER = "order"
"""The sort key of the order of the corpus."""
Params = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Range:
    """A measure between two ends, both included."""

    key: str
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.key}:{self.low!r}:{self.high!r}"


@dataclass(frozen=True)
class Query:
    """A search, filters, an order and a page: the parameters of an address."""

    text: str = ""
    group: str = ""
    tag: str = ""
    ranges: tuple[Range, ...] = ()
    sort: str = ORDER
    descending: bool = False
    page: int = 1

    def params(self, **changes: object) -> list[tuple[str, str]]:
        """Return the pairs of an address, without those that are not set.

        >>> Query(text="a b", sort="tvd", descending=True).params(page=2)
        [('q', 'a b'), ('sort', 'tvd'), ('dir', 'desc'), ('page', '2')]
        """
        own = replace(self, **changes)  # type: ignore[arg-type]
        found = [("q", own.text), ("group", own.group), ("pos", own.tag)]
        found += [("range", str(one)) for one in own.ranges]
        # Always given: the default order depends on the list.
        found += [("sort", own.sort), ("dir", "desc" if own.descending else "asc")]
        found += [("page", str(own.page))]
        return [(key, value) for key, value in found if value and (key, value) != ("page", "1")]


def parse(params: Params, first_sort: str = ORDER) -> Query:
    """Return the query of an address; what cannot be read is ignored.

    >>> parse({"q": ["a"], "of": ["tvd"], "min": ["0.5"], "page": ["x"]}).ranges
    (Range(key='tvd', low=0.5, high=inf),)
    """
    sort = one(params, "sort") or first_sort
    way = one(params, "dir") or ("desc" if sort == first_sort != ORDER else "asc")
    ranges = [_range(*text.rsplit(":", 2)) for text in params.get("range", ()) if _has_ends(text)]
    if one(params, "of") and (one(params, "min") or one(params, "max")):
        ranges.append(_range(one(params, "of"), one(params, "min"), one(params, "max")))
    return Query(
        text=one(params, "q")[:LONGEST],
        group=one(params, "group"),
        tag=one(params, "pos"),
        ranges=tuple(dict.fromkeys(ranges)),
        sort=sort,
        descending=way == "desc",
        page=_whole(one(params, "page")),
    )


def one(params: Params, key: str) -> str:
    """Return the first value of a parameter, or an empty text.

    >>> one({"q": ["a", "b"]}, "q"), one({}, "q")
    ('a', '')
    """
    return next(iter(params.get(key, ())), "")


def select(
    columns: MeasureColumns, items: Items, query: Query, tags: Mapping[str, NDArray[np.bool_]]
) -> Ints:
    """Return the places of the rows that a query asks for, in its order; undefined values last.

    `tags` maps a part of speech to the items that have it.
    """
    chosen = np.flatnonzero(_wanted(columns, items, query, tags)).astype(np.int64)
    values = columns.values.get(query.sort)
    if values is None:
        return chosen[::-1] if query.descending else chosen
    own = values[chosen]
    keys = np.where(np.isnan(own), np.inf, -own if query.descending else own)
    order: Ints = chosen[np.argsort(keys, kind="stable")]
    return order


def page_of(rows: Ints, page: int, size: int = PAGE) -> Ints:
    """Return the rows of a page, counted from 1.

    >>> page_of(np.arange(7), 2, 5).tolist()
    [5, 6]
    """
    return rows[(page - 1) * size : page * size]


def n_pages(rows: Ints, size: int = PAGE) -> int:
    """Return the number of pages; at least one.

    >>> n_pages(np.arange(0)), n_pages(np.arange(101), 50)
    (1, 3)
    """
    return max(1, math.ceil(len(rows) / size))


def _wanted(
    columns: MeasureColumns, items: Items, query: Query, tags: Mapping[str, NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    keep = np.ones(len(items), dtype=np.bool_)
    if query.text:
        wanted_text = query.text.casefold()
        keep &= np.array([wanted_text in text for text in items.texts], dtype=np.bool_)
    if query.group:
        known = {name: code for code, name in enumerate(items.groups)}
        keep &= items.group_of == known.get(query.group, -1)
    if query.tag:
        keep &= tags.get(query.tag, np.zeros(len(items), dtype=np.bool_))
    found: NDArray[np.bool_] = keep[columns.places]
    for wanted in query.ranges:
        values = columns.values.get(wanted.key)
        if values is not None:
            found = found & (values >= wanted.low) & (values <= wanted.high)
    return found


def _range(key: str, low: str, high: str) -> Range:
    return Range(key, _number(low, -math.inf), _number(high, math.inf))


def _has_ends(text: str) -> bool:
    return text.count(":") >= 2


def _number(text: str, otherwise: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return otherwise
    return otherwise if math.isnan(value) else value


def _whole(text: str) -> int:
    return max(1, int(text[:9])) if text.isascii() and text.isdecimal() else 1
