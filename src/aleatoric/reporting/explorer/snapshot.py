"""A run as arrays, read at one moment, and queries over them: search, filter, sort."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aleatoric.levels.base import level_of
from aleatoric.reporting.page_data import Measure
from aleatoric.result_types import Labels
from aleatoric.runs.run import Store, item_heads, stat_columns
from aleatoric.studies import filters
from aleatoric.types import Floats, Ints

if TYPE_CHECKING:
    from aleatoric.reporting.views import View

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """Every item: its number in the run, its group, and its context to be searched."""

    numbers: Ints
    groups: tuple[str, ...]
    group_of: Ints
    """The place of each item's group among `groups`."""
    texts: tuple[str, ...]
    """The searched text of each item, case-folded: id and context."""

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class MeasureColumns:
    """The measures of one system: one row per item, or several if repeated rows stay separate."""

    name: str
    places: Ints
    """The place of each row's item among the items."""
    values: Mapping[str, Floats]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    """The labels among the measures, whose codes are also among the values."""

    def mean(self, key: str) -> float | None:
        """Return the mean of a measure over the items that have it."""
        values = self.values.get(key, np.zeros(0))
        defined = values[np.isfinite(values)]
        return float(defined.mean()) if len(defined) else None


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
    """The tagger of words, if the run uses one."""

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes that have measures."""
        return tuple(dict.fromkeys(measure.probe for measure in self.measures if measure.probe))

    def measure(self, key: str) -> Measure | None:
        """Return a measure by its key."""
        return next((measure for measure in self.measures if measure.key == key), None)

    def is_control(self, system: str) -> bool:
        """Whether a system is people, not a model."""
        return system in self.view.level.controls


def take(
    store: Store, view: View, version: tuple[int, ...], earlier: Snapshot | None = None
) -> Snapshot:
    """Read the current state of a run; reuse the items of an earlier snapshot if none is new."""
    manifest = store.manifest
    is_whole = earlier is not None and len(earlier.items) == store.n_items
    items = earlier.items if earlier is not None and is_whole else _items(store, view)
    measures = view.measures(store.stat_columns()) if store.has_stats() else ()
    names = store.systems() if measures else ()
    return Snapshot(
        version=version,
        view=view,
        corpus=manifest["corpus"]["name"],
        corpus_sha256=manifest["corpus"]["sha256"],
        items=items,
        systems={name: _scored(store, name, items, measures) for name in names},
        measures=measures,
        tagger=manifest["tagger"] if "tvd_syn" in manifest.get("abstractions", ()) else None,
    )


def _scored(store: Store, system: str, items: Items, measures: Sequence[Measure]) -> MeasureColumns:
    columns = {measure.key: measure.column for measure in measures if not measure.names}
    numbers, saved = stat_columns(store, system, list(dict.fromkeys(columns.values())))
    computed = level_of(store).labels(store, system)
    undefined = np.full(len(numbers), np.nan)
    labels = {m.key: computed.get(m.key, Labels(undefined, m.names)) for m in measures if m.names}
    values = {key: saved[column] for key, column in columns.items()}
    values |= {key: own.codes for key, own in labels.items()}
    return MeasureColumns(system, np.searchsorted(items.numbers, numbers), values, labels)


def _items(store: Store, view: View) -> Items:
    numbers, groups, texts = [], [], []
    for no, item_id, group, context in item_heads(store):
        numbers.append(no)
        groups.append(group)
        texts.append(f"{item_id} {view.one_line(context)}".casefold())
    names = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    codes = np.array([names[group] for group in groups], dtype=np.int64)
    return Items(np.array(numbers, dtype=np.int64), tuple(names), codes, tuple(texts))


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
    where: str = ""
    """A filter expression of measures."""
    sort: str = ORDER
    descending: bool = False
    page: int = 1

    def params(self, **changes: object) -> list[tuple[str, str]]:
        """Return the pairs of an address, without those that are not set."""
        query = replace(self, **changes)  # type: ignore[arg-type]
        pairs = [("q", query.text), ("group", query.group), ("pos", query.tag)]
        pairs += [("range", str(ends)) for ends in query.ranges]
        pairs += [("where", query.where)]
        # Always given: the default order depends on the list.
        pairs += [("sort", query.sort), ("dir", "desc" if query.descending else "asc")]
        pairs += [("page", str(query.page) if query.page > 1 else "")]
        return [(key, value) for key, value in pairs if value]


def parse(params: Params, first_sort: str = ORDER) -> Query:
    """Return the query of an address; what cannot be read is ignored."""
    sort, page = one(params, "sort") or first_sort, one(params, "page")
    way = one(params, "dir") or ("desc" if sort == first_sort != ORDER else "asc")
    ranges = [_range(*t.rsplit(":", 2)) for t in params.get("range", ()) if t.count(":") >= 2]
    if one(params, "of") and (one(params, "min") or one(params, "max")):
        ranges.append(_range(one(params, "of"), one(params, "min"), one(params, "max")))
    return Query(
        text=one(params, "q")[:LONGEST],
        group=one(params, "group"),
        tag=one(params, "pos"),
        ranges=tuple(dict.fromkeys(ranges)),
        where=one(params, "where")[: filters.LONGEST],
        sort=sort,
        descending=way == "desc",
        page=max(1, int(page[:9])) if page.isascii() and page.isdecimal() else 1,
    )


def one(params: Params, key: str) -> str:
    """Return the first value of a parameter, or an empty text."""
    return next(iter(params.get(key, ())), "")


def select(columns: MeasureColumns, items: Items, query: Query, tags: Mapping[str, Flags]) -> Ints:
    """Return the places of the rows that a query asks for, in its order; undefined values last.

    A filter expression that cannot be read raises `UsageError`. `tags` maps a part of speech to the
    items that have it.
    """
    chosen = np.flatnonzero(_selected(columns, items, query, tags)).astype(np.int64)
    values = columns.values.get(query.sort)
    if values is None:
        return chosen[::-1] if query.descending else chosen
    sort_by = values[chosen]
    keys = np.where(np.isnan(sort_by), np.inf, -sort_by if query.descending else sort_by)
    order: Ints = chosen[np.argsort(keys, kind="stable")]
    return order


def _selected(
    columns: MeasureColumns, items: Items, query: Query, tags: Mapping[str, Flags]
) -> Flags:
    keep = np.ones(len(items), dtype=np.bool_)
    if query.text:
        search = query.text.casefold()
        keep &= np.array([search in text for text in items.texts], dtype=np.bool_)
    if query.group:
        codes = {name: code for code, name in enumerate(items.groups)}
        keep &= items.group_of == codes.get(query.group, -1)
    if query.tag:
        keep &= tags.get(query.tag, False)
    rows: Flags = keep[columns.places]
    for limits in query.ranges:
        if (values := columns.values.get(limits.key)) is not None:
            rows = rows & (values >= limits.low) & (values <= limits.high)
    if query.where.strip():
        rows = rows & filters.chosen(query.where, {**columns.values, **columns.labels})
    return rows


def _range(key: str, *ends: str) -> Range:
    """Return a range; an end that is no number is open."""
    numbers = []
    for text, otherwise in zip(ends, (-math.inf, math.inf), strict=True):
        try:
            value = float(text)
        except ValueError:
            value = otherwise
        numbers.append(otherwise if math.isnan(value) else value)
    return Range(key, *numbers)
