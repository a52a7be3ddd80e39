"""Divergences between rows of samples compared with SciPy, one row at a time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aleatoric import registry
from aleatoric.metrics.distances import Divergence, mean, w1
from aleatoric.types import Floats


def naive_ks(left: Floats, right: Floats) -> float:
    return max(abs((left <= x).mean() - (right <= x).mean()) for x in (*left, *right))


NAIVE = {
    "w1": stats.wasserstein_distance,
    "ks": naive_ks,
}
# Few distinct values make ties; the others are any distance there can be.
VALUES = st.one_of(
    st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0, float("nan")]),
    st.floats(0, 2, allow_subnormal=False),
)


@st.composite
def samples(draw: st.DrawFn) -> tuple[Floats, Floats]:
    n, k, m = (draw(st.integers(1, most)) for most in (4, 9, 9))
    rows = [
        draw(st.lists(st.lists(VALUES, min_size=size, max_size=size), min_size=n, max_size=n))
        for size in (k, m)
    ]
    return np.array(rows[0]), np.array(rows[1])


@pytest.fixture(params=sorted(NAIVE))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def divergence(name: str) -> Divergence:
    found: Divergence = registry.find("divergences", name)
    return found


@pytest.mark.parametrize("name", sorted(NAIVE))
@settings(deadline=None)
@given(pair=samples())
def test_matches_scipy_with_unequal_sizes_ties_and_missing_values(
    name: str, pair: tuple[Floats, Floats]
) -> None:
    found = divergence(name)(*pair)
    for value, left, right in zip(found, *pair, strict=True):
        left, right = left[~np.isnan(left)], right[~np.isnan(right)]
        if len(left) and len(right):
            assert value == pytest.approx(NAIVE[name](left, right), abs=1e-12, rel=1e-12)
        else:
            assert np.isnan(value)


@pytest.mark.parametrize("name", sorted(NAIVE))
@settings(deadline=None)
@given(pair=samples())
def test_symmetric_and_zero_for_identical_samples(name: str, pair: tuple[Floats, Floats]) -> None:
    left, right = pair
    own = divergence(name)
    np.testing.assert_allclose(own(left, right), own(right, left), atol=1e-12)
    same = own(left, left[:, ::-1])
    assert not np.nan_to_num(same).any()


def test_row_does_not_depend_on_its_batch(name: str) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.random((40, 7)), rng.random((40, 5))
    left[rng.random(left.shape) < 0.3] = np.nan
    own = divergence(name)
    alone = np.concatenate([own(left[i : i + 1], right[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(own(left, right), alone)


def test_mean_ignores_missing_values() -> None:
    rows = np.array([[1.0, np.nan, 2.0], [np.nan] * 3])
    np.testing.assert_array_equal(mean(rows), [1.5, np.nan])


def test_two_thousand_inputs_are_fast() -> None:
    rng = np.random.default_rng(0)
    people, cross = rng.random((2000, 45)), rng.random((2000, 100))
    w1(cross[:2], people[:2])
    started = time.perf_counter()
    w1(rng.random((2000, 45)), people)
    w1(cross, people)
    assert time.perf_counter() - started < 0.5  # about 0.02 s; room for a busy machine
