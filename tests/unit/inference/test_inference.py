"""Bootstrap, control and expected TVD of a perfect model, compared with naive implementations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from aleatoric.inference import control, noise
from aleatoric.inference.bootstrap import resample
from aleatoric.inference.estimate import MAX_UNITS, GroupSums, estimates
from aleatoric.metrics.reduction import Mean

KEYS = [(0, "item"), (1, "item"), (0, "other")]


def test_group_bootstrap_matches_naive() -> None:
    """Resampling groups by hand gives the same interval, up to its own noise."""
    rng = np.random.default_rng(1)
    groups = [rng.normal(rng.normal(), 0.1, size=rng.integers(2, 9)) for _ in range(30)]
    sums = np.array([[g.sum(), len(g)] for g in groups])
    own = resample(sums, lambda s: s[:, 0] / s[:, 1], 0, 4000, method="percentile").interval
    naive = []
    for _ in range(4000):
        drawn = [groups[i] for i in rng.integers(len(groups), size=len(groups))]
        naive.append(np.concatenate(drawn).mean())
    low, high = np.quantile(naive, [0.025, 0.975])
    assert own is not None
    assert own.low == pytest.approx(low, abs=0.02)
    assert own.high == pytest.approx(high, abs=0.02)


def test_one_group_has_no_interval() -> None:
    assert resample(np.ones((1, 2)), lambda s: s[:, 0] / s[:, 1], seed=0).interval is None


def test_group_interval_is_wider_if_items_within_groups_agree() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=10), 20)[:, None]
    chunk = {"x": values}
    reductions = {"m": Mean("x")}
    alike = [str(i // 20) for i in range(200)]
    alone = [str(i) for i in range(200)]
    wide = estimates([(alike, chunk)], reductions, 0, "percentile")["m"]
    narrow = estimates([(alone, chunk)], reductions, 0, "percentile")["m"]
    assert wide.value == pytest.approx(narrow.value)
    assert wide.interval is not None
    assert narrow.interval is not None
    ratio = (wide.interval.high - wide.interval.low) / (narrow.interval.high - narrow.interval.low)
    assert ratio == pytest.approx(20**0.5, rel=0.15)


def test_number_of_units_is_bounded_and_keeps_all_items() -> None:
    sums = GroupSums()
    groups = [str(i) for i in range(3 * MAX_UNITS)]
    sums.add(groups, np.ones((len(groups), 1)))
    assert len(sums.table) == MAX_UNITS
    assert sums.table.sum() == len(groups)


def test_all_undefined_values_give_none_with_count() -> None:
    chunk = {"x": np.full((3, 1), np.nan)}
    found = estimates([(["a", "b", "c"], chunk)], {"m": Mean("x")}, seed=0)["m"]
    assert (found.value, found.interval, found.n_items, found.n_undefined) == (None, None, 0, 3)


def test_halves_are_disjoint_and_complete() -> None:
    codes = np.array([0, 0, 0, 1, 1, 2, 3])
    orders = control.independent_orders(len(codes), 50, 0, "item")
    halves = control.split_all([codes], [orders])
    assert (halves.target.counts + halves.player.counts == np.bincount(codes)).all()
    assert halves.target.n == 3
    assert halves.player.n == 4


def test_ties_within_a_half_are_broken_at_random() -> None:
    """Four different answers: each is equally often the majority of a half."""
    orders = control.independent_orders(4, 4000, 0, "item")
    halves = control.split_all([np.arange(4)], [orders])
    shares = np.bincount(halves.target.majority, minlength=4) / 4000
    assert shares == pytest.approx(np.full(4, 0.25), abs=0.02)


def test_majority_is_the_most_frequent_answer() -> None:
    codes = np.array([0, 1, 1, 1, 1, 1])
    halves = control.split_all([codes], [control.independent_orders(6, 100, 0, "item")])
    assert set(halves.target.majority) == {1}


def test_shared_orders_match_python_random() -> None:
    """The published code: random.seed(s), then random.sample; 20 of 40 answers."""
    import random

    random.seed(5)
    expected = sorted(random.sample(range(40), 20))
    others = sorted(set(range(40)) - set(expected))
    assert control.shared_orders(40, 6, 0)[5].tolist() == expected + others
    assert control.shared_orders(40, 2, 4)[1].tolist() == expected + others


def test_random_orders_depend_on_seed_and_item() -> None:
    orders = [control.independent_orders(20, 2, *key).tolist() for key in KEYS]
    assert orders[0] == control.independent_orders(20, 2, *KEYS[0]).tolist()
    distinct = {tuple(order) for found in orders for order in found}
    assert len(distinct) == 2 * len(KEYS)
    assert all(sorted(order) == list(range(20)) for order in distinct)


@pytest.mark.parametrize(
    ("counts", "shares", "times"),
    [
        # 3 words given once and 1 given twice, of 10 answers: Chao1 expects 3 · 2 / (2 · 2) = 1.5
        # unseen words, rounded to 2, which share the Good-Turing mass of 3/10.
        ([5, 2, 1, 1, 1], [0.07, 0.14, 0.35, 0.15], [3, 1, 1, 2]),
        # One word given once: 0 unseen words expected, and 1 taken.
        ([3, 1], [3 / 16, 9 / 16, 0.25], [1, 1, 1]),
        # All different: one of the four counts as known, 4 · 3 / 2 = 6 unseen words.
        ([1, 1, 1, 1], [1 / 16, 0.125], [4, 6]),
        # Nothing given once: nothing unseen.
        ([2, 2], [0.5], [2]),
    ],
)
def test_good_turing_matches_manual_computation(
    counts: list[int], shares: list[float], times: list[int]
) -> None:
    found = noise.good_turing(counts)
    assert [*found] == pytest.approx(shares)
    assert [*found.values()] == times
    assert sum(share * n for share, n in found.items()) == pytest.approx(1)


def test_expected_tvd_of_two_answers_matches_manual_computation() -> None:
    """A fair coin, tossed twice by both: .375. Good-Turing: shares 1/4, 1/4 and 1/2."""
    assert noise.perfect_tvd(np.array([1, 1]), 2, 2) == pytest.approx((0.375, 0.4921875))
    assert noise.perfect_tvd(np.array([1]), 1, 2) is None


@pytest.mark.parametrize(("n", "m"), [(20, 30), (7, 1000), (40, None)])
def test_expected_tvd_of_perfect_model_matches_simulation(n: int, m: int | None) -> None:
    probs, rng = np.array([0.5, 0.2, 0.2, 0.1]), np.random.default_rng(1)
    truth = {0.1: 1, 0.2: 2, 0.5: 1}
    people = rng.multinomial(n, probs, 40_000) / n
    model = probs if m is None else rng.multinomial(m, probs, 40_000) / m
    simulated = np.abs(people - model).sum(axis=1).mean() / 2
    assert noise.expected_tvd(truth, n, m) == pytest.approx(simulated, abs=0.001)


@pytest.mark.parametrize(("n_human", "n_model"), [(20, 20), (40, 40), (40, 1000), (40, None)])
def test_expected_tvd_of_perfect_model_lies_between_both_estimates(
    n_human: int, n_model: int | None
) -> None:
    """On Zipf distributions of 5 to 60 words, within .02 of the upper one."""
    rng = np.random.default_rng(2)
    true, low, high = [], [], []
    for _ in range(200):
        weights = np.arange(1.0, rng.integers(5, 60)) ** -rng.uniform(0.6, 2)
        probs = weights / weights.sum()
        counts = rng.multinomial(n_human, probs)
        ends = noise.perfect_tvd(counts[counts > 0], n_human, n_model)
        assert ends is not None
        true.append(noise.expected_tvd(Counter(probs.tolist()), n_human, n_model))
        low.append(ends[0])
        high.append(ends[1])
    assert np.mean(low) < np.mean(true)
    assert np.mean(high) == pytest.approx(np.mean(true), abs=0.02)


def test_memory_is_bounded_for_100000_distinct_answers() -> None:
    low, high = noise.perfect_tvd(np.ones(100_000, dtype=np.int64), 100_000, 1000) or (0, 0)
    assert 0.9 < low <= high <= 1.0


def test_batch_size_respects_cell_limit() -> None:
    """Each row is padded to the widest of its batch: three rows of 2 cells, then two of 4."""
    assert list(control.batches([4, 2, 4, 2, 2], 8)) == [[1, 3, 4], [0, 2]]
    assert list(control.batches([9, 9], 8)) == [[0], [1]]


def test_crossed_variance_components_match_naive_anova() -> None:
    crossed = np.random.default_rng(0).random((2, 3, 5))
    found = noise._split(crossed)
    for k, table in enumerate(crossed.tolist()):
        n_rows, n_columns = len(table), len(table[0])
        mean = sum(map(sum, table)) / (n_rows * n_columns)
        rows = [sum(row) / n_columns - mean for row in table]
        columns = [sum(column) / n_rows - mean for column in zip(*table, strict=True)]
        left = sum(
            (table[i][j] - mean - rows[i] - columns[j]) ** 2
            for i in range(n_rows)
            for j in range(n_columns)
        )
        both = left / (n_rows - 1) / (n_columns - 1)
        people = sum(gap**2 for gap in rows) / (n_rows - 1) - both / n_columns
        model = sum(gap**2 for gap in columns) / (n_columns - 1) - both / n_rows
        parts = (found.mean[k], found.people[k], found.samples[k])
        assert parts == pytest.approx((mean, people, model + both))
