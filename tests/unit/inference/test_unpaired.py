"""Two independent samples of groups: difference of means, interval and test."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from aleatoric.inference.bootstrap import ONE_GROUP as NO_INTERVAL
from aleatoric.inference.paired import NO_VALUE, ONE_GROUP
from aleatoric.inference.unpaired import WELCH, Sample, unpaired
from aleatoric.rng import stream


def singles(values: NDArray[np.float64]) -> Sample:
    return values, [str(i) for i in range(len(values))]


def naive_t(first: list[list[float]], second: list[list[float]]) -> float:
    """Welch's t of two lists of groups of values, with standard errors over groups (CR1)."""
    means, squares = [], []
    for groups in (first, second):
        count = sum(map(len, groups))
        mean = sum(map(sum, groups)) / count
        residuals = [sum(group) - mean * len(group) for group in groups]
        n = len(groups)
        means.append(mean)
        squares.append(n / (n - 1) * sum(r**2 for r in residuals) / count**2)
    return float((means[0] - means[1]) / np.sqrt(sum(squares)))


@pytest.mark.parametrize("sizes", [(4, 4), (3, 6), (2, 5)])
def test_few_groups_are_moved_in_all_ways(sizes: tuple[int, int]) -> None:
    rng = stream(0, "all ways", *sizes)
    groups = [rng.normal(0, 1, int(rng.integers(1, 4))).tolist() for _ in range(sum(sizes))]
    observed = naive_t(groups[: sizes[0]], groups[sizes[0] :])
    naive = []
    for chosen in combinations(range(len(groups)), sizes[0]):
        rest = [g for i, g in enumerate(groups) if i not in chosen]
        naive.append(naive_t([groups[i] for i in chosen], rest))
    samples: list[Sample] = []
    for part in (groups[: sizes[0]], groups[sizes[0] :]):
        names = [str(i) for i, group in enumerate(part) for _ in group]
        samples.append((np.array([v for group in part for v in group]), names))
    found = unpaired(samples[0], samples[1], seed=0)
    assert found.test is not None
    assert found.test.exact
    assert found.test.p == pytest.approx(np.mean(np.abs(naive) >= abs(observed) - 1e-9))
    assert found.test.smallest == 1 / found.test.n_permutations


def test_many_groups_agree_with_scipy() -> None:
    rng = stream(0, "scipy")
    first, second = rng.normal(0.3, 1, 30), rng.normal(0, 2, 45)
    found = unpaired(singles(first), singles(second), seed=0)
    assert found.test is not None
    assert not found.test.exact

    def t(a: NDArray[np.float64], b: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        return np.asarray(stats.ttest_ind(a, b, equal_var=False, axis=axis).statistic)

    peer = stats.permutation_test((first, second), t, n_resamples=9999, rng=stream(1, "scipy"))
    assert found.test.p == pytest.approx(peer.pvalue, abs=0.02)


def test_interval_of_few_groups_is_welch_s_if_not_skewed() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([-4.0, 0.0, 4.0, 0.0, 0.0])
    found = unpaired(singles(first), singles(second), seed=0).difference
    peer = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found.value == pytest.approx(2.0)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(peer))
    assert found.interval.method == WELCH
    assert (found.n_items, found.n_groups) == (8, 8)


@pytest.mark.parametrize("method", ["studentised", "percentile", "t"])
def test_intervals_of_many_groups_are_about_as_wide(method: str) -> None:
    rng = stream(0, "wide")
    first, second = rng.normal(0, 1, 60), rng.normal(0, 1, 60)
    found = unpaired(singles(first), singles(second), 0, method).difference.interval
    assert found is not None
    peer = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    # Samples that are resampled alike would have an interval of another width.
    assert found.high - found.low == pytest.approx(peer.high - peer.low, rel=0.15)


def test_undefined_values_are_left_out_and_counted() -> None:
    first = np.array([1.0, np.nan, 2.0, 4.0])
    found = unpaired(singles(first), singles(np.array([0.0, 1.0, 3.0])), seed=0)
    assert found.difference.n_items == 6
    assert found.difference.n_undefined == 1
    assert found.difference.value == pytest.approx(1.0)


def test_reasons_for_no_test() -> None:
    some = singles(np.array([1.0, 2.0, 3.0]))
    alone = unpaired(some, (np.array([1.0, 5.0]), ["a", "a"]), seed=0)
    assert (alone.reason, alone.test) == (ONE_GROUP, None)
    assert alone.difference.reason == NO_INTERVAL
    nothing = unpaired(some, singles(np.array([np.nan])), seed=0)
    assert (nothing.reason, nothing.difference.value) == (NO_VALUE, None)


def test_samples_without_spread() -> None:
    equal = unpaired(singles(np.ones(6)), singles(np.ones(6)), seed=0)
    assert equal.test is not None
    assert equal.test.p == 1
    apart = unpaired(singles(np.zeros(6)), singles(np.ones(6)), seed=0)
    assert apart.test is not None
    assert apart.test.p == apart.test.smallest


def test_effect_is_that_of_all_pairs() -> None:
    rng = stream(0, "effect")
    first, second = rng.integers(0, 5, 9).astype(float), rng.integers(0, 5, 7).astype(float)
    effect = unpaired(singles(first), singles(second), seed=0).effect
    assert effect is not None
    naive = np.mean([(a < b) + (a == b) / 2 for a in first for b in second])
    assert effect.share_lower == pytest.approx(naive)
    pooled = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    assert effect.cohen_d == pytest.approx((first.mean() - second.mean()) / pooled)
