"""Student's t and bootstrap intervals compared with naive code; reasons for missing intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import (
    FEW_GROUPS,
    MAX_T_GROUPS,
    METHODS,
    NO_REPLICATE,
    NO_SPREAD,
    ONE_GROUP,
    T_METHOD,
    Resampled,
    clustered_error,
    equal_groups,
    jackknife_error,
    leave_one_out,
    replicates,
    resample,
    skewness,
    student_ends,
    t_interval,
    weights_of,
)
from aleatoric.inference.estimate import MAX_UNITS, GroupSums, estimate, estimates, value_of
from aleatoric.metrics.reduction import Mean


def ratio(sums: np.ndarray) -> np.ndarray:
    return sums[:, 0] / sums[:, 1]


def skewed(n: int = 40) -> np.ndarray:
    return np.random.default_rng(1).exponential(size=n)


def sums_of(values: np.ndarray) -> np.ndarray:
    return np.stack([values, np.ones_like(values)], axis=1)


def test_percentile_matches_scipy() -> None:
    values = skewed()
    own = resample(sums_of(values), ratio, 0, 20_000, method="percentile").interval
    rng = np.random.default_rng(0)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=rng)
    assert own is not None
    assert own.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert own.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)


@pytest.mark.parametrize("method", ["auto", "t"])
@pytest.mark.parametrize("n", [2, 5, MAX_T_GROUPS])
def test_few_groups_of_one_item_match_t_test_interval(n: int, method: str) -> None:
    """SciPy's one-sample t-test has n - 1 degrees of freedom; symmetric groups need no more."""
    values = np.linspace(-1.0, 2.0, n)
    own = resample(sums_of(values), ratio, 0, method=method).interval
    theirs = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert own is not None
    assert (own.low, own.high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)
    assert own.method == T_METHOD


def simulated_groups(seed: int, sizes: tuple[int, ...], n_groups: int) -> np.ndarray:
    """(groups, 2) sums of items that share their group's effect, and numbers of items."""
    rng = np.random.default_rng(seed)
    n = rng.choice(sizes, n_groups).astype(np.float64)
    effects = rng.normal(size=n_groups) + rng.normal(size=n_groups) / np.sqrt(n)
    return np.stack([n * effects, n], axis=1)


@pytest.mark.parametrize("sizes", [(5,), (3, 5, 8), (1, 1, 2, 3, 12)])
@pytest.mark.parametrize("n_groups", [8, 20])
def test_intervals_cover_with_groups_of_any_sizes(sizes: tuple[int, ...], n_groups: int) -> None:
    """The true mean is 0; n - 1 degrees of freedom would cover .91 with 8 unequal groups."""
    found = []
    for seed in range(600):
        sums = simulated_groups(seed, sizes, n_groups)
        interval = resample(sums, ratio, 0, sizes=sums[:, 1]).interval
        assert interval is not None
        found.append(interval.low <= 0 <= interval.high)
    assert np.mean(found) >= 0.95 - 3 * (0.95 * 0.05 / len(found)) ** 0.5


def test_groups_of_equal_sizes_have_the_interval_of_unknown_sizes() -> None:
    sums = 7 * sums_of(skewed(12))
    assert resample(sums, ratio, 0, sizes=sums[:, 1]) == resample(sums, ratio, 0)


def test_one_dominant_group_leaves_one_degree_of_freedom() -> None:
    sizes = np.array([1000.0, 1, 1, 1])
    assert equal_groups(sizes) == pytest.approx(1, abs=1e-5)
    wide, plain = (t_interval(0.0, 1.0, 4, n_equal=n) for n in (equal_groups(sizes), None))
    assert wide.high == pytest.approx(stats.t.ppf(0.975, 1))
    assert plain.high == pytest.approx(stats.t.ppf(0.975, 3))


def test_skewed_groups_have_longer_interval_on_skewed_side() -> None:
    values = skewed(8)
    own = resample(sums_of(values), ratio, 0, method="t").interval
    theirs = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    skew, reach, error = stats.skew(values), stats.t.ppf(0.975, 7), stats.sem(values)
    assert skew > 0
    assert own is not None
    assert own.low == pytest.approx(theirs.low)
    shift = skew / (6 * 8**0.5) * (1 + 2 * reach**2) * error
    assert own.high == pytest.approx(theirs.high + shift)


def test_auto_uses_bootstrap_t_above_twenty_groups() -> None:
    values = skewed(MAX_T_GROUPS + 1)
    auto = resample(sums_of(values), ratio, 0).interval
    assert auto == resample(sums_of(values), ratio, 0, method="studentised").interval
    assert auto is not None
    assert auto.method == "group bootstrap, studentised"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [5, 30])
def test_interval_always_contains_estimate(n: int, method: str) -> None:
    """The absolute mean of noise around 0: resampling makes it larger, never smaller."""
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=(n, 10))
        values -= 0.98 * values.mean(axis=0)
        sums = np.column_stack([values, np.ones(n)])
        found = resample(sums, noise, seed, 200, method=method).interval
        assert found is not None
        value = noise(sums.sum(axis=0)[None])[0]
        assert found.low <= value <= found.high
        if method == "percentile" and n == 30:
            assert (found.low, found.method) == (
                value,
                "group bootstrap, percentile, extended to the estimate",
            )


def noise(sums: np.ndarray) -> np.ndarray:
    return np.abs(sums[:, :-1]).sum(axis=1) / sums[:, -1]


def naive_student(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The bootstrap-t interval of a mean, replicate by replicate."""
    n, ratios = len(values), []
    for drawn in weights.astype(int):
        sample = np.repeat(values, drawn)
        error = sample.std(ddof=1) / n**0.5
        if error > 1e-12:
            ratios.append((sample.mean() - values.mean()) / error)
    low, high = np.quantile(ratios, [0.025, 0.975])
    error = values.std(ddof=1) / n**0.5
    return values.mean() - high * error, values.mean() - low * error


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 15))
def test_bootstrap_t_interval_matches_naive(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n)
    sums = np.stack([values, np.ones(n)], axis=1)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=200).astype(float)
    own = student_ends(sums, ratio, [weights], 0.95)
    assert own == pytest.approx(naive_student(values, weights), rel=1e-9)


def test_standard_errors_agree_with_each_other_and_bootstrap() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(5, 30, 60).astype(float)
    totals = counts * rng.normal(0.5, 0.1, 60)
    sums = np.stack([totals, counts], axis=1)
    analytic = clustered_error(totals, counts)
    assert analytic == pytest.approx(jackknife_error(leave_one_out(sums, ratio)), rel=0.05)
    assert analytic == pytest.approx(replicates(sums, ratio, 0, 4000).std(), rel=0.05)


def test_t_interval_is_close_to_bootstrap_t() -> None:
    values = np.random.default_rng(3).normal(size=55)
    sums = np.stack([values, np.ones(55)], axis=1)
    own = resample(sums, ratio, 0, method="studentised").interval
    t = t_interval(values.mean(), clustered_error(values, np.ones(55)) or 0.0, 55)
    assert own is not None
    assert (own.low, own.high) == pytest.approx((t.low, t.high), abs=0.05)


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("t", T_METHOD),
        ("studentised", "group bootstrap, studentised"),
        ("percentile", "group bootstrap, percentile"),
    ],
)
def test_method_is_recorded_in_interval(method: str, named: str) -> None:
    values = skewed()
    found = resample(sums_of(values), ratio, 0, method=method)
    assert found.interval is not None
    assert found.interval.method == named
    assert found.interval.low < values.mean() < found.interval.high


@pytest.mark.parametrize(("n", "named"), [(4, T_METHOD), (5, "group bootstrap, studentised")])
def test_bootstrap_t_requires_five_groups(n: int, named: str) -> None:
    found = resample(sums_of(skewed(n)), ratio, 0, method="studentised").interval
    assert found is not None
    assert found.method == named


@pytest.mark.parametrize("method", ["studentised", "percentile"])
def test_value_undefined_in_every_replicate_has_no_interval(method: str) -> None:
    """Defined only where no group is drawn twice: 25 groups never are."""

    def value(sums: np.ndarray) -> np.ndarray:
        return np.where((sums[:, 1:] <= 1).all(axis=1), sums[:, 0], np.nan)

    sums = np.column_stack([skewed(25), np.eye(25)])
    assert resample(sums, value, 0, 50, method=method) == Resampled(None, NO_REPLICATE)


@pytest.mark.parametrize(("n_groups", "n_replicates"), [(3, 7), (3000, 1000), (200_001, 12)])
def test_replicate_draws_as_many_groups_as_observed(n_groups: int, n_replicates: int) -> None:
    """In blocks where the full table would be large."""
    parts = list(weights_of(n_groups, n_replicates, seed=1))
    drawn = np.concatenate(parts)
    assert drawn.shape == (n_replicates, n_groups)
    assert (drawn.sum(axis=1) == n_groups).all()
    assert len(np.unique(drawn[:, :200], axis=0)) > 1
    assert max(part.size for part in parts) <= 2_000_000
    # Each group is drawn about once per replicate, the first and the last alike.
    assert drawn.var() == pytest.approx(1 - 1 / n_groups, rel=0.4 if n_groups < 9 else 0.01)
    if n_groups > 9:
        assert (drawn[:, 0].var() > 0) & (drawn[:, -1].var() > 0)


def test_unknown_method_lists_known_ones() -> None:
    with pytest.raises(UsageError, match="studentised"):
        resample(np.eye(3) + 1, ratio, 0, method="normal")


def mean_of(groups: list[str], values: list[float], method: str = "auto") -> object:
    chunk = {"x": np.array(values)[:, None]}
    return estimates([(groups, chunk)], {"m": Mean("x")}, 0, method)["m"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("groups", "values", "value", "reason"),
    [
        (["a"], [0.5], 0.5, ONE_GROUP),
        (["a", "a", "a"], [0.1, 0.2, 0.3], 0.2, ONE_GROUP),
        (["a", "b", "c"], [0.3, 0.3, 0.3], 0.3, NO_SPREAD),
        (["a", "b"], [np.nan, np.nan], None, "undefined on all 2 items"),
        (["a", "b"], [0.5, np.nan], 0.5, ONE_GROUP),
    ],
)
def test_missing_intervals_have_a_reason(
    method: str, groups: list[str], values: list[float], value: float | None, reason: str
) -> None:
    found = mean_of(groups, values, method)
    assert found.value == (None if value is None else pytest.approx(value))
    assert found.interval is None
    assert found.reason.startswith(reason)


def test_standard_deviation_over_splits_ignores_undefined() -> None:
    """Two splits of three have a value: 0.25 and 0.75, whose standard deviation is √(1/8)."""
    values = np.array([[0.25, 0.5, np.nan], [0.25, 1.0, np.nan]])
    found = estimates([(["a", "b"], {"x": values})], {"m": Mean("x")}, 0)["m"]
    assert (found.value, found.spread) == (0.5, pytest.approx(math.sqrt(1 / 8)))
    assert (found.n_items, found.n_groups, found.n_undefined) == (2, 2, 0)
    one = estimates([(["a", "b"], {"x": values[:, :1]})], {"m": Mean("x")}, 0)["m"]
    assert (one.value, one.spread) == (0.25, None)


def test_pooling_above_1000_groups_is_recorded_in_method() -> None:
    groups = [str(i) for i in range(MAX_UNITS + 5)]
    values = np.random.default_rng(0).random((len(groups), 1))
    found = estimates([(groups, {"x": values})], {"m": Mean("x")}, 0)["m"]
    assert found.n_groups == len(groups)
    assert found.interval is not None
    assert found.interval.method.endswith("groups pooled into 1000 units")
    flat = estimates([(groups, {"x": 0 * values})], {"m": Mean("x")}, 0)["m"]
    assert (flat.interval, flat.reason) == (None, NO_SPREAD)


def test_too_few_groups_have_no_standard_error() -> None:
    assert jackknife_error(np.array([0.5, np.nan])) is None
    assert clustered_error(np.array([1.0, 0.0]), np.array([2.0, 0.0])) is None
    flat = sums_of(np.full(6, 0.5))
    assert student_ends(flat, ratio, [np.ones((3, 6))], 0.95) is None
    assert value_of(GroupSums(), Mean("x")) is None
    sums = GroupSums()
    sums.add(["a", "b"], Mean("x").columns({"x": np.array([[np.nan], [np.nan]])}))
    assert value_of(sums, Mean("x")) is None
    sums.add(["a", "b"], Mean("x").columns({"x": np.array([[0.25], [0.75]])}))
    assert value_of(sums, Mean("x")) == 0.5


def test_skewness_of_equal_values_is_zero() -> None:
    assert skewness(np.full(3, 0.5)) == 0
    assert skewness(np.array([0.0, 0.0, 3.0, np.nan])) == pytest.approx(-math.sqrt(0.5))


def test_no_items_gives_reason() -> None:
    assert estimate(GroupSums(), Mean("x"), 0).reason == "there are no items"


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_two_or_three_groups_do_not_crash(n: int, method: str) -> None:
    found = mean_of([str(i) for i in range(n)], [0.1 * i for i in range(n)], method)
    assert found.interval is not None or found.reason
    if found.interval is not None:
        assert found.interval.low < found.interval.high


def test_value_that_needs_every_group_has_no_interval() -> None:
    sums = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    with np.errstate(invalid="ignore"):
        assert resample(sums, ratio, 0).reason == FEW_GROUPS


def test_replicate_without_standard_error_is_excluded() -> None:
    """A replicate with one defined group has no value without that group."""
    values = np.array([0.1, 0.9, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0])
    sums = np.stack([values, values > 0], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = student_ends(sums, ratio, weights_of(8, 2000, 0), 0.95)
        ratios = []
        error = jackknife_error(leave_one_out(sums, ratio))
        for weights in np.concatenate(list(weights_of(8, 2000, 0))):
            drawn = np.repeat(sums, weights.astype(int), axis=0)
            left_out = leave_one_out(drawn, ratio)
            own_error = jackknife_error(left_out) if np.isfinite(left_out).all() else None
            if own_error is not None and own_error > 1e-12:
                ratios.append((ratio(drawn.sum(axis=0)[None])[0] - 1.4 / 3) / own_error)
    wanted = 1.4 / 3 - error * np.quantile(ratios, [0.975, 0.025])
    assert ends == pytest.approx(wanted)
