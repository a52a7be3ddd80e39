"""Each fast metric against a naive one, on random inputs."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from aleatoric.metrics import divergence, overlap, splits
from aleatoric.metrics import entropy as entropies
from aleatoric.metrics.agreement import (
    COLUMNS,
    Agreement,
    agreements_of_counts,
    sq_distance,
)
from aleatoric.metrics.calibration import bin_index, ece, equal_mass_edges, equal_width_edges
from aleatoric.metrics.tvd import tvd
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
def test_js_is_scipys(human: dict[str, int], model: dict[str, int]) -> None:
    expected = jensenshannon(vector(human), vector(model)) ** 2
    assert divergence.js(pair(human, model)) == pytest.approx(expected, abs=1e-9)


@given(counts, counts)
def test_squared_distance_is_a_mean_over_pairs_of_draws(
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
def test_split_forms_equal_pair_forms(human: dict[str, int], model: dict[str, int]) -> None:
    left, right = vector(human).astype(int)[None], vector(model).astype(int)[None]
    own = pair(human, model)
    assert splits.tvd(left, right)[0] == pytest.approx(tvd(own), abs=1e-12)
    assert splits.js(left, right)[0] == pytest.approx(divergence.js(own), abs=1e-9)
    found = Agreement.of(own)
    expected = found.columns() if found else dict.fromkeys((*COLUMNS, "sq_distance"), math.nan)
    for name, values in agreements_of_counts(left, right).items():
        assert values[0] == pytest.approx(expected[name], abs=1e-12, nan_ok=True)


@given(counts)
def test_plug_in_entropy_is_scipys(human: dict[str, int]) -> None:
    own = entropies.plug_in(Categorical.from_counts(human))
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
        for f in (entropies.plug_in, entropies.miller_madow, entropies.chao_shen)
    }
    assert errors[entropies.plug_in] > errors[entropies.miller_madow] > errors[entropies.chao_shen]
    assert errors[entropies.chao_shen] < errors[entropies.plug_in] / 3


@given(counts)
def test_chao_shen_is_its_formula(human: dict[str, int]) -> None:
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


def test_unassigned_mass_is_not_hidden() -> None:
    human = Categorical(("a",), (1.0,))
    model = Categorical(("a",), (0.4,), rest=0.6)
    own = Pair("i", "g", human, model)
    assert tvd(own) == pytest.approx(0.6)
    assert sq_distance(own) == pytest.approx(1 + 0.16 - 2 * 0.4)
    assert entropies.entropy_model(own) is None


def test_rank_shares_ties_and_is_undefined_without_mass() -> None:
    human = Categorical(("a",), (1.0,))
    tied = Categorical(("x", "a", "y"), (0.4, 0.3, 0.3))
    assert overlap.rank_of_human_mode(Pair("i", "g", human, tied)) == 2.5
    absent = Categorical(("x",), (1.0,))
    assert overlap.rank_of_human_mode(Pair("i", "g", human, absent)) is None


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
def test_ece_is_the_naive_one(drawn: list[tuple[int, bool]], closed: bool) -> None:
    confidences = [count / 40 for count, _ in drawn]
    correct = [k for _, k in drawn]
    own = ece(np.array(confidences), np.array(correct, float), equal_width_edges(), closed)
    assert own == pytest.approx(naive_ece(confidences, correct, closed), abs=1e-12)


def test_ece_of_nothing_is_undefined() -> None:
    assert ece(np.zeros(0), np.zeros(0), equal_width_edges()) is None


def test_confidence_one_is_lost_by_half_open_bins_alone() -> None:
    sure, wrong = np.ones(4), np.zeros(4)
    assert ece(sure, wrong, equal_width_edges(), closed=True) == 1
    assert ece(sure, wrong, equal_width_edges(), closed=False) == 0


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=80))
def test_equal_mass_bins_hold_equal_numbers_where_values_differ(values: list[float]) -> None:
    values = sorted(set(values))
    edges = equal_mass_edges(values, len(values), 4)
    sizes = np.bincount(np.searchsorted(edges, values, side="right"), minlength=1)
    assert sizes.max() - sizes.min() <= 2


@given(st.lists(st.integers(1, 40), min_size=2, max_size=60))
def test_an_edge_opens_the_bin_of_the_value_it_equals(counts_of_40: list[int]) -> None:
    values = sorted(count / 40 for count in counts_of_40)
    edges = equal_mass_edges(values, len(values), 4)
    for value in values:
        below = sum(edge <= float(np.float32(value)) for edge in edges)
        assert bin_index(np.array([value]), edges)[0] == below
    assert set(edges) <= {float(np.float32(value)) for value in values}
