"""Paired comparison of two systems on common items: difference, interval, test, effect size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.bootstrap import DEFAULT_METHOD, Value, resample
from aleatoric.inference.estimate import GroupSums, Reduction
from aleatoric.metrics.reduction import Chunk
from aleatoric.rng import stream
from aleatoric.types import Estimate, Floats

N_PERMUTATIONS = 9999
EXACT_GROUPS = 14
"""Up to this many groups, all 2^13 distinct swaps are enumerated."""
_CELLS_AT_ONCE = 1_000_000
_TOLERANCE = 1e-9
"""Equal statistics differ by rounding: within this tolerance they count as equal."""
NO_ITEMS = "no item has a value in both systems"
ONE_GROUP = "one group: there is nothing to resample"
NO_VALUE = "a system has no value on the common items"
IDENTICAL = "the values are the same on every item"


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """A two-sided p-value, and the number of permutations behind it."""

    p: float
    n_permutations: int
    exact: bool
    moved: str = "swap of groups"
    """What a permutation does."""

    @property
    def smallest(self) -> float:
        """The smallest p-value that this many permutations can give."""
        return 1 / self.n_permutations if self.exact else 1 / (self.n_permutations + 1)

    @property
    def method(self) -> str:
        """A description of the test."""
        kind = "all" if self.exact else "random"
        return f"{self.moved}, {self.n_permutations} {kind} permutations"


@dataclass(frozen=True, slots=True)
class Effect:
    """The size of a paired difference relative to the spread of the items' differences."""

    cohen_d: float | None
    """Mean of the differences divided by their standard deviation; undefined if that is 0."""
    share_lower: float
    """The share of items on which the first system is lower; ties count half."""


@dataclass(frozen=True, slots=True)
class Paired:
    """First minus second, of two systems on common items or of two independent samples.

    `reason` says why a part is undefined.
    """

    difference: Estimate
    test: PermutationTest | None
    effect: Effect | None
    reason: str | None = None


def paired(
    first: Chunk,
    second: Chunk,
    groups: Sequence[str],
    reduction: Reduction,
    seed: int,
    method: str = DEFAULT_METHOD,
    defining: Collection[str] | None = None,
) -> Paired:
    """Compare two systems' statistics, whose rows are the same items in the same order.

    Items without one of the `defining` statistics (by default all) are left out and counted.
    """
    is_defined = _has_values(first, defining) & _has_values(second, defining)
    undefined = int((~is_defined).sum())
    if not is_defined.any():
        return Paired(Estimate(None, None, 0, 0, undefined), None, None, NO_ITEMS)
    first, second = _aligned(first, second, is_defined)
    used = [group for group, is_used in zip(groups, is_defined.tolist(), strict=True) if is_used]
    sums = GroupSums()  # the same units for both systems
    sums.add(used, np.concatenate([reduction.columns(first), reduction.columns(second)], axis=1))
    left, right = np.stack(np.split(sums.table, 2, axis=1))
    counted = Estimate(None, None, len(used), len(set(used)), undefined)

    def value(sums: Floats) -> Floats:
        mean: Floats = reduction.values(sums).mean(axis=-1)  # NaN if a split is undefined
        return mean

    sizes = np.bincount(sums.units.numbers(used)).astype(np.float64)
    comparison = paired_sums(left, right, value, counted, seed, method, sizes)
    if comparison.difference.value is None:
        return comparison
    return replace(comparison, effect=_effect(first, second, reduction))


def paired_sums(
    first: Floats,
    second: Floats,
    value: Value,
    counted: Estimate,
    seed: int,
    method: str = DEFAULT_METHOD,
    sizes: Floats | None = None,
) -> Paired:
    """Compare two systems by `value` of their (groups, k) sums; `counted` has items and groups."""
    difference = _difference(first, second, value, counted, seed, method, sizes)
    if difference.value is None:
        return Paired(difference, None, None, NO_VALUE)
    if np.array_equal(first, second):
        return Paired(difference, None, None, IDENTICAL)
    if difference.n_groups < 2:
        return Paired(difference, None, None, ONE_GROUP)
    return Paired(difference, paired_permutation(first, second, value, seed), None)


def paired_permutation(
    first: Floats, second: Floats, value: Value, seed: int, n_permutations: int = N_PERMUTATIONS
) -> PermutationTest | None:
    """Test whether `value` of two systems differs, by swapping them in random groups.

    `first` and `second` are (groups, k) sums of the same groups. For a mean this is the sign-flip
    test. Exact with few groups; `None` with fewer than two, or for an undefined difference.
    """
    observed = float((value(first.sum(0)[None]) - value(second.sum(0)[None]))[0])
    if len(first) < 2 or np.isnan(observed):
        return None
    exact = len(first) <= EXACT_GROUPS
    swaps = [_all_swaps(len(first))] if exact else _random_swaps(len(first), n_permutations, seed)
    limit, reached = abs(observed) * (1 - _TOLERANCE) - 1e-15, 0
    for swapped in swaps:  # rows of 0 and 1 by group
        moved = swapped @ (second - first)
        gaps = value(first.sum(0) + moved) - value(second.sum(0) - moved)
        reached += int((np.abs(gaps) >= limit).sum())
    if exact:
        n_permutations = 2 ** (len(first) - 1)
        return PermutationTest(reached / n_permutations, n_permutations, True)
    return PermutationTest((reached + 1) / (n_permutations + 1), n_permutations, False)


def _has_values(chunk: Chunk, defining: Collection[str] | None) -> NDArray[np.bool_]:
    """Whether every defining statistic of an item has a value in some split, per item."""
    names = chunk if defining is None else defining
    has_value = [np.isfinite(chunk[name]).any(axis=1) for name in names]
    is_defined: NDArray[np.bool_] = np.logical_and.reduce(has_value)
    return is_defined


def _aligned(first: Chunk, second: Chunk, is_defined: NDArray[np.bool_]) -> tuple[Chunk, Chunk]:
    """The defined items of both, broadcast to the same number of splits."""
    widest = max(values.shape[1] for values in (*first.values(), *second.values()))
    shape = (int(is_defined.sum()), widest)
    aligned_first, aligned_second = (
        {name: np.broadcast_to(values[is_defined], shape) for name, values in chunk.items()}
        for chunk in (first, second)
    )
    return aligned_first, aligned_second


def _effect(first: Chunk, second: Chunk, reduction: Reduction) -> Effect | None:
    """The effect size of a mean, which names its `statistic`; other reductions have none."""
    name: str | None = getattr(reduction, "statistic", None)
    if name is None:
        return None
    gaps = np.nanmean(first[name], axis=1) - np.nanmean(second[name], axis=1)
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0
    # Rounding leaves some spread even if all differences are equal.
    is_flat = spread <= 1e-12 * float(np.abs(gaps).max())
    cohen_d = None if is_flat else float(gaps.mean()) / spread
    return Effect(cohen_d, float((gaps < 0).mean() + (gaps == 0).mean() / 2))


def _difference(
    first: Floats,
    second: Floats,
    value: Value,
    counted: Estimate,
    seed: int,
    method: str,
    sizes: Floats | None,
) -> Estimate:
    """Value of the first minus value of the second, with groups resampled for both together."""
    gap = _gap_between(value, first.shape[1])
    joined = np.concatenate([first, second], axis=1)
    whole = float(gap(joined.sum(axis=0)[None])[0])
    if np.isnan(whole):
        return Estimate(None, None, 0, 0, counted.n_items + counted.n_undefined, reason=NO_VALUE)
    resampled = resample(joined, gap, seed, method=method, sizes=sizes)
    return replace(counted, value=whole, interval=resampled.interval, reason=resampled.reason)


def _gap_between(value: Value, width: int) -> Value:
    """The value of the first `width` columns minus that of the others."""
    return lambda sums: value(sums[..., :width]) - value(sums[..., width:])


def _all_swaps(n_groups: int) -> Floats:
    """Every swap with the first group fixed: swapping all groups only changes the sign."""
    bits = np.arange(2 ** (n_groups - 1))[:, None] >> np.arange(n_groups - 1) & 1
    return np.hstack([np.zeros((len(bits), 1)), bits])


def _random_swaps(n_groups: int, n_permutations: int, seed: int) -> Iterator[Floats]:
    """Random swaps in parts: the same for all pairs with the same number of groups."""
    rng = stream(seed, "permutation", n_groups)
    at_once = max(1, _CELLS_AT_ONCE // n_groups)
    for left in range(n_permutations, 0, -at_once):
        yield rng.integers(0, 2, (min(at_once, left), n_groups), np.int8).astype(np.float64)
