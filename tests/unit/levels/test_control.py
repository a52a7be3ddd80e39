"""The human control compared with naive loops, and its independence of batching."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from aleatoric.levels import text_variability
from aleatoric.levels.text_variability import Inputs, Splitting, random_orders
from aleatoric.metrics.distances import w1
from aleatoric.types import Floats

W1 = {"w1": w1}


def matrices(n: int, texts: int, seed: int = 0) -> Floats:
    """Distances of random points: texts of one input lie in one plane."""
    points = np.random.default_rng(seed).normal(size=(n, texts, 2))
    found: Floats = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    return found


def one(found: dict[str, Floats]) -> dict[str, float]:
    return {name: float(values[0]) for name, values in found.items()}


def paper(distances: Floats) -> dict[str, float]:
    return one(text_variability.paper_batch(distances[None, :], W1))


def corrected(matrix: Floats, n: int, splitting: Splitting) -> dict[str, float]:
    return one(text_variability.corrected_batch(Inputs(["x"], matrix[None], n), W1, splitting))


def matched(matrix: Floats, n: int, splitting: Splitting) -> dict[str, float]:
    return one(text_variability.matched_batch(Inputs(["x"], matrix[None], n), W1, splitting))


def pairs(matrix: Floats, chosen: Sequence[int]) -> list[float]:
    return [matrix[i, j] for i, j in combinations(chosen, 2)]


def test_published_control_matches_authors_code() -> None:
    distances = np.random.default_rng(1).random(45)
    index = np.random.default_rng(42).choice(np.arange(45), 45)
    left, right = distances[index[:22]], distances[:22]
    found = paper(distances)
    assert found["w1"] == pytest.approx(wasserstein_distance(left, right), abs=1e-12)
    assert found["dmu"] == pytest.approx(left.mean() - right.mean(), abs=1e-12)
    np.testing.assert_array_equal(text_variability.paper_people(distances[None, :])[0], left)


@pytest.mark.parametrize("n", [3, 4, 5, 10])
def test_corrected_control_matches_loop_over_splits(n: int) -> None:
    matrix = matrices(1, n)[0]
    found = corrected(matrix, n, Splitting(7, 6))
    expected: dict[str, list[float]] = {"w1_M": [], "w1_C": [], "dmu_M": [], "dmu_C": []}
    for order in random_orders(n, ["x"], 7, 6)[0]:
        a, b = order[: n // 2], order[n // 2 :]
        people, grid = pairs(matrix, b), [matrix[i, j] for i in a for j in b]
        for name, own in (("M", pairs(matrix, a)), ("C", grid)):
            if own:
                expected[f"w1_{name}"].append(wasserstein_distance(own, people))
                expected[f"dmu_{name}"].append(np.mean(own) - np.mean(people))
    for name, values in expected.items():
        if values:
            assert found[name] == pytest.approx(np.mean(values), abs=1e-12)
        else:
            assert np.isnan(found[name])


def test_matched_system_matches_loop_over_splits() -> None:
    n, m = 9, 7
    matrix = matrices(1, n + m)[0]
    found = matched(matrix, n, Splitting(7, 5))
    people = random_orders(n, ["x"], 7, 5)[0]
    drawn = random_orders(m, ["x"], 7, 5, "text-matched")[0]
    expected = []
    for order, own in zip(people, drawn, strict=True):
        model = n + own[: n // 2]
        expected.append(wasserstein_distance(pairs(matrix, model), pairs(matrix, order[n // 2 :])))
    assert found["w1_M"] == pytest.approx(np.mean(expected), abs=1e-12)


def test_matching_needs_half_as_many_generations_as_references() -> None:
    found = matched(matrices(1, 12)[0], 10, Splitting(0))
    assert all(np.isnan(value) for value in found.values())
    assert set(found) == set(corrected(matrices(1, 10)[0], 10, Splitting(0)))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_control_is_undefined_with_too_few_references(n: int) -> None:
    found = corrected(matrices(1, n)[0], n, Splitting(0))
    assert all(np.isnan(value) for value in found.values())
    assert all(np.isnan(v) for v in paper(np.empty(max(n - 1, 0))).values())


def test_result_per_input_does_not_depend_on_batch_or_order() -> None:
    together, ids = matrices(30, 14), [f"input {i}" for i in range(30)]
    together[3, 0, 1] = together[3, 1, 0] = np.nan
    for score in (text_variability.corrected_batch, text_variability.matched_batch):
        whole = score(Inputs(ids, together, 8), W1, Splitting(3))
        for i in (0, 3, 29):
            alone = score(Inputs(ids[i : i + 1], together[i : i + 1], 8), W1, Splitting(3))
            assert {name: values[i] for name, values in whole.items()} == {
                name: pytest.approx(values[0], abs=0, nan_ok=True) for name, values in alone.items()
            }


def test_undefined_distances_are_excluded() -> None:
    matrix = matrices(1, 6)[0]
    matrix[0, :] = matrix[:, 0] = np.nan
    found = corrected(matrix, 6, Splitting(0))
    assert all(np.isfinite(value) for value in found.values())


def test_splits_depend_on_seed_and_input() -> None:
    first = random_orders(10, ["a"], 0)
    assert not np.array_equal(first, random_orders(10, ["b"], 0))
    assert not np.array_equal(first, random_orders(10, ["a"], 1))
    np.testing.assert_array_equal(first[0], random_orders(10, ["b", "a"], 0)[1])
