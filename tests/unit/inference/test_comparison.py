"""Permutation tests, adjusted p-values and letters, compared with SciPy and naive code."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aleatoric.inference import control
from aleatoric.inference.control import fits, one_population
from aleatoric.inference.paired import (
    EXACT_GROUPS,
    IDENTICAL,
    NO_ITEMS,
    NO_VALUE,
    ONE_GROUP,
    paired,
    paired_permutation,
)
from aleatoric.inference.two_samples import benjamini_hochberg, different_pairs, holm, letters
from aleatoric.metrics.agreement import COLUMNS, Overlap
from aleatoric.metrics.calibration import ECE, equal_width_edges
from aleatoric.metrics.reduction import Mean
from aleatoric.rng import stream
from aleatoric.types import Estimate

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def column(values: list[float]) -> dict[str, np.ndarray]:
    return {"tvd": np.array(values)[:, None]}


def total(sums: np.ndarray) -> np.ndarray:
    return sums[:, 0]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=9))
def test_exact_paired_permutation_matches_scipy_for_few_groups(gaps: list[int]) -> None:
    first, second = np.array(gaps, dtype=float), np.zeros(len(gaps))
    ours = paired_permutation(first[:, None], second[:, None], total, seed=0)
    expected = stats.permutation_test(
        (first, second), lambda a, b: abs(a.sum() - b.sum()), permutation_type="samples",
        alternative="greater", n_resamples=np.inf, vectorized=False,
    )  # fmt: skip
    assert ours.exact
    assert ours.p == pytest.approx(expected.pvalue)


def test_random_paired_permutation_matches_naive_for_many_groups() -> None:
    rng = np.random.default_rng(3)
    gaps = rng.normal(0.4, 1, EXACT_GROUPS + 6)
    ours = paired_permutation(gaps[:, None], np.zeros((len(gaps), 1)), total, seed=0)
    signs = rng.choice([-1, 1], size=(100_000, len(gaps)))
    slow = (np.abs(signs @ gaps) >= abs(gaps.sum())).mean()
    assert not ours.exact
    assert ours.p == pytest.approx(slow, abs=0.015)
    again = paired_permutation(gaps[:, None], np.zeros((len(gaps), 1)), total, seed=0)
    assert again == ours


def test_binned_error_is_permuted_as_a_whole() -> None:
    rng = np.random.default_rng(0)
    ece, groups = ECE("correct", equal_width_edges()), [str(i // 10) for i in range(60)]
    sides = [
        {"confidence": rng.random((60, 1)), "correct": rng.integers(0, 2, (60, 1)).astype(float)}
        for _ in range(2)
    ]
    found = paired(*sides, groups, ece, seed=0)

    def value(swapped: tuple[bool, ...], side: int) -> float:
        taken = [sides[side ^ swapped[int(group)]] for group in groups]
        chunk = {n: np.array([t[n][i] for i, t in enumerate(taken)]) for n in sides[0]}
        return float(ece.values(ece.columns(chunk).sum(axis=0))[0])

    gaps = [value(swap, 0) - value(swap, 1) for swap in product([False, True], repeat=6)]
    assert found.difference.value == pytest.approx(gaps[0])
    assert found.test.p == pytest.approx(np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-12))
    assert found.effect is None


@settings(deadline=None, max_examples=40)
@given(P_VALUES)
def test_benjamini_hochberg_matches_scipy(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values))


@settings(deadline=None, max_examples=40)
@given(P_VALUES)
def test_holm_matches_step_down_rule(p_values: list[float]) -> None:
    ordered = sorted(p_values)
    m = len(ordered)
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        steps = [min(1.0, (m - i) * ordered[i]) for i in range(m) if ordered[i] <= p]
        assert adjusted == pytest.approx(max(steps))


def test_missing_p_values_are_ignored_in_adjustment() -> None:
    assert holm([None, 0.02, None]) == [None, 0.02, None]
    assert benjamini_hochberg([None, None]) == [None, None]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(
    st.sampled_from(list(combinations(range(7), 2)))
))))  # fmt: skip
def test_two_systems_share_a_letter_unless_they_differ(
    drawn: tuple[int, set[tuple[int, int]]],
) -> None:
    n, edges = drawn
    names = [f"s{i}" for i in range(n)]
    different = {frozenset((names[a], names[b])) for a, b in edges if b < n}
    shown = letters(names, different)
    for a, b in combinations(names, 2):
        assert bool(set(shown[a]) & set(shown[b])) == (frozenset((a, b)) not in different)
    sets = {c: {name for name in names if c in shown[name]} for c in "".join(shown.values())}
    for own in sets.values():
        others = set(names) - own
        assert all(any(frozenset((o, m)) in different for m in own) for o in others)


def test_letters_after_z_have_a_number() -> None:
    names = [f"s{i:02}" for i in range(30)]
    shown = letters(names, [frozenset(pair) for pair in combinations(names, 2)])
    assert [shown[name] for name in (names[0], names[25], names[26], names[29])] == [
        "a",
        "z",
        "a1",
        "d1",
    ]


def test_only_significant_p_values_separate_letters() -> None:
    pairs = [frozenset(pair) for pair in ("ab", "bc", "cd", "de")]
    found = different_pairs(dict(zip(pairs, (0.05, 0.051, None, 0.0), strict=True)), 0.05)
    assert found == {pairs[0], pairs[3]}


def test_first_system_has_the_first_letter() -> None:
    assert letters(["x", "y"], []) == {"x": "a", "y": "a"}
    assert letters(["x", "y"], [frozenset("xy")]) == {"x": "a", "y": "b"}


def test_undefined_items_are_excluded_and_counted() -> None:
    found = paired(
        column([0.1, np.nan, 0.3, 0.9]), column([0.2, 0.5, np.nan, 0.8]), list("abab"),
        Mean("tvd"), seed=0,
    )  # fmt: skip
    assert found.difference.value == pytest.approx(0.0)
    assert (found.difference.n_items, found.difference.n_undefined) == (2, 2)


@pytest.mark.parametrize(
    ("first", "second", "groups", "reason"),
    [
        ([0.1, 0.2], [0.3, 0.4], ["a", "a"], ONE_GROUP),
        ([0.1, 0.2], [0.1, 0.2], ["a", "b"], IDENTICAL),
        ([np.nan, 0.2], [0.1, np.nan], ["a", "b"], NO_ITEMS),
        ([], [], [], NO_ITEMS),
    ],
)
def test_untestable_comparison_has_a_reason(
    first: list[float], second: list[float], groups: list[str], reason: str
) -> None:
    found = paired(column(first), column(second), groups, Mean("tvd"), seed=0)
    assert found.test is None
    assert found.reason == reason
    if reason == ONE_GROUP:
        assert found.difference.reason == "one group: an interval needs at least two"
    if reason == NO_ITEMS:
        assert found.difference == Estimate(None, None, 0, 0, len(groups))


def test_systems_without_value_on_common_items_have_a_reason() -> None:
    """An overlap is undefined where nobody ever agrees."""
    nothing = {name: np.zeros((3, 1)) for name in COLUMNS}
    nothing["agreement_H"] = np.array([[0.0], [0.0], [np.nan]])
    found = paired(nothing, dict(nothing), list("abc"), Overlap(), seed=0)
    assert (found.test, found.effect, found.reason) == (None, None, NO_VALUE)
    assert found.difference == Estimate(None, None, 0, 0, 3, reason=NO_VALUE)


def test_permutation_test_returns_none_if_not_applicable() -> None:
    assert paired_permutation(np.ones((1, 1)), np.zeros((1, 1)), total, seed=0) is None
    undefined = lambda sums: np.full(len(sums), np.nan)  # noqa: E731
    assert paired_permutation(np.ones((3, 1)), np.zeros((3, 1)), undefined, seed=0) is None


def test_equal_differences_have_no_effect_size() -> None:
    found = paired(column([0.5, 0.75]), column([0.25, 0.5]), ["a", "b"], Mean("tvd"), seed=0)
    assert found.effect.cohen_d is None
    assert found.effect.share_lower == 0


def test_effect_size_matches_manual_computation() -> None:
    """Differences -.1, 0, -.2 and .4: two of four are below 0, one is a tie."""
    found = paired(
        column([0.1, 0.4, 0.3, 0.9]), column([0.2, 0.4, 0.5, 0.5]), list("aabc"), Mean("tvd"), 0
    )
    deviation = math.sqrt((0.125**2 + 0.025**2 + 0.225**2 + 0.375**2) / 3)
    assert found.effect.cohen_d == pytest.approx(0.025 / deviation)
    assert found.effect.share_lower == pytest.approx(0.625)
    assert (found.difference.n_items, found.difference.n_groups) == (4, 3)
    one = paired(column([0.1]), column([0.2]), ["a"], Mean("tvd"), 0)
    assert (one.effect.cohen_d, one.effect.share_lower) == (None, 1.0)


def test_undefined_split_does_not_separate_identical_systems() -> None:
    values = {"tvd": np.array([[0.1, np.nan, 0.3], [0.5, 0.25, 0.5]])}
    found = paired(values, dict(values), ["a", "b"], Mean("tvd"), seed=0)
    assert (found.test, found.reason) == (None, IDENTICAL)
    assert found.effect.share_lower == 0.5


def test_ratios_over_different_numbers_of_splits_are_compared() -> None:
    """Values without splits are broadcast over the splits."""
    many = {"tvd": np.array([[0.1, 0.3], [0.5, 0.7]])}
    found = paired(many, column([0.4, 0.1]), ["a", "b"], Mean("tvd"), seed=0)
    assert found.difference.value == pytest.approx(0.4 - 0.25)


def squared_distance(a: np.ndarray, b: np.ndarray) -> float:
    shares = [np.bincount(side.astype(int), minlength=4) / len(side) for side in (a, b)]
    return float(((shares[0] - shares[1]) ** 2).sum())


@settings(deadline=None, max_examples=40)
@given(
    arrays(np.int64, 4, elements=st.integers(0, 2)), arrays(np.int64, 4, elements=st.integers(0, 2))
)
def test_exact_sample_permutation_matches_scipy(people: np.ndarray, model: np.ndarray) -> None:
    found = one_population(people, model, stream(0))
    if not people.sum() or not model.sum():
        assert found is None
        return
    if min(people.sum(), model.sum()) < 2:
        return  # scipy wants two answers a side
    sides = [np.repeat(np.arange(4), side) for side in (people, model)]
    expected = stats.permutation_test(
        sides, squared_distance, alternative="greater", n_resamples=np.inf, vectorized=False
    )
    assert found.exact
    assert found.p == pytest.approx(expected.pvalue)


def test_random_permutations_agree_with_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    people, model = np.array([9, 5, 3, 1, 1, 1, 0, 0]), np.array([4, 5, 6, 0, 0, 1, 2, 2])
    exact = one_population(people, model, stream(0))
    monkeypatch.setattr(control, "EXACT_CELLS", 0)
    random = one_population(people, model, stream(0), n_permutations=50_000)
    assert exact.exact
    assert not random.exact
    assert random.p == pytest.approx(exact.p, abs=0.005)


def test_random_samples_are_drawn_without_replacement_and_evenly() -> None:
    drawn = control._samples(6, 3, 20_000, stream(0))
    assert all(len(set(row)) == 3 for row in drawn[:200].tolist())
    assert np.bincount(drawn.ravel(), minlength=6) / drawn.size == pytest.approx(
        np.full(6, 1 / 6), abs=0.01
    )


def test_few_large_random_samples_are_drawn_without_replacement_and_evenly() -> None:
    rng = stream(0)
    drawn = np.concatenate([control._samples(6, 5, 4, rng) for _ in range(1000)])
    assert drawn.shape == (4000, 5)
    assert all(len(set(row)) == 5 for row in drawn.tolist())
    shares = np.bincount(drawn.ravel(), minlength=6) / drawn.size
    assert shares == pytest.approx(np.full(6, 1 / 6), abs=0.01)


def test_exact_test_is_used_up_to_cell_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two words with 3 + 1 possible counts each, 4 sample sizes, 9 + 9 + 1 distances."""
    for limit, exact in ((8 * 4 * 19, True), (8 * 4 * 19 - 1, False)):
        monkeypatch.setattr(control, "EXACT_CELLS", limit)
        found = one_population(np.array([3, 0]), np.array([0, 3]), stream(0))
        assert found.exact is exact
        assert found.p == pytest.approx(0.1, abs=0.03)


def test_fit_to_known_probabilities_matches_multinomial_test() -> None:
    people, probs = np.array([4, 1, 0]), np.array([0.25, 0.5, 0.25])
    distance = lambda counts: float(((counts / 5 - probs) ** 2).sum())  # noqa: E731
    every = [np.array(c) for c in product(range(6), repeat=3) if sum(c) == 5]
    chances = [stats.multinomial.pmf(c, 5, probs) for c in every]
    reached = [distance(c) >= distance(people) - 1e-12 for c in every]
    found = fits(people, probs, 0.0, stream(0), n_draws=50_000)
    assert found.p == pytest.approx(np.dot(chances, reached), abs=0.005)


def test_answers_with_zero_model_probability_reject_the_model() -> None:
    assert fits(np.array([0, 3]), np.array([1.0, 0.0]), 0.0, stream(0)).p < 0.001
    assert fits(np.array([0, 0]), np.array([1.0, 0.0]), 0.0, stream(0)) is None


def test_random_permutations_include_the_observed_one() -> None:
    """No random swap reaches a difference of one sign in 30 groups: p is 1 / 100, not 0."""
    first, second = np.ones((30, 1)), np.zeros((30, 1))
    found = paired_permutation(first, second, total, seed=0, n_permutations=99)
    assert (found.p, found.exact, found.smallest) == (1 / 100, False, 1 / 100)
    assert found.method == "swap of groups, 99 random permutations"
    found = paired_permutation(first[:3], second[:3], total, seed=0)
    assert (found.p, found.exact, found.smallest) == (1 / 4, True, 1 / 4)
    assert found.method == "swap of groups, 4 all permutations"


def test_random_samples_include_the_observed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "EXACT_CELLS", 0)
    people, model = np.array([50, 0]), np.array([0, 50])
    rng = np.random.default_rng(0)
    assert one_population(people, model, rng, 99).p == 1 / 100
    assert fits(people, np.array([0.0, 1.0]), 0.0, rng, 99).p == 1 / 100
    assert one_population(people, model, rng).p == 1 / 2000
    assert fits(people, np.array([0.0, 1.0]), 0.0, rng).p == 1 / 2000
