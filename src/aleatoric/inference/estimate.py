"""One walk over per-item statistics: sums by group, then values with their intervals."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from aleatoric.inference.bootstrap import DEFAULT_METHOD, Resampled, resample
from aleatoric.types import Estimate, Floats

Chunk = Mapping[str, Floats]
MAX_UNITS = 1000
NO_ITEMS = "there are no items"


class Reduction(Protocol):
    """Additive columns of a chunk of items, and the value of their sums."""

    def columns(self, chunk: Chunk) -> Floats:
        """(items, k) columns whose sums over any set of items are enough for `values`."""
        ...

    def values(self, sums: Floats) -> Floats:
        """(..., k) sums -> (..., splits) values; NaN where undefined."""
        ...

    def defined(self, sums: Floats) -> int:
        """How many items the sums stand on, leaving undefined ones out."""
        ...


class Units:
    """Resampling units: a group each, until there are too many of them.

    Beyond `MAX_UNITS` groups, further ones join a unit by their name's checksum. Units stay
    independent of each other, so resampling them is still right, and tables of sums stay small.

    >>> units = Units()
    >>> units.numbers(["a", "b", "a"]), len(units), units.n_pooled
    ([0, 1, 0], 2, 0)
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._pooled: set[int] = set()

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, groups: Iterable[str]) -> list[int]:
        """The unit of each group; new groups become units in the order in which they come."""
        return [self._number(group) for group in groups]

    def _number(self, group: str) -> int:
        if group not in self._numbers and len(self._numbers) >= MAX_UNITS:
            self._pooled.add(hash(group))
            return zlib.crc32(group.encode()) % MAX_UNITS
        return self._numbers.setdefault(group, len(self._numbers))

    @property
    def n_pooled(self) -> int:
        """How many groups share a unit with others because there are too many."""
        return len(self._pooled)


class GroupSums:
    """Sums of columns by resampling unit.

    >>> sums = GroupSums()
    >>> sums.add(["a", "b", "a"], np.array([[1.0], [2.0], [3.0]]))
    >>> sums.table.tolist(), sums.n_items
    ([[4.0], [2.0]], 3)
    """

    def __init__(self, units: Units | None = None) -> None:
        self._units = Units() if units is None else units
        self._table: Floats = np.zeros((0, 0))
        self.n_items = 0

    def add(self, groups: list[str], columns: Floats) -> None:
        """Add one row of columns an item."""
        self.add_rows(self._units.numbers(groups), columns)

    def add_rows(self, numbers: list[int], columns: Floats) -> None:
        """Add one row of columns an item, whose unit's number is known."""
        if len(self._units) > len(self._table):
            grown = np.zeros((len(self._units), columns.shape[1]))
            grown[: len(self._table)] = self._table if self._table.size else 0.0
            self._table = grown
        np.add.at(self._table, numbers, columns)
        self.n_items += len(numbers)

    @property
    def n_pooled(self) -> int:
        """How many groups share a unit with others because there are too many."""
        return self._units.n_pooled

    @property
    def table(self) -> Floats:
        """(units, k) sums, in the order in which the units appeared."""
        return self._table


def estimates(
    pages: Iterable[tuple[list[str], Chunk]],
    reductions: Mapping[str, Reduction],
    seed: int,
    method: str = DEFAULT_METHOD,
) -> dict[str, Estimate]:
    """Every reduction's value and group-bootstrap interval, from one walk over the pages."""
    sums = walk(pages, reductions)
    return {name: estimate(sums[name], r, seed, method) for name, r in reductions.items()}


def walk(
    pages: Iterable[tuple[list[str], Chunk]], reductions: Mapping[str, Reduction]
) -> dict[str, GroupSums]:
    """The sums by group of every reduction, from one walk over the pages."""
    units = Units()  # the same for all: a million groups are remembered once
    sums = {name: GroupSums(units) for name in reductions}
    for groups, chunk in pages:
        numbers = units.numbers(groups)
        for name, reduction in reductions.items():
            sums[name].add_rows(numbers, reduction.columns(chunk))
    return sums


def value_of(sums: GroupSums, reduction: Reduction) -> float | None:
    """The value of all items together, where no interval is wanted; `None` where undefined."""
    if not sums.n_items:
        return None
    value = float(mean_of_splits(reduction.values(sums.table.sum(axis=0))))
    return None if np.isnan(value) else value


def estimate(
    sums: GroupSums, reduction: Reduction, seed: int, method: str = DEFAULT_METHOD
) -> Estimate:
    """The value of all items together, its spread over splits, and its interval over groups.

    What cannot be known is `None`, with the reason beside it.
    """
    if not sums.n_items:
        return Estimate(None, None, 0, 0, reason=NO_ITEMS)
    total = sums.table.sum(axis=0)
    by_split, defined = reduction.values(total), reduction.defined(total)
    undefined = sums.n_items - defined
    if np.isnan(by_split).all():
        # Items that have a value each may still be too few for one together.
        lacking = undefined or defined
        return Estimate(None, None, 0, 0, lacking, reason=_undefined(undefined, defined))
    own = defined_groups(sums, reduction)
    found = _interval(own, reduction, seed, method, sums.n_pooled)
    known = by_split[np.isfinite(by_split)]  # a ratio may be undefined on some splits
    spread = float(known.std(ddof=1)) if len(known) > 1 else None
    value, groups = float(mean_of_splits(by_split)), len(own) + sums.n_pooled
    return Estimate(
        value, found.interval, defined, groups, undefined, spread=spread, reason=found.reason
    )


def defined_groups(sums: GroupSums, reduction: Reduction) -> Floats:
    """The sums of the groups that have a value."""
    return sums.table[[reduction.defined(row) > 0 for row in sums.table]]


def _undefined(n_items: int, n_defined: int) -> str:
    if n_defined:
        return f"too few items: {n_defined} of them make no value together"
    whom = "the only item" if n_items == 1 else f"all {n_items} items"
    return f"undefined on {whom}: too few answers or draws, or nothing to compare with"


def _interval(
    table: Floats, reduction: Reduction, seed: int, method: str, n_pooled: int
) -> Resampled:
    """The interval of the groups that have a value: one without takes no part in resampling."""
    found = resample(table, lambda s: mean_of_splits(reduction.values(s)), seed, method=method)
    if found.interval is None or not n_pooled:
        return found
    told = f"{found.interval.method}, groups pooled into {MAX_UNITS} units"
    return replace(found, interval=replace(found.interval, method=told))


def mean_of_splits(by_split: Floats) -> Floats:
    """Mean over splits, leaving undefined ones out."""
    known = np.isfinite(by_split)
    counts = known.sum(axis=-1)
    totals = np.where(known, by_split, 0.0).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(counts > 0, totals / counts, np.nan)
    return mean
