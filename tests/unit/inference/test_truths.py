"""Estimated truths and floors of many items side by side: each as if it were alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.inference.floor import Asked, floors_of
from aleatoric.inference.truths import Rows, chao, chao_rows

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=12).map(np.array)


def naive_chao(counts: np.ndarray) -> np.ndarray:
    """Chao et al. (2015), term by term."""
    n, once, twice = int(counts.sum()), int((counts == 1).sum()), int((counts == 2).sum())
    shares = counts / n
    if once == 0 or n < 2:
        return shares
    if twice:
        covered = 1 - once / n * (n - 1) * once / ((n - 1) * once + 2 * twice)
        pairs = once**2 / (2 * twice)
    else:
        covered = 1 - once / n * (n - 1) * (once - 1) / ((n - 1) * (once - 1) + 2)
        pairs = once * (once - 1) / 2
    covered = max(covered, 1 / n)
    loss = shares * (1 - shares) ** n
    kept = shares * (1 - (1 - covered) / loss.sum() * (1 - shares) ** n)
    kept = shares if (kept <= 0).any() else kept
    unseen = max(1, int(np.ceil((n - 1) / n * pairs)))
    return np.concatenate([kept / kept.sum() * covered, np.full(unseen, (1 - covered) / unseen)])


@given(st.lists(COUNTS, min_size=1, max_size=6))
def test_chao_of_many_rows_is_chaos_formula_for_each(rows):
    found = chao_rows(Rows.of(rows)).split()
    for counts, truth in zip(rows, found, strict=True):
        np.testing.assert_allclose(truth, naive_chao(counts), atol=1e-12)
        assert (truth == chao(counts)).all()  # to the last bit, whatever the company
        assert abs(truth.sum() - 1) < 1e-12


def asks(rows: list[np.ndarray]) -> list[Asked]:
    sizes = [(20, None), (40, 1000), (9, 10)]
    return [Asked(row, *sizes[i % 3], np.random.default_rng(i)) for i, row in enumerate(rows)]


@given(st.lists(COUNTS, min_size=1, max_size=7))
def test_floors_do_not_depend_on_the_other_items(rows):
    together = floors_of(asks(rows))
    assert together == [floors_of([ask])[0] for ask in asks(rows)]


def test_a_floor_is_the_mean_distance_of_two_samples_of_one_truth():
    """Everybody's words seen often: every estimate of the truth is people's own distribution."""
    counts = np.array([30, 20, 10])
    rng = np.random.default_rng(0)
    found = floors_of([Asked(counts, 15, 25, np.random.default_rng(i)) for i in range(8000)])
    people = rng.multinomial(15, counts / 60, size=20_000) / 15
    model = rng.multinomial(25, counts / 60, size=20_000) / 25
    middle = (people + model) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.nan_to_num(x * np.log(x / middle)) for x in (people, model)]
    wanted = {
        "tvd": np.abs(people - model).sum(1).mean() / 2,
        "js": (terms[0] + terms[1]).sum(1).mean() / 2,
    }
    for name, value in wanted.items():
        low = np.mean([own[name].low for own in found])
        assert low == pytest.approx(value, rel=0.04)  # five standard errors of the simulation
        assert np.mean([own[name].high for own in found]) == pytest.approx(low, rel=0.05)
