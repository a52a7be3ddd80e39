"""Confidence intervals over groups, as contexts of one passage are not independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.rng import stream
from aleatoric.types import Floats, Interval

Value = Callable[[Floats], Floats]
"""Maps (rows, k) sums to (rows,) values; NaN where undefined."""
LEVEL = 0.95
N_REPLICATES = 2000
NO_INTERVALS = "none"
"""Compute values only: intervals take most of the time if there are many systems."""
METHODS = ("auto", "t", "studentised", "percentile")
DEFAULT_METHOD = "auto"
"""Student's t up to `MAX_T_GROUPS` groups, the studentized bootstrap beyond."""
MAX_T_GROUPS = 20
"""Up to here both cover equally well, and Student's t is narrower (`benchmarks/coverage.py`)."""
MIN_GROUPS = 5
"""Fewer groups have too few distinct resamples to studentize: Student's t is used instead."""
MAX_BUNDLES = 64
"""More groups are bundled: there are enough degrees of freedom, and computing is cheaper."""
T_METHOD = "Student's t, jackknife over groups"
ONE_GROUP = "one group: an interval needs at least two"
NO_SPREAD = "the value is the same whichever group is left out: there is no spread to resample"
FEW_GROUPS = "the value is undefined without one of the groups: there are too few of them"
NOT_ASKED = "no interval was asked for"
NO_REPLICATE = "no resampled set of groups has a value"
_CELLS_AT_ONCE, _CELLS_IN_CACHE = 2_000_000, 100_000


@dataclass(frozen=True)
class Resampled:
    """An interval, or the reason why there is none."""

    interval: Interval | None
    reason: str | None = None

    def pooled_into(self, n_units: int) -> Resampled:
        """Record in the interval's method that its groups were pooled into units."""
        if self.interval is None:
            return self
        method = f"{self.interval.method}, groups pooled into {n_units} units"
        return replace(self, interval=replace(self.interval, method=method))


def check_method(method: str) -> str:
    """Return the name of a method unchanged; raise `UsageError` if it is unknown."""
    if method not in (methods := (*METHODS, NO_INTERVALS)):
        raise UsageError(f"there is no interval {method!r}; use {', '.join(methods)}.")
    return method


def resample(
    sums: Floats,
    value: Value,
    seed: int,
    n_replicates: int = N_REPLICATES,
    method: str = DEFAULT_METHOD,
    sizes: Floats | None = None,
) -> Resampled:
    """Interval of `value` of (groups, k) sums over groups, or the reason why there is none.

    `sizes` are the groups' numbers of items, by default equal. The same seed resamples the same
    groups, so systems scored on the same groups are resampled together. An end that would exclude
    the estimate is moved to it: coverage can only be higher.
    """
    if method == NO_INTERVALS:
        return Resampled(None, NOT_ASKED)
    if len(sums) < 2:
        return Resampled(None, ONE_GROUP)
    left_out = leave_one_out(sums, value)
    if not _varies(left_out):
        return Resampled(None, NO_SPREAD if np.isfinite(left_out).all() else FEW_GROUPS)
    centre = float(value(sums.sum(axis=0)[None, :])[0])
    n_equal = len(sums) if sizes is None else equal_groups(sizes)
    if uses_t(method, n_equal):
        error = jackknife_error(left_out)
        assert error is not None  # at least two values vary
        skew = skewness(left_out)
        return Resampled(t_interval(centre, error, len(sums), LEVEL, skew, n_equal))
    interval = _bootstrap_interval(sums, value, seed, n_replicates, method)
    return Resampled(including(interval, centre)) if interval else Resampled(None, NO_REPLICATE)


def equal_groups(sizes: Floats) -> float:
    """Number of equal groups whose spread is known as well as that of groups of these sizes.

    Satterthwaite's approximation, for groups whose sums vary in proportion to their sizes.

    >>> equal_groups(np.array([7.0, 7.0, 7.0])), round(equal_groups(np.array([1.0, 1.0, 12.0])), 2)
    (3.0, 1.03)
    """
    squares = sizes**2
    return float(squares.sum() ** 2 / (squares**2).sum())


def uses_t(method: str, n_groups: float) -> bool:
    """Whether a method takes Student's t for this many (equal) groups."""
    most = {"t": n_groups, "auto": MAX_T_GROUPS, "studentised": MIN_GROUPS - 1, "percentile": 0}
    return n_groups <= most[check_method(method)]


def replicates(sums: Floats, value: Value, seed: int, n_replicates: int = N_REPLICATES) -> Floats:
    """`value` of every resampled set of groups; it may return several statistics per row."""
    parts = weights_of(len(sums), n_replicates, seed)
    return np.concatenate([value(part @ sums) for part in parts])


def including(interval: Interval, value: float) -> Interval:
    """Extend an interval to `value` if it excludes it, and record this in its method."""
    if interval.low <= value <= interval.high:
        return interval
    low, high = min(interval.low, value), max(interval.high, value)
    return Interval(low, high, interval.level, f"{interval.method}, extended to the estimate")


def t_interval(
    value: float,
    error: float,
    n_groups: float,
    level: float = 0.95,
    skew: float = 0.0,
    n_equal: float | None = None,
) -> Interval:
    """Student's t around a value, with n_equal - 1 degrees of freedom (at least 1) for its error.

    `n_equal` is that of `equal_groups`, by default n_groups. Groups with a long tail on one side
    are seen too rarely there: the end on that side is moved outward by Johnson's (1978) correction
    for skewness. The other end stays.
    """
    reach = t_quantile((1 + level) / 2, n_groups - 1)
    shift = skew * (1 + 2 * reach**2) / (6 * math.sqrt(n_groups))
    reach = t_quantile((1 + level) / 2, max(1.0, (n_equal or n_groups) - 1))
    low, high = -reach + min(shift, 0.0), reach + max(shift, 0.0)
    return Interval(value + low * error, value + high * error, level, T_METHOD)


def t_quantile(share: float, degrees: float) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit  # a slow import

    return float(stdtrit(degrees, share))


def student_ends(
    sums: Floats, value: Value, weights: Iterable[Floats], level: float
) -> Floats | None:
    """The two ends of the studentized interval; `None` if the value has no standard error."""
    centre = float(value(sums.sum(axis=0)[None, :])[0])
    error = jackknife_error(leave_one_out(sums, value))
    if not error:
        return None
    ratios = np.concatenate([_ratios(sums, value, part, centre) for part in weights])
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios):
        return None
    ends: Floats = centre - error * np.quantile(ratios, [(1 + level) / 2, (1 - level) / 2])
    return ends


def bundled(sums: Floats, at_most: int = MAX_BUNDLES) -> Floats:
    """Join groups round-robin into `at_most` bundles, which are independent if the groups are."""
    if len(sums) <= at_most:
        return sums
    joined = np.zeros((at_most, sums.shape[1]))
    np.add.at(joined, np.arange(len(sums)) % at_most, sums)
    return joined


def leave_one_out(sums: Floats, value: Value) -> Floats:
    """The value without each group in turn."""
    return value(sums.sum(axis=0) - sums)


def jackknife_error(left_out: Floats) -> float | None:
    """Standard error from leave-one-group-out values; `None` with fewer than two of them."""
    finite = left_out[np.isfinite(left_out)]
    if len(finite) < 2:
        return None
    return math.sqrt((len(finite) - 1) / len(finite) * float(((finite - finite.mean()) ** 2).sum()))


def skewness(left_out: Floats) -> float:
    """Skewness of the groups' influence on a value, from leave-one-group-out values."""
    finite = left_out[np.isfinite(left_out)]
    gaps = finite.mean() - finite
    square = float((gaps**2).mean())
    return float((gaps**3).mean()) / square**1.5 if square > 0 else 0.0


def clustered_error(totals: Floats, counts: Floats) -> float | None:
    """Standard error of Σ totals / Σ counts over groups (CR1); `None` with fewer than two."""
    used = counts > 0
    n_groups = int(used.sum())
    if n_groups < 2:
        return None
    mean = totals[used].sum() / counts[used].sum()
    residuals = totals[used] - mean * counts[used]
    variance = n_groups / (n_groups - 1) * float((residuals**2).sum())
    return math.sqrt(variance) / float(counts[used].sum())


def weights_of(n_groups: int, n_replicates: int, seed: int) -> Iterator[Floats]:
    """The number of times each group is drawn, per replicate, in parts of the replicates."""
    if n_groups * n_replicates <= _CELLS_AT_ONCE:
        yield _all_weights(n_groups, n_replicates, seed)
        return
    rng = stream(seed, "bootstrap", n_groups)
    at_once = max(1, _CELLS_AT_ONCE // n_groups)
    for start in range(0, n_replicates, at_once):
        yield _weights(rng, n_groups, min(at_once, n_replicates - start))


def _varies(left_out: Floats) -> bool:
    """Whether leaving out one group or another makes a difference beyond rounding."""
    finite = left_out[np.isfinite(left_out)]
    return len(finite) > 1 and bool(np.ptp(finite) > 1e-12 * max(1.0, float(np.abs(finite).max())))


def _bootstrap_interval(
    sums: Floats, value: Value, seed: int, n_replicates: int, method: str
) -> Interval | None:
    """The percentile or studentized interval; `None` if no resampled set of groups has a value."""
    if method == "percentile":
        description = "group bootstrap, percentile"
        values = replicates(sums, value, seed, n_replicates)
        values = values[np.isfinite(values)]
        ends = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(values) else None
    else:
        bundles = f", {MAX_BUNDLES} bundles of groups" if len(sums) > MAX_BUNDLES else ""
        description = f"group bootstrap, studentised{bundles}"
        units = bundled(sums)
        ends = student_ends(units, value, weights_of(len(units), n_replicates, seed), LEVEL)
    return None if ends is None else Interval(float(ends[0]), float(ends[1]), LEVEL, description)


def _ratios(sums: Floats, value: Value, weights: Floats, centre: float) -> Floats:
    """(replicate's value - value) / replicate's standard error; infinite or NaN without one."""
    values, errors = replicate_errors(sums, value, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = (values - centre) / errors
    return np.where(errors > 1e-12, ratios, np.nan)


def replicate_errors(sums: Floats, value: Value, weights: Floats) -> tuple[Floats, Floats]:
    """Return every replicate's value and its standard error.

    The standard error is a jackknife with each drawn copy of a group left out; it is NaN if the
    value is undefined without one of them.
    """
    # Replicates are contiguous in memory, so that operations vectorize over them.
    totals = np.asfortranarray(weights @ sums)
    n_groups, drawn = len(sums), weights.T
    without = np.stack([value(totals - row) for row in sums])
    is_undefined = ((drawn > 0) & ~np.isfinite(without)).any(axis=0)
    without = np.where((drawn > 0) & np.isfinite(without), without, 0.0)
    means = (drawn * without).sum(axis=0) / n_groups
    squares = (drawn * (without - means) ** 2).sum(axis=0)
    errors = np.sqrt((n_groups - 1) / n_groups * squares)
    return value(totals), np.where(is_undefined, np.nan, errors)


@lru_cache(maxsize=2)
def _all_weights(n_groups: int, n_replicates: int, seed: int) -> Floats:
    """The weights of all replicates, cached: every metric of a run resamples the same groups."""
    weights = _weights(stream(seed, "bootstrap", n_groups), n_groups, n_replicates)
    weights.flags.writeable = False
    return weights


def _weights(rng: np.random.Generator, n_groups: int, size: int) -> Floats:
    """Replicates counted in parts that fit the cache, for one product with the sums.

    Separate products for each part would make threads wait for each other on a busy machine.
    """
    weights = np.empty((size, n_groups))
    at_once = max(1, _CELLS_IN_CACHE // n_groups)
    for start in range(0, size, at_once):
        part = weights[start : start + at_once]
        # Drawing groups one by one and counting them is five times as fast as a multinomial.
        drawn = rng.integers(n_groups, size=part.shape, dtype=np.uint32)
        rows = np.arange(0, part.size, n_groups, dtype=np.intp)
        cells = np.add(drawn, rows[:, None], dtype=np.intp, casting="unsafe")
        part[:] = np.bincount(cells.ravel(), minlength=part.size).reshape(part.shape)
    return weights
