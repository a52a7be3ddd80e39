"""The truth ranks first by squared distance and overlap at every sample size, and not by TVD.

Simulated contexts have Zipf-like truths; people are drawn from the truth, and models are the truth
itself and sharper versions of it. All samples use the same uniform numbers where possible,
so that differences between models are not noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from marks import sampled

from aleatoric.metrics.agreement import COLUMNS, Overlap, agreements_of_counts

N_CONTEXTS, N_WORDS = 8000, 300
TEMPERATURES = (1.0, 0.9, 0.8, 0.7)
PEOPLE = (10, 20, 40)
DRAWS = (10, 40, 1000, None)


@pytest.fixture(scope="module")
def truths() -> np.ndarray:
    rng = np.random.default_rng(0)
    exponents = rng.uniform(0.8, 1.4, N_CONTEXTS)
    shares = np.arange(1.0, N_WORDS + 1)[None, :] ** -exponents[:, None]
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def people(truths: np.ndarray) -> dict[int, np.ndarray]:
    return {n: np.random.default_rng(n).multinomial(n, truths) for n in PEOPLE}


@pytest.fixture(scope="module")
def models(truths: np.ndarray) -> dict[float, np.ndarray]:
    tempered = {t: truths ** (1 / t) for t in TEMPERATURES}
    return {t: own / own.sum(axis=1, keepdims=True) for t, own in tempered.items()}


def statistics(people: np.ndarray, shares: np.ndarray, draws: int | None) -> dict[str, np.ndarray]:
    """Per-context H, M, C, squared distance and TVD of a model, sampled or exact."""
    observed = people / people.sum(axis=1, keepdims=True)
    if draws is not None:
        counts = np.random.default_rng(7).multinomial(draws, shares)
        found = agreements_of_counts(people, counts)
        return {**found, "tvd": np.abs(observed - counts / draws).sum(axis=1) / 2}
    human = agreements_of_counts(people, people)["agreement_H"]
    model, cross = (shares**2).sum(axis=1), (observed * shares).sum(axis=1)
    values = (human, model, cross, human + model - 2 * cross)
    found = dict(zip((*COLUMNS, "sq_distance"), values, strict=True))
    return {**found, "tvd": np.abs(observed - shares).sum(axis=1) / 2}


def overlap(found: dict[str, np.ndarray]) -> float:
    reduction = Overlap()
    columns = reduction.columns({name: found[name][:, None] for name in COLUMNS})
    return float(reduction.values(columns.sum(axis=0))[0])


@pytest.mark.parametrize("n", sampled(PEOPLE, [40]))
@pytest.mark.parametrize("m", sampled(DRAWS, [10, None]))
def test_truth_ranks_first_by_squared_distance_and_overlap(people, models, n, m) -> None:
    found = {t: statistics(people[n], own, m) for t, own in models.items()}
    squares = {t: own["sq_distance"].mean() for t, own in found.items()}
    overlaps = {t: overlap(own) for t, own in found.items()}
    assert sorted(squares, key=squares.get) == list(TEMPERATURES)
    assert sorted(overlaps, key=overlaps.get, reverse=True) == list(TEMPERATURES)


@pytest.mark.parametrize("n", sampled(PEOPLE, [40]))
@pytest.mark.parametrize("m", sampled(DRAWS, [10, None]))
def test_truth_has_distance_0_and_overlap_1_at_any_sample_size(people, models, n, m) -> None:
    found = statistics(people[n], models[1.0], m)
    error = found["sq_distance"].std() / np.sqrt(N_CONTEXTS)
    assert abs(found["sq_distance"].mean()) < 4 * error
    assert overlap(found) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("n", "temperature"), [(40, 0.9), (20, 0.7), (10, 0.7)])
def test_tvd_prefers_a_model_that_is_sharper_than_the_truth(people, models, n, temperature) -> None:
    """TVD to n people is an improper score, so it is not the leading metric."""
    truth, sharper = (statistics(people[n], models[t], None)["tvd"] for t in (1.0, temperature))
    assert sharper.mean() < truth.mean()


def test_tvd_of_one_model_depends_on_its_number_of_draws(people, models) -> None:
    values = [statistics(people[40], models[1.0], m)["tvd"].mean() for m in (10, 40, 1000)]
    assert values[0] > values[1] + 0.05 > values[2] + 0.08
