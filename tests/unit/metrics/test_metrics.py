"""Each fast metric compared with a naive one, on random inputs."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from aleatoric.metrics import agreement, distances
from aleatoric.metrics import agreement as entropies
from aleatoric.metrics.agreement import (
    COLUMNS,
    Agreement,
    AgreementGap,
    Overlap,
    agreements_of_counts,
    sq_distance,
)
from aleatoric.metrics.calibration import (
    ECE,
    bin_index,
    binned,
    ece,
    equal_mass_edges,
    equal_width_edges,
)
from aleatoric.metrics.distances import energy_distance, js_of_counts, tvd, tvd_of_counts
from aleatoric.metrics.reduction import FiniteMean, Mean
from aleatoric.types import Categorical, Pair

WORDS = "abcdefgh"
counts = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 30), min_size=1)


def pair(human: dict[str, int], model: dict[str, int]) -> Pair:
    return Pair("i", "g", Categorical.from_counts(human), Categorical.from_counts(model))


def vector(counted: dict[str, int]) -> np.ndarray:
    return np.array([counted.get(word, 0) for word in WORDS], dtype=np.float64)


@given(counts, counts)
def test_tvd_is_half_the_l1_distance(human: dict[str, int], model: dict[str, int]) -> None:
    p, q = vector(human) / sum(human.values()), vector(model) / sum(model.values())
    assert tvd(pair(human, model)) == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-12)


@given(counts, counts)
def test_js_matches_scipy(human: dict[str, int], model: dict[str, int]) -> None:
    expected = jensenshannon(vector(human), vector(model)) ** 2
    assert distances.js(pair(human, model)) == pytest.approx(expected, abs=1e-9)


@given(counts, counts)
def test_squared_distance_matches_mean_over_pairs_of_draws(
    human: dict[str, int], model: dict[str, int]
) -> None:
    xs, ys = list(Counter(human).elements()), list(Counter(model).elements())
    found = sq_distance(pair(human, model))
    if len(xs) < 2 or len(ys) < 2:
        assert found is None
        return
    same_x = np.mean([xs[i] == xs[j] for i in range(len(xs)) for j in range(i)])
    same_y = np.mean([ys[i] == ys[j] for i in range(len(ys)) for j in range(i)])
    across = np.mean([x == y for x in xs for y in ys])
    assert found == pytest.approx(same_x + same_y - 2 * across, abs=1e-9)


@given(counts, counts)
def test_split_metrics_match_pair_metrics(human: dict[str, int], model: dict[str, int]) -> None:
    left, right = vector(human).astype(int)[None], vector(model).astype(int)[None]
    own = pair(human, model)
    assert tvd_of_counts(left, right)[0] == pytest.approx(tvd(own), abs=1e-12)
    assert js_of_counts(left, right)[0] == pytest.approx(distances.js(own), abs=1e-9)
    found = Agreement.of(own)
    expected = found.columns() if found else dict.fromkeys((*COLUMNS, "sq_distance"), math.nan)
    for name, values in agreements_of_counts(left, right).items():
        assert values[0] == pytest.approx(expected[name], abs=1e-12, nan_ok=True)


@given(counts)
def test_plug_in_entropy_matches_scipy(human: dict[str, int]) -> None:
    own = entropies.plug_in_entropy(Categorical.from_counts(human))
    assert own == pytest.approx(entropy(vector(human)), abs=1e-12)


def test_entropy_corrections_remove_bias() -> None:
    """40 draws of a Zipf distribution: the plug-in is far too small, Chao-Shen the nearest."""
    weights = 1 / np.arange(1, 101)
    probs = weights / weights.sum()
    rng = np.random.default_rng(0)
    names = [str(i) for i in range(100)]
    drawn = [
        Categorical.from_counts({w: int(c) for w, c in zip(names, row, strict=True) if c})
        for row in rng.multinomial(40, probs, size=400)
    ]
    errors = {
        f: abs(np.mean([f(d) for d in drawn]) - entropy(probs))
        for f in (entropies.plug_in_entropy, entropies.chao_shen)
    }
    assert errors[entropies.chao_shen] < errors[entropies.plug_in_entropy] / 3


@given(counts)
def test_chao_shen_matches_formula(human: dict[str, int]) -> None:
    seen = np.array(list(human.values()))
    n, singletons = seen.sum(), (seen == 1).sum()
    covered = (1 - min(singletons, n - 1) / n) * seen / n
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = -np.nansum(covered * np.log(covered) / (1 - (1 - covered) ** n))
    assert entropies.chao_shen(Categorical.from_counts(human)) == pytest.approx(expected, abs=1e-9)


def test_entropy_of_all_different_answers_is_finite() -> None:
    found = entropies.chao_shen(Categorical.from_counts(dict.fromkeys(WORDS, 1)))
    assert math.log(8) < found < math.inf
    assert entropies.chao_shen(Categorical.from_counts({"a": 1})) == pytest.approx(0, abs=1)


def test_unassigned_mass_is_counted_as_distance() -> None:
    human = Categorical(("a",), (1.0,))
    model = Categorical(("a",), (0.4,), rest=0.6)
    own = Pair("i", "g", human, model)
    assert tvd(own) == pytest.approx(0.6)
    assert sq_distance(own) == pytest.approx(1 + 0.16 - 2 * 0.4)
    assert entropies.entropy_model(own) is None


def test_rank_shares_ties_and_is_undefined_without_mass() -> None:
    human = Categorical(("a",), (1.0,))
    tied = Categorical(("x", "a", "y"), (0.4, 0.3, 0.3))
    assert agreement.rank_of_human_mode(Pair("i", "g", human, tied)) == 2.5
    absent = Categorical(("x",), (1.0,))
    assert agreement.rank_of_human_mode(Pair("i", "g", human, absent)) is None


def naive_ece(confidences: list[float], correct: list[bool], closed: bool) -> float:
    total = 0.0
    for b in range(10):
        low, high = b / 10, (b + 1) / 10
        inside = [
            (c, k)
            for c, k in zip(confidences, correct, strict=True)
            if low <= float(np.float32(c)) < high or (closed and b == 9 and c == 1)
        ]
        if inside:
            gap = np.mean([c for c, _ in inside]) - np.mean([k for _, k in inside])
            total += len(inside) / len(confidences) * abs(gap)
    return total


@given(
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=60), st.booleans()
)
def test_ece_matches_naive(drawn: list[tuple[int, bool]], closed: bool) -> None:
    confidences = [count / 40 for count, _ in drawn]
    correct = [k for _, k in drawn]
    own = ece(np.array(confidences), np.array(correct, float), equal_width_edges(), closed)
    assert own == pytest.approx(naive_ece(confidences, correct, closed), abs=1e-12)


def test_ece_of_no_items_is_undefined() -> None:
    assert ece(np.zeros(0), np.zeros(0), equal_width_edges()) is None


def test_only_half_open_bins_drop_confidence_one() -> None:
    sure, wrong = np.ones(4), np.zeros(4)
    assert ece(sure, wrong, equal_width_edges(), closed=True) == 1
    assert ece(sure, wrong, equal_width_edges(), closed=False) == 0


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=80))
def test_equal_mass_bins_have_equal_counts_without_ties(values: list[float]) -> None:
    values = sorted(set(values))
    edges = equal_mass_edges(values, len(values), 4)
    sizes = np.bincount(np.searchsorted(edges, values, side="right"), minlength=1)
    assert sizes.max() - sizes.min() <= 2


@given(st.lists(st.integers(1, 40), min_size=2, max_size=60))
def test_value_on_edge_falls_into_bin_that_starts_there(counts_of_40: list[int]) -> None:
    values = sorted(count / 40 for count in counts_of_40)
    edges = equal_mass_edges(values, len(values), 4)
    for value in values:
        below = sum(edge <= float(np.float32(value)) for edge in edges)
        assert bin_index(np.array([value]), edges)[0] == below
    assert set(edges) <= {float(np.float32(value)) for value in values}


NAN = math.nan
CHUNK = {
    # Four items of two splits; the third lacks an agreement in one split, the last in both.
    "agreement_H": np.array([[0.5, 0.25], [0.0, 0.5], [NAN, 1.0], [NAN, NAN]]),
    "agreement_M": np.array([[0.25], [1.0], [0.5], [0.5]]),
    "agreement_C": np.array([[0.25, 0.5], [0.5, 0.25], [0.5, 0.5], [0.5, 0.5]]),
    "tvd": np.array([[0.5, 0.25], [1.0, 0.5], [NAN, 0.75], [NAN, NAN]]),
}
BINNED = {
    "confidence": np.array([[0.25, 0.75], [0.25, 0.25], [1.0, 0.875], [NAN, 0.5]]),
    "right": np.array([[1.0], [0.0], [0.0], [1.0]]),
}


def test_undefined_items_are_zero_and_not_binned() -> None:
    confidence, right, known, index = binned(BINNED, "right", (0.5,), closed=False)
    assert confidence.tolist() == [[0.25, 0.75], [0.25, 0.25], [1.0, 0.875], [0.0, 0.5]]
    assert right.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert known.tolist() == [[True, True], [True, True], [True, True], [False, True]]
    assert index.tolist() == [[0, 1], [0, 0], [-1, 1], [-1, 1]]


@pytest.mark.parametrize(
    ("reduction", "chunk", "values", "defined"),
    [
        # 2 ΣC / Σ(H + M) of both splits together.
        (Overlap(), CHUNK, [(1.5 + 2.5) / (1.75 + 3.5)], 3),
        # M - H: -.25 and 1; 0, .5 and -.5.
        (AgreementGap(), CHUNK, [0.375, 0.0], 3),
        (Mean("tvd"), CHUNK, [0.75, 0.5], 3),
        # Summed gaps of the bins: -.5 and 1, of 3 items; .25 and .125, of 4.
        (ECE("right", (0.5,)), BINNED, [1.5 / 3, 0.375 / 4], 4),
        # An open last bin leaves out a confidence of 1; its item counts all the same.
        (ECE("right", (0.5,), closed=False), BINNED, [0.5 / 3, 0.375 / 4], 4),
        # Three bins: -.5, none and 1; .25, -.5 and .625.
        (ECE("right", (0.3, 0.6)), BINNED, [1.5 / 3, 1.375 / 4], 4),
    ],
)
def test_reductions_of_several_splits_match_manual_computation(
    reduction, chunk, values, defined
) -> None:
    columns = reduction.columns(chunk)
    assert reduction.values(columns.sum(axis=0)) == pytest.approx(values)
    assert reduction.defined(columns.sum(axis=0)) == defined
    # Sums of several groups at once, as a bootstrap has them.
    stacked = np.stack([columns[:2].sum(axis=0), columns.sum(axis=0)])
    assert reduction.values(stacked)[1] == pytest.approx(values)
    alone = reduction.values(columns[:2].sum(axis=0))
    assert reduction.values(stacked)[0] == pytest.approx(alone)


def test_mean_with_an_infinite_item_is_undefined() -> None:
    """Infinite where the statistic is undefined but the accompanying one is defined."""
    chunk = {"loss": np.array([[1.0], [3.0], [NAN], [NAN]]), "tvd": np.array([[0.5]] * 3 + [[NAN]])}
    mean = FiniteMean("loss", "tvd")
    columns = mean.columns(chunk)
    assert columns.tolist() == [[1, 1, 0], [3, 1, 0], [0, 0, 1], [0, 0, 0]]
    finite, infinite = columns[[0, 1, 3]].sum(axis=0), columns.sum(axis=0)
    assert (mean.values(finite)[0], mean.defined(finite)) == (2.0, 2)
    assert (np.isnan(mean.values(infinite)[0]), mean.defined(infinite)) == (True, 2)


def test_single_draw_has_no_agreement() -> None:
    found = agreements_of_counts(np.array([[1, 0], [1, 1]]), np.array([[2, 0], [2, 0]]))
    assert {name: np.isnan(own).tolist() for name, own in found.items()} == {
        name: [True, False] for name in (*COLUMNS, "sq_distance")
    }


@pytest.mark.parametrize(
    ("human", "model", "expected"),
    [
        ({"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.5, "c": 0.25}, math.log(8) / 2),
        ({"a": 0.75, "b": 0.25}, {"a": 1.0, "b": 0.0}, None),
        ({"a": 1.0, "b": 0.0}, {"a": 0.5}, math.log(2)),  # nobody gave b
    ],
)
def test_log_loss_matches_manual_computation(human, model, expected) -> None:
    sides = [Categorical(tuple(own), tuple(own.values())) for own in (human, model)]
    found = entropies.log_loss(*sides)
    assert found == (None if expected is None else pytest.approx(expected))


def test_entropies_match_manual_computation() -> None:
    assert entropies.plug_in_entropy(Categorical(("a", "b"), (1.0, 0.0))) == 0
    sample = Categorical.from_counts({"a": 3, "b": 1})
    known = Categorical(("a", "b"), (0.75, 0.25))
    assert entropies.chao_shen(known) == pytest.approx(entropy([0.75, 0.25]))
    pair = Pair("i", "g", sample, known)
    assert entropies.entropy_human(pair) == entropies.chao_shen(sample)
    assert entropies.entropy_model(pair) == pytest.approx(entropy([0.75, 0.25]))


def test_energy_distance_matches_manual_computation() -> None:
    found = energy_distance(np.array([0.5, 0.5]), np.array([0.25, 0.75]), np.array([0.5, np.nan]))
    np.testing.assert_array_equal(found, [0.25, np.nan])
