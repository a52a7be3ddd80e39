"""Comparison of means of two independent samples of groups, such as the inputs of two tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference import bootstrap
from aleatoric.inference.bootstrap import DEFAULT_METHOD, LEVEL, N_REPLICATES, Resampled
from aleatoric.inference.estimate import GroupSums
from aleatoric.inference.paired import (
    EXACT_GROUPS,
    N_PERMUTATIONS,
    NO_VALUE,
    ONE_GROUP,
    Effect,
    Paired,
    PermutationTest,
)
from aleatoric.metrics.reduction import Mean, divide
from aleatoric.rng import stream
from aleatoric.types import Estimate, Floats, Interval

MOVED = "groups moved between two samples, Welch's t"
WELCH = "Student's t of two samples (Welch), jackknife over groups"
_CELLS_AT_ONCE = 1_000_000
_TOLERANCE = 1e-9
Sample = tuple[Floats, Sequence[str]]
"""Values of items (NaN is undefined), and the group of each."""


def unpaired(first: Sample, second: Sample, seed: int, method: str = DEFAULT_METHOD) -> Paired:
    """Compare the means of two independent samples of items in groups: first minus second."""
    values = [sample[np.isfinite(sample)] for sample, _ in (first, second)]
    undefined = len(first[0]) + len(second[0]) - sum(map(len, values))
    if not all(map(len, values)):
        return Paired(Estimate(None, None, 0, 0, undefined), None, None, NO_VALUE)
    left, right = (_sums(*sample) for sample in (first, second))
    value = float(values[0].mean() - values[1].mean())
    resampled = _resampled(left, right, seed, method)
    n_groups = len(left) + len(right)
    counts = sum(map(len, values)), n_groups, undefined
    difference = Estimate(value, resampled.interval, *counts, reason=resampled.reason)
    test = permutation(left, right, seed)
    reason = None if test else ONE_GROUP
    return Paired(difference, test, _effect(*values), reason)


def permutation(
    first: Floats, second: Floats, seed: int, n_permutations: int = N_PERMUTATIONS
) -> PermutationTest | None:
    """Test whether two means differ, by moving whole groups between the two samples at random.

    `first` and `second` are (groups, 2) sums of values and their counts. The statistic is the
    difference divided by its standard error, so that samples with different spreads or sizes are
    no reason to reject (Janssen 1997). Exact with few groups; `None` with fewer than two groups.
    """
    sizes = len(first), len(second)
    if min(sizes) < 2:
        return None
    table = _moments(np.concatenate([first, second]))
    whole = table.sum(axis=0)
    observed = _ratio(table[: sizes[0]].sum(axis=0), whole, sizes)
    choices, exact = _choices(*sizes, seed, n_permutations)
    limit, reached = np.abs(observed) * (1 - _TOLERANCE), 0
    at_once = max(1, _CELLS_AT_ONCE // len(table))
    for start in range(0, len(choices), at_once):
        chosen = choices[start : start + at_once].astype(np.float64) @ table
        reached += int((np.abs(_ratio(chosen, whole, sizes)) >= limit).sum())
    if exact:
        return PermutationTest(reached / len(choices), len(choices), True, MOVED)
    return PermutationTest((reached + 1) / (len(choices) + 1), len(choices), False, MOVED)


def _sums(values: Floats, groups: Sequence[str]) -> Floats:
    """Return (groups, 2) sums of the defined values and their counts."""
    is_defined = np.isfinite(values)
    sums, names = GroupSums(), [g for g, is_used in zip(groups, is_defined, strict=True) if is_used]
    sums.add(names, Mean("").columns({"": values[is_defined][:, None]}))
    return sums.table


def _mean(sums: Floats) -> Floats:
    return divide(sums[..., 0], sums[..., 1])


# Intervals ---------------------------------------------------------------------------------


def _resampled(first: Floats, second: Floats, seed: int, method: str) -> Resampled:
    """Return the interval of the difference; each sample is resampled by itself."""
    if method == bootstrap.NO_INTERVALS:
        return Resampled(None, bootstrap.NOT_ASKED)
    if min(len(first), len(second)) < 2:
        return Resampled(None, bootstrap.ONE_GROUP)
    centre = float(_mean(first.sum(axis=0)) - _mean(second.sum(axis=0)))
    left_out = [bootstrap.leave_one_out(table, _mean) for table in (first, second)]
    if all(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())) for values in left_out):
        return Resampled(None, bootstrap.NO_SPREAD)
    equal = [bootstrap.equal_groups(table[:, 1]) for table in (first, second)]
    if bootstrap.uses_t(method, min(equal)):
        return Resampled(_welch(centre, left_out, equal))
    if method == "percentile":
        return Resampled(bootstrap.including(_percentile(first, second, seed), centre))
    error = math.hypot(*(bootstrap.jackknife_error(values) or 0.0 for values in left_out))
    interval = _studentised(first, second, centre, seed, error)
    if interval is None:
        return Resampled(None, bootstrap.NO_REPLICATE)
    return Resampled(bootstrap.including(interval, centre))


def _welch(value: float, left_out: Sequence[Floats], equal: Sequence[float]) -> Interval:
    """Return Welch's interval, with Johnson's correction for skewness as for one sample."""
    variances = [(bootstrap.jackknife_error(values) or 0.0) ** 2 for values in left_out]
    parts = zip(variances, equal, strict=True)
    freedom = sum(variances) ** 2 / sum(v**2 / max(1.0, n - 1) for v, n in parts)
    # What a group adds to the difference; its sign is that of its sample.
    added = np.concatenate([s * (v.mean() - v) for s, v in zip((1, -1), left_out, strict=True)])
    skew = float((added**3).sum() / (added**2).sum() ** 1.5)
    shares = freedom + 1, LEVEL, skew * math.sqrt(freedom + 1)
    interval = bootstrap.t_interval(value, math.sqrt(sum(variances)), *shares)
    return replace(interval, method=WELCH)


def _other(seed: int) -> int:
    """Return the seed of the second sample: with equal seeds, both would be resampled alike."""
    return int(stream(seed, "second sample").integers(2**62))


def _percentile(first: Floats, second: Floats, seed: int) -> Interval:
    pairs = zip((first, second), (seed, _other(seed)), strict=True)
    left, right = (bootstrap.replicates(table, _mean, own) for table, own in pairs)
    low, high = np.quantile(left - right, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high), LEVEL, "group bootstrap of two samples, percentile")


def _studentised(
    first: Floats, second: Floats, centre: float, seed: int, error: float
) -> Interval | None:
    left, left_error = _replicates(first, seed)
    right, right_error = _replicates(second, _other(seed))
    errors = np.hypot(left_error, right_error)
    is_usable = errors > 1e-12
    if not is_usable.any():
        return None
    ratios = ((left - right)[is_usable] - centre) / errors[is_usable]
    low, high = centre - error * np.quantile(ratios, [(1 + LEVEL) / 2, (1 - LEVEL) / 2])
    method = "group bootstrap of two samples, studentised"
    return Interval(float(low), float(high), LEVEL, method)


def _replicates(table: Floats, seed: int) -> list[Floats]:
    """Return the means of resampled groups, and their standard errors."""
    units = bootstrap.bundled(table)
    weights = bootstrap.weights_of(len(units), N_REPLICATES, seed)
    parts = [bootstrap.replicate_errors(units, _mean, part) for part in weights]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


# The test ----------------------------------------------------------------------------------


def _moments(table: Floats) -> Floats:
    """Return per group what the means and standard errors of any set of groups are sums of."""
    totals, counts = table.T
    # Relative to the mean of all: less is lost to rounding.
    totals = totals - totals.sum() / counts.sum() * counts
    return np.stack([totals, counts, totals**2, totals * counts, counts**2], axis=1)


def _ratio(chosen: Floats, whole: Floats, sizes: tuple[int, int]) -> Floats:
    """Return Welch's t of the chosen groups and of all others, from sums of `_moments`."""
    means, variances = zip(
        *(
            _mean_and_variance(own, n)
            for own, n in zip((chosen, whole - chosen), sizes, strict=True)
        ),
        strict=True,
    )
    gaps, errors = means[0] - means[1], np.sqrt(sum(variances))
    smallest = 1e-9 * math.sqrt(whole[2]) / whole[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = np.where(np.abs(gaps) > smallest, gaps / errors, 0.0)
    return ratios


def _mean_and_variance(sums: Floats, n_groups: int) -> tuple[Floats, Floats]:
    """Return the mean of groups and the square of its standard error (CR1)."""
    total, count, squares, products, square_counts = np.moveaxis(sums, -1, 0)
    mean = total / count
    residual = squares - 2 * mean * products + mean**2 * square_counts
    residual = np.where(residual > 1e-12 * squares, residual, 0.0)
    return mean, n_groups / (n_groups - 1) * residual / count**2


@lru_cache(maxsize=1)
def _choices(first: int, second: int, seed: int, n: int) -> tuple[NDArray[np.int8], bool]:
    """Return which groups form the first sample, per permutation, and whether these are all."""
    n_all = math.comb(first + second, first) // (2 if first == second else 1)
    whole = np.zeros((1, first + second), np.int8)
    whole[:, :first] = 1
    if n_all > 2 ** (EXACT_GROUPS - 1):
        rng = stream(seed, "moved groups", first, second)
        choices = rng.permuted(np.repeat(whole, n, axis=0), axis=1)
        return choices, False
    # With equal sizes, exchanging both samples only changes the sign: the first group stays.
    chosen = [c for c in combinations(range(first + second), first) if first != second or 0 in c]
    choices = np.zeros((len(chosen), first + second), np.int8)
    np.put_along_axis(choices, np.array(chosen), 1, axis=1)
    return choices, True


def _effect(first: Floats, second: Floats) -> Effect:
    """Return the difference in standard deviations, and the share of pairs that are lower."""
    spread = math.sqrt((_variance(first) + _variance(second)) / 2)
    scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
    cohen_d = None if spread <= 1e-12 * scale else float(first.mean() - second.mean()) / spread
    ordered = np.sort(second)
    ends = [np.searchsorted(ordered, first, side) for side in ("left", "right")]
    share = 1 - float(np.mean(ends[0] + ends[1])) / (2 * len(second))
    return Effect(cohen_d, share)


def _variance(values: Floats) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0
