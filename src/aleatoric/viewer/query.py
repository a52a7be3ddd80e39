"""What a page was asked for, and the rows that answer it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Ints
from aleatoric.viewer.snapshot import Columns, Items

PAGE = 50
LONGEST = 500
"""Characters of a search that are looked at."""
ORDER = "order"
"""The sort key of the corpus' own order."""
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
    """A search, filters, an order and a page; what an address holds after its question mark."""

    text: str = ""
    group: str = ""
    tag: str = ""
    ranges: tuple[Range, ...] = ()
    sort: str = ORDER
    descending: bool = False
    page: int = 1

    def params(self, **changes: object) -> list[tuple[str, str]]:
        """As the pairs of an address, without what is not set.

        >>> Query(text="a b", sort="tvd", descending=True).params(page=2)
        [('q', 'a b'), ('sort', 'tvd'), ('dir', 'desc'), ('page', '2')]
        """
        own = replace(self, **changes)  # type: ignore[arg-type]
        found = [("q", own.text), ("group", own.group), ("pos", own.tag)]
        found += [("range", str(one)) for one in own.ranges]
        # Always said: which order comes first is the list's own affair.
        found += [("sort", own.sort), ("dir", "desc" if own.descending else "asc")]
        found += [("page", str(own.page))]
        return [(key, value) for key, value in found if value and (key, value) != ("page", "1")]


def parse(params: Params, first_sort: str = ORDER) -> Query:
    """The query of an address; what cannot be read is left out.

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
    """The first value of a parameter, or nothing.

    >>> one({"q": ["a", "b"]}, "q"), one({}, "q")
    ('a', '')
    """
    return next(iter(params.get(key, ())), "")


def select(
    columns: Columns, items: Items, query: Query, tags: Mapping[str, NDArray[np.bool_]]
) -> Ints:
    """The places of the rows that a query asks for, in its order; undefined values come last.

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
    """The rows of a page, counted from 1.

    >>> page_of(np.arange(7), 2, 5).tolist()
    [5, 6]
    """
    return rows[(page - 1) * size : page * size]


def n_pages(rows: Ints, size: int = PAGE) -> int:
    """How many pages there are; at least one.

    >>> n_pages(np.arange(0)), n_pages(np.arange(101), 50)
    (1, 3)
    """
    return max(1, math.ceil(len(rows) / size))


def _wanted(
    columns: Columns, items: Items, query: Query, tags: Mapping[str, NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    keep = np.ones(len(items), dtype=np.bool_)
    if query.text:
        keep &= items.texts.holding(query.text)
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
