"""The debiased TVD compared with its definition: leave out each pair, fit the set, evaluate it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.metrics.calibration import DebiasedECE, bin_index, equal_width_edges
from aleatoric.metrics.distances import leave_pair_out, tvd_debiased
from aleatoric.types import Categorical, Pair

COUNTS = st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(1, 5), min_size=2)
FEW = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=7)


def pair_of(people: dict[str, int], model: Categorical) -> Pair:
    return Pair("", "", Categorical.from_counts(people), model)


@given(COUNTS, COUNTS)
def test_single_pair_matches_row_of_table(people, draws):
    words = sorted(people.keys() | draws.keys())
    left, right = (np.array([[own.get(w, 0) for w in words]]) for own in (people, draws))
    pair = pair_of(people, Categorical.from_counts(draws))
    assert tvd_debiased(pair) == leave_pair_out(left, right)[0]


def test_row_of_table_does_not_depend_on_other_rows() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 4, (2, 50, 8))
    alone = [leave_pair_out(left[i : i + 1], right[i : i + 1])[0] for i in range(50)]
    np.testing.assert_array_equal(leave_pair_out(left, right), alone)


@given(FEW, FEW)
def test_matches_naive_leave_one_pair_out(people, draws):
    n, m, total = len(people), len(draws), 0
    for i, word in enumerate(people):
        for j, drawn in enumerate(draws):
            left = Counter(people[:i] + people[i + 1 :])
            right = Counter(draws[:j] + draws[j + 1 :])

            def side(word, left=left, right=right):
                """1 for a human word, -1 for a model word; unseen words count as seen once."""
                a, b = left[word], right[word]
                if a == b == 0:
                    a, b = (list(own.values()).count(1) for own in (left, right))
                return np.sign(a * (m - 1) - b * (n - 1))

            total += side(word) - side(drawn)
    pair = pair_of(Counter(people), Categorical.from_counts(Counter(draws)))
    assert tvd_debiased(pair) == pytest.approx(total / (2 * n * m), abs=1e-12)


@given(FEW, st.lists(st.integers(0, 4), min_size=8, max_size=8), st.integers(0, 3))
def test_exact_model_matches_naive_leave_one_person_out(people, weights, rest):
    scale = sum(weights) + rest
    if not scale:
        return
    probs = {w: k / scale for w, k in zip("abcdefgh", weights, strict=True) if k}
    found = []
    for i, word in enumerate(people):
        left = Counter(people[:i] + people[i + 1 :])
        side = {w: np.sign(left[w] / (len(people) - 1) - probs.get(w, 0)) for w in "abcdefgh"}
        own = side[word] if left[word] or word in probs else 1
        found.append(own - sum(q * side[w] for w, q in probs.items()) + rest / scale)
    model = Categorical(tuple(probs), tuple(probs.values()), rest=rest / scale)
    expected = np.mean(found) / 2
    assert tvd_debiased(pair_of(Counter(people), model)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("n", "model"), [(1, {"a": 5}), (5, {"a": 1}), (1, None)], ids=["person", "draw", "exact"]
)
def test_undefined_with_fewer_than_two_answers(n: int, model: dict[str, int] | None) -> None:
    side = Categorical.from_counts(model) if model else Categorical(("a",), (1.0,))
    assert tvd_debiased(pair_of({"a": n}, side)) is None


def test_rows_with_fewer_than_two_answers_are_undefined() -> None:
    found = leave_pair_out(np.array([[1, 0], [1, 1], [2, 0]]), np.array([[2, 0], [2, 0], [0, 1]]))
    assert np.isnan(found).tolist() == [True, False, True]


def test_debiased_ece_of_several_splits_matches_each_split() -> None:
    rng = np.random.default_rng(0)
    confidence, right = rng.random((60, 2)), (rng.random((60, 2)) < 0.3).astype(float)
    right[5, 0] = right[6, 0] = confidence[7, 1] = np.nan
    own = DebiasedECE("right", equal_width_edges(4))
    sums = own.columns({"confidence": confidence, "right": right}).sum(axis=0)
    for split, found in enumerate(own.values(sums)):
        known = np.isfinite(confidence[:, split] + right[:, split])
        sure, correct = confidence[known, split], right[known, split]
        bins = bin_index(sure, equal_width_edges(4))
        terms = [
            size * ((sure[bins == b].mean() - correct[bins == b].mean()) ** 2)
            - correct[bins == b].var(ddof=1)
            for b in range(4)
            if (size := (bins == b).sum())
        ]
        assert found == pytest.approx(np.sqrt(max(0, sum(terms) / known.sum())))
    assert own.defined(sums) == 59
