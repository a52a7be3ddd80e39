"""Estimates with intervals: per-item statistics are summed by group, then reduced."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aleatoric.inference.bootstrap import DEFAULT_METHOD, resample, t_quantile
from aleatoric.metrics.reduction import Chunk, divide
from aleatoric.types import Estimate, Floats, Interval

if TYPE_CHECKING:
    from aleatoric.result_types import Table

Pages = Iterable[tuple[list[str], Chunk]]
"""Groups of some items, and their statistics."""
MAX_UNITS = 1000
NO_ITEMS = "there are no items"


class Reduction(Protocol):
    """Additive columns of a chunk of items, and the value of their sums."""

    def columns(self, chunk: Chunk) -> Floats:
        """(items, k) columns whose sums over any set of items are sufficient for `values`."""

    def values(self, sums: Floats) -> Floats:
        """Map (..., k) sums to (..., splits) values; NaN where undefined."""

    def defined(self, sums: Floats) -> int:
        """The number of items behind the sums, without undefined ones."""


class ResamplingUnits:
    """Resampling units: one per group; beyond `MAX_UNITS`, groups join one by their checksum.

    Units stay independent of each other, so resampling them is valid, and tables stay small.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.pooled: set[int] = set()
        """The groups that share a unit because there are too many."""

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, groups: Iterable[str]) -> list[int]:
        """The unit of each group; new groups become units in order of appearance."""
        return [self._number(group) for group in groups]

    def _number(self, group: str) -> int:
        if group not in self._numbers and len(self._numbers) >= MAX_UNITS:
            self.pooled.add(hash(group))
            return zlib.crc32(group.encode()) % MAX_UNITS
        return self._numbers.setdefault(group, len(self._numbers))


class GroupSums:
    """Sums of columns by resampling unit."""

    def __init__(self, units: ResamplingUnits | None = None) -> None:
        self.units = ResamplingUnits() if units is None else units
        self.table: Floats = np.zeros((0, 0))
        """(units, k) sums, in order of appearance of the units."""
        self.n_items = 0

    def add(self, groups: list[str], columns: Floats) -> None:
        """Add one row of columns per item."""
        self.add_rows(self.units.numbers(groups), columns)

    def add_rows(self, numbers: list[int], columns: Floats) -> None:
        """Add one row of columns per item, given the number of its unit."""
        if (n_new := len(self.units) - len(self.table)) > 0:
            self.table = np.pad(self.table.reshape(-1, columns.shape[1]), ((0, n_new), (0, 0)))
        np.add.at(self.table, numbers, columns)
        self.n_items += len(numbers)

    def defined(self, reduction: Reduction) -> Floats:
        """The sums of the groups that have a value."""
        return self.table[[reduction.defined(row) > 0 for row in self.table]]


def estimates(
    pages: Pages, reductions: Mapping[str, Reduction], seed: int, method: str = DEFAULT_METHOD
) -> dict[str, Estimate]:
    """Every reduction's value and interval, from one pass over the pages."""
    sums = walk(pages, reductions)
    return {name: estimate(sums[name], r, seed, method) for name, r in reductions.items()}


def walk(pages: Pages, reductions: Mapping[str, Reduction]) -> dict[str, GroupSums]:
    """The sums by group of every reduction, from one pass over the pages."""
    units = ResamplingUnits()  # shared by all reductions: a million groups are stored once
    sums = {name: GroupSums(units) for name in reductions}
    for groups, chunk in pages:
        numbers = units.numbers(groups)
        for name, reduction in reductions.items():
            sums[name].add_rows(numbers, reduction.columns(chunk))
    return sums


def value_of(sums: GroupSums, reduction: Reduction) -> float | None:
    """The value of all items together, without an interval; `None` if undefined."""
    if not sums.n_items:
        return None
    value = float(mean_of_splits(reduction.values(sums.table.sum(axis=0))))
    return None if np.isnan(value) else value


def estimate(
    sums: GroupSums, reduction: Reduction, seed: int, method: str = DEFAULT_METHOD
) -> Estimate:
    """The value of all items, its spread over splits and interval over groups, or the reason."""
    if not sums.n_items:
        return Estimate(None, None, 0, 0, reason=NO_ITEMS)
    total = sums.table.sum(axis=0)
    by_split, defined = reduction.values(total), reduction.defined(total)
    undefined = sums.n_items - defined
    if np.isnan(by_split).all():
        whom = "the only item" if undefined == 1 else f"all {undefined} items"
        reason = f"undefined on {whom}: too few answers or draws, or nothing to compare with"
        if defined:  # items with a value each may still be too few for a joint one
            reason = f"too few items: {defined} of them give no joint value"
        return Estimate(None, None, 0, 0, undefined or defined, reason=reason)
    table, n_pooled = sums.defined(reduction), len(sums.units.pooled)
    sizes = np.array([reduction.defined(row) for row in table], np.float64)
    result = resample(
        table, lambda s: mean_of_splits(reduction.values(s)), seed, method=method, sizes=sizes
    )
    result = result.pooled_into(MAX_UNITS) if n_pooled else result
    finite = by_split[np.isfinite(by_split)]  # a ratio may be undefined on some splits
    spread = float(finite.std(ddof=1)) if len(finite) > 1 else None
    value, groups = float(mean_of_splits(by_split)), len(table) + n_pooled
    return Estimate(
        value, result.interval, defined, groups, undefined, spread=spread, reason=result.reason
    )


def mean_of_splits(by_split: Floats) -> Floats:
    """Mean over splits, without undefined ones."""
    is_defined = np.isfinite(by_split)
    return divide(np.where(is_defined, by_split, 0.0).sum(axis=-1), is_defined.sum(axis=-1))


_CUT = ", cut at "
_ROUNDING = 1e-9
_SHARES = (
    *("tvd*", "overlap", "agreement_*", "mass_on_human", "mode_certified", "accuracy", "ks_*"),
    *("vocabulary_unseen", "ece*", "e_ece*", "mce", "sce*", "ace*"),
)
_PROBES = (
    *((probe, 1.0) for probe in ("lexical-*", "syntactic-*", "dependency-*", "compression*")),
    *(("nli*:*", 1.0), ("entailment:*", 1.0), ("semantic", 2.0), ("semantic@*", 2.0)),
)
_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("tvd_debiased", -1.0, 1.0),
    ("agreement_gap", -1.0, 1.0),
    ("correlation", -1.0, 1.0),
    ("js", 0.0, math.log(2)),
    ("rank_of_human_mode", 1.0, math.inf),
    ("brier", 0.0, 2.0),
    *((f"{name}/{probe}", 0.0, most) for probe, most in _PROBES for name in ("mean_?", "w1_*")),
    *((f"dmu_*/{probe}", -most, most) for probe, most in _PROBES),
    *((pattern, 0.0, 1.0) for pattern in _SHARES),
    *((pattern, 0.0, math.inf) for pattern in ("log_loss*", "nll", "entropy*", "w1_*", "length_?")),
    ("mean_?/*", 0.0, math.inf),
)
"""The first pattern that matches a metric's name applies; other metrics have no known bound.

These are bounds of the true value, which an unbiased estimate may exceed. Squared and energy
distances have no bound here, so that an end below 0 shows the size of the noise.
"""
CUT_MARK = "†"
CUT_NOTE = (
    "†: the interval is cut at the end of the metric's range, or at the estimate where that lies "
    "beyond it (an overlap above 1); --json says where in interval.method."
)


def bounds_of(metric: str) -> tuple[float, float]:
    """The smallest and the largest true value that a metric can have."""
    fitting = ((low, high) for name, low, high in _BOUNDS if fnmatchcase(metric, name))
    return next(fitting, (-math.inf, math.inf))


def bounded(estimate: Estimate, metric: str) -> Estimate:
    """Cut the interval of an estimate at the bounds of its metric, and rounding off its value.

    A value that exceeds a bound by more than rounding stays: only an unbiased estimate can.
    """
    return _bounded(estimate, *bounds_of(metric))


def bounded_difference(estimate: Estimate, metric: str) -> Estimate:
    """Cut the interval of a difference between two values of a metric at its largest difference."""
    low, high = bounds_of(metric)
    return _bounded(estimate, low - high, high - low)


def cut_at(interval: Interval, value: float, low: float, high: float) -> Interval:
    """Cut an interval of `value` at the bounds, and record this in its method.

    An end beyond a bound moves to the bound, or to the value if that is beyond it too: neither the
    true value nor the estimate is ever cut off.
    """
    low, high = min(low, value), max(high, value)
    ends, before = (max(interval.low, low), min(interval.high, high)), (interval.low, interval.high)
    cut = [f"{end:.3g}" for end, old in zip(ends, before, strict=True) if end != old]
    if not cut:
        return interval
    method = f"{interval.method}{_CUT}{' and '.join(cut)}"
    return replace(interval, low=ends[0], high=ends[1], method=method)


def is_cut(interval: Interval | None) -> bool:
    """Whether an interval was cut at a bound."""
    return interval is not None and _CUT in interval.method


def _bounded(estimate: Estimate, low: float, high: float) -> Estimate:
    interval, value = estimate.interval, estimate.value
    if value is None:
        return estimate
    inside = min(max(value, low), high)
    value = inside if abs(inside - value) < _ROUNDING else value
    return replace(estimate, value=value, interval=interval and cut_at(interval, value, low, high))


def at_level(estimate: Estimate, level: float) -> Estimate:
    """Return an estimate with its interval widened to a higher level, by Student's t."""
    interval = estimate.interval
    if interval is None or estimate.value is None or level <= interval.level:
        return estimate
    freedom = max(estimate.n_groups - 1, 1)
    wide, narrow = (t_quantile((1 + end) / 2, freedom) for end in (level, interval.level))
    factor, ends = wide / narrow, (interval.low, interval.high)
    low, high = (float(estimate.value + factor * (end - estimate.value)) for end in ends)
    return replace(estimate, interval=Interval(low, high, level, interval.method))


def with_cut_note(table: Table) -> Table:
    """Add a note on cut intervals to a table that has any."""
    marked = any(CUT_MARK in str(cell) for row in table.rows for cell in row)
    return replace(table, notes=(*table.notes, CUT_NOTE)) if marked else table
