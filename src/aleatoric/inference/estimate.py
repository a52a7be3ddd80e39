"""One walk over per-item statistics: sums by group, then values with their intervals."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.bootstrap import group_bootstraps
from aleatoric.types import Estimate, Interval

Floats = NDArray[np.float64]
Chunk = Mapping[str, Floats]
MAX_UNITS = 1000


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


class GroupSums:
    """Sums of columns by resampling unit: a group, until there are too many of them.

    Beyond `MAX_UNITS` groups, further ones join a unit by their name's checksum. Units stay
    independent of each other, so resampling them is still right, and memory stays bounded.

    >>> sums = GroupSums()
    >>> sums.add(["a", "b", "a"], np.array([[1.0], [2.0], [3.0]]))
    >>> sums.table.tolist(), sums.n_items
    ([[4.0], [2.0]], 3)
    """

    def __init__(self) -> None:
        self._units: dict[str, int] = {}
        self._pooled: set[int] = set()
        self._table: Floats = np.zeros((0, 0))
        self.n_items = 0

    def add(self, groups: list[str], columns: Floats) -> None:
        """Add one row of columns an item."""
        units = [self._unit(group) for group in groups]
        if len(self._units) > len(self._table):
            grown = np.zeros((len(self._units), columns.shape[1]))
            grown[: len(self._table)] = self._table if self._table.size else 0.0
            self._table = grown
        np.add.at(self._table, units, columns)
        self.n_items += len(groups)

    def _unit(self, group: str) -> int:
        if group not in self._units and len(self._units) >= MAX_UNITS:
            self._pooled.add(hash(group))
            return zlib.crc32(group.encode()) % MAX_UNITS
        return self._units.setdefault(group, len(self._units))

    @property
    def n_pooled(self) -> int:
        """How many groups share a unit with others because there are too many."""
        return len(self._pooled)

    @property
    def table(self) -> Floats:
        """(units, k) sums, in the order in which the units appeared."""
        return self._table


def estimates(
    pages: Iterable[tuple[list[str], Chunk]], reductions: Mapping[str, Reduction], seed: int
) -> dict[str, Estimate]:
    """Every reduction's value and group-bootstrap interval, from one walk over the pages."""
    sums = {name: GroupSums() for name in reductions}
    for groups, chunk in pages:
        for name, reduction in reductions.items():
            sums[name].add(groups, reduction.columns(chunk))
    tables = [own.table for own in sums.values()]
    intervals = group_bootstraps(tables, [_value_of(r) for r in reductions.values()], seed)
    return {
        name: _summed_up(sums[name], reduction, interval)
        for (name, reduction), interval in zip(reductions.items(), intervals, strict=True)
    }


def estimate(sums: GroupSums, reduction: Reduction, seed: int) -> Estimate:
    """The value of all items together, its spread over splits, and its interval over groups."""
    (interval,) = group_bootstraps([sums.table], [_value_of(reduction)], seed)
    return _summed_up(sums, reduction, interval)


def _value_of(reduction: Reduction) -> Callable[[Floats], Floats]:
    return lambda sums: _mean(reduction.values(sums))


def _summed_up(sums: GroupSums, reduction: Reduction, interval: Interval | None) -> Estimate:
    if not sums.n_items:
        return Estimate(None, None, 0, 0)
    total = sums.table.sum(axis=0)
    by_split = reduction.values(total)
    defined = reduction.defined(total)
    undefined = sums.n_items - defined
    if np.isnan(by_split).all():
        return Estimate(None, None, 0, 0, undefined)
    spread = float(by_split.std(ddof=1)) if len(by_split) > 1 else None
    groups = sum(reduction.defined(row) > 0 for row in sums.table) + sums.n_pooled
    if interval is not None and sums.n_pooled:
        method = f"{interval.method}, groups pooled into {MAX_UNITS} units"
        interval = replace(interval, method=method)
    value = float(_mean(by_split))
    return Estimate(value, interval, defined, groups, undefined, spread=spread)


def _mean(by_split: Floats) -> Floats:
    """Mean over splits, leaving undefined ones out."""
    known = np.isfinite(by_split)
    counts = known.sum(axis=-1)
    totals = np.where(known, by_split, 0.0).sum(axis=-1)
    undefined = np.full(np.shape(totals), np.nan)
    mean: Floats = np.divide(totals, counts, out=undefined, where=counts > 0)
    return mean
