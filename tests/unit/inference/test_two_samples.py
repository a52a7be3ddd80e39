"""Permutation tests of two samples match naive ones, and hold their level."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ttest_ind

from aleatoric.inference.two_samples import (
    benjamini_hochberg,
    means_test,
    orders,
    permutations,
    population_tests,
    pseudo_values,
    spread_test,
)
from aleatoric.levels import text_inputs
from aleatoric.types import Floats

Statistic = Callable[[list[int], list[int]], float]


def euclidean(points: Floats) -> Floats:
    gaps = points[:, :, None] - points[:, None]
    return np.sqrt((gaps**2).sum(-1))


def naive_p(statistic: Statistic, n: int, m: int) -> float:
    """The share of all divisions whose statistic is at least the observed one."""
    every = range(n + m)
    values = [
        statistic([i for i in every if i not in second], list(second))
        for second in combinations(every, m)
    ]
    observed = statistic(list(range(n)), list(range(n, n + m)))
    return sum(value >= observed - 1e-9 for value in values) / len(values)


def naive_energy(distances: Floats) -> Statistic:
    def energy(first: list[int], second: list[int]) -> float:
        cross = distances[np.ix_(first, second)]
        own, other = (
            [distances[i, j] for i, j in combinations(side, 2)] for side in (second, first)
        )
        return float(2 * np.nanmean(cross) - np.nanmean(own) - np.nanmean(other))

    return energy


def naive_spread(distances: Floats) -> Statistic:
    def spread(first: list[int], second: list[int]) -> float:
        own, other = (
            [distances[i, j] for i, j in combinations(side, 2)] for side in (second, first)
        )
        return float(abs(np.nanmean(own) - np.nanmean(other)))

    return spread


def naive_welch(values: Floats) -> Statistic:
    def squared_t(first: list[int], second: list[int]) -> float:
        a, b = values[second], values[first]
        spread = a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)
        return float((a.mean() - b.mean()) ** 2 / spread)

    return squared_t


@pytest.mark.parametrize(("n", "m"), [(5, 5), (4, 6), (7, 3)])
def test_exact_tests_match_naive_ones(n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    points = rng.random((4, n + m, 3))
    points[1, n:] += 0.5
    distances = euclidean(points)
    for i, j in ((0, 1), (n, n + 1), (1, n)):  # undefined in one item
        distances[2, i, j] = distances[2, j, i] = np.nan
    ways = permutations(n, m, 1999, 0)
    order = orders(n + m, ["a", "b", "c", "d"], 0, "test")
    assert ways.exact
    found = population_tests(distances, ways, order)
    for p, statistic in zip(found, (naive_energy, naive_spread), strict=True):
        assert p == pytest.approx([naive_p(statistic(own), n, m) for own in distances])
    values = rng.random((4, n + m)) + 100
    expected = [naive_p(naive_welch(own), n, m) for own in values]
    assert means_test(values, ways, order) == pytest.approx(expected)


def test_random_permutations_approach_all_of_them() -> None:
    points = np.random.default_rng(0).random((6, 12, 2))
    points[:, 6:] += 0.3
    distances, order = euclidean(points), orders(12, list("abcdef"), 0, "test")
    every, some = permutations(6, 6, 1999, 0), permutations(6, 6, 900, 0)
    assert (every.exact, some.exact) == (True, False)
    for exact, random in (
        (population_tests(distances, way, order)[0] for way in (every, some)),
        (population_tests(distances, way, order)[1] for way in (every, some)),
        (means_test(points[:, :, 0], way, order) for way in (every, some)),
    ):
        assert np.abs(exact - random).max() < 4 * 0.5 / np.sqrt(900)
        assert random.min() >= 1 / 901


def test_p_values_do_not_depend_on_other_items() -> None:
    points = np.random.default_rng(1).random((9, 20, 2))
    distances, ids = euclidean(points), [f"{i}" for i in range(9)]
    ways = permutations(10, 10, 499, 3)
    together = np.array(population_tests(distances, ways, orders(20, ids, 3, "test")))
    spreads = spread_test(distances, 10)
    means = means_test(points[:, :, 0], ways, orders(20, ids, 3, "test"))
    for i in range(9):
        own = orders(20, ids[i : i + 1], 3, "test")
        alone = np.array(population_tests(distances[i : i + 1], ways, own))
        assert (alone[:, 0] == together[:, i]).all()
        assert spread_test(distances[i : i + 1], 10)[0] == spreads[i]
        assert means_test(points[i : i + 1, :, 0], ways, own)[0] == means[i]


@pytest.mark.parametrize("undefined", [False, True])
def test_pseudo_values_are_leave_one_out(undefined: bool) -> None:
    distances = euclidean(np.random.default_rng(2).random((1, 6, 2)))
    if undefined:
        distances[0, 1, 2] = distances[0, 2, 1] = np.nan
    found = pseudo_values(distances)[0]

    def mean(texts: list[int]) -> float:
        return float(np.nanmean([distances[0, i, j] for i, j in combinations(texts, 2)]))

    every = list(range(6))
    expected = [6 * mean(every) - 5 * mean([j for j in every if j != i]) for i in every]
    assert found == pytest.approx(expected)
    if not undefined:
        assert found.mean() == pytest.approx(mean(every))


def test_constant_values_do_not_differ() -> None:
    ways, order = permutations(5, 5, 1999, 0), orders(10, ["a", "b"], 0, "test")
    values = np.full((2, 10), 0.1 + 0.2)
    values[1, 5:] = 0.0
    # Without any spread, only the observed division and its mirror image are as extreme.
    assert means_test(values, ways, order) == pytest.approx([1.0, 2 / 252])
    distances = np.ones((2, 10, 10))
    for p in (*population_tests(distances, ways, order), spread_test(distances, 5)):
        assert p == pytest.approx([1.0, 1.0])
    distances[:, :5, :5] = 0.0  # one text on one side, different texts on the other
    assert spread_test(distances, 5) == pytest.approx([0.0, 0.0])


def test_undefined_items_have_no_p_value() -> None:
    ways, order = permutations(5, 5, 1999, 0), orders(10, ["a"], 0, "test")
    distances = np.full((1, 10, 10), np.nan)
    assert np.isnan(pseudo_values(distances[:, :5, :5])).all()
    assert np.isnan(means_test(np.full((1, 10), np.nan), ways, order)).all()
    assert np.isnan(population_tests(distances, ways, order)).all()
    assert np.isnan(spread_test(distances, 5)).all()


@pytest.mark.parametrize(
    ("n", "m", "possible"), [(2, 30, False), (3, 3, False), (3, 4, True), (4, 4, True)]
)
def test_small_samples_cannot_be_significant(n: int, m: int, possible: bool) -> None:
    assert permutations(n, m, 1999, 0).can_reject == possible


def test_spread_test_is_welch_of_pseudo_values() -> None:
    distances = euclidean(np.random.default_rng(3).random((20, 15, 2)))
    sides = pseudo_values(distances[:, :5, :5]), pseudo_values(distances[:, 5:, 5:])
    expected = ttest_ind(*sides, axis=1, equal_var=False).pvalue
    assert spread_test(distances, 5) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(10, 10), (5, 10), (20, 10)])
def test_location_alone_is_not_variability(n: int, m: int) -> None:
    """Two samples of the same spread at different places: the level of the test holds."""
    rng, n_items = np.random.default_rng(5), 1500
    points = rng.random((n_items, n + m, 4))
    points[:, n:] += 3
    distances = euclidean(points)
    ways = permutations(n, m, 999, 0)
    order = orders(n + m, [f"{i}" for i in range(n_items)], 0, "test")
    p = spread_test(distances, n)
    for level in (0.05, 0.01):
        error = np.sqrt(level * (1 - level) / n_items)
        assert (p <= level).mean() < level + 3 * error
    # A random division is the observed one with probability 1 / 3003 at the smallest sizes.
    assert (population_tests(distances[:50], ways, order[:50])[0] <= 0.005).all()


@pytest.mark.parametrize(("share", "n"), [(0.8, 5), (0.8, 10), (0.9, 10), (0.9, 20)])
@pytest.mark.parametrize("other_topic", [False, True])
def test_one_text_repeated_most_of_the_time(share: float, n: int, other_topic: bool) -> None:
    """Both sides repeat a text equally often, and other texts are unique: nothing differs."""
    rng, n_items = np.random.default_rng(7), 400
    texts = np.arange(n_items * 2 * n).reshape(n_items, 2 * n) + 2
    repeated = np.repeat([0, 1 if other_topic else 0], n)
    texts = np.where(rng.random(texts.shape) < share, repeated, texts)
    distances = (texts[:, :, None] != texts[:, None]).astype(np.float64)
    ids = [f"{i}" for i in range(n_items)]
    testing = text_inputs.Testing(n_permutations=999)
    p = text_inputs.p_values(distances[None], n, ids, testing)["p_M"][0]
    # Exact for one population, approximate for two; no input gets a wrong label in either case.
    level = 0.1 if other_topic else 0.05
    assert (p <= 0.05).mean() < level + 3 * np.sqrt(level * (1 - level) / n_items)
    assert [q for q in benjamini_hochberg(list(p)) if q is not None and q <= 0.05] == []


def test_one_population_is_rejected_at_its_level() -> None:
    rng, n_items = np.random.default_rng(6), 1500
    distances = euclidean(rng.random((n_items, 16, 3)))
    ways = permutations(8, 8, 499, 0)
    order = orders(16, [f"{i}" for i in range(n_items)], 0, "test")
    for p in (
        *population_tests(distances, ways, order),
        means_test(rng.random((n_items, 16)), ways, order),
    ):
        assert abs((p <= 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / n_items)
        assert abs(p.mean() - 0.5) < 4 * np.sqrt(1 / 12 / n_items)
