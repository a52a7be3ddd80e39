"""Debiased estimators: zero for a perfect model, and never above the truth on average."""

from __future__ import annotations

import numpy as np
import pytest

from aleatoric.inference.noise import Side, Sides, side_variances, split_variance
from aleatoric.metrics.calibration import DebiasedECE
from aleatoric.metrics.distances import leave_pair_out, tvd_debiased, tvd_of_counts
from aleatoric.rng import stream
from aleatoric.types import Categorical, Pair
from benchmarks.recovery import Design, simulate

SIZES = [(5, 10), (20, 20), (40, 40), (40, 1000), (100, 1000)]


@pytest.mark.parametrize(("n_human", "n_model"), SIZES)
def test_perfect_model_scores_zero_at_any_sample_size(n_human: int, n_model: int) -> None:
    design = Design(n_human, n_model, perfect=True)
    drawn = simulate(design, 200, stream(0, "perfect", n_human, n_model))
    found = leave_pair_out(drawn.people, drawn.model)
    assert abs(found.mean()) < 4 * found.std() / len(found) ** 0.5
    assert tvd_of_counts(drawn.people, drawn.model).mean() > 0.1


@pytest.mark.parametrize(("n_human", "n_model"), SIZES)
def test_true_distance_lies_between_debiased_and_plain(n_human: int, n_model: int) -> None:
    drawn = simulate(Design(n_human, n_model), 200, stream(1, "far", n_human, n_model))
    truth = (np.abs(drawn.human_truth - drawn.model_truth).sum(axis=1) / 2).mean()
    debiased = leave_pair_out(drawn.people, drawn.model)
    noise = debiased.std() / len(debiased) ** 0.5
    assert debiased.mean() < truth + 4 * noise
    assert truth < tvd_of_counts(drawn.people, drawn.model).mean()


def naive(people: list[str], draws: list[str]) -> float:
    """Leave out each pair and fit the set of words on the rest."""
    total = 0.0
    for i in range(len(people)):
        for j in range(len(draws)):
            rest_p, rest_d = people[:i] + people[i + 1 :], draws[:j] + draws[j + 1 :]
            total += sign(people[i], rest_p, rest_d) - sign(draws[j], rest_p, rest_d)
    return total / len(people) / len(draws) / 2


def sign(word: str, people: list[str], draws: list[str]) -> float:
    p, q = people.count(word) / len(people), draws.count(word) / len(draws)
    if p == q == 0:
        p, q = once(people) / len(people), once(draws) / len(draws)
    return float(np.sign(round(p - q, 12)))


def once(answers: list[str]) -> int:
    return sum(answers.count(word) == 1 for word in answers)


@pytest.mark.parametrize("seed", range(20))
def test_leave_one_pair_out_matches_naive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people = [str(i) for i in rng.geometric(0.3, rng.integers(2, 9))]
    draws = [str(i) for i in rng.geometric(0.4, rng.integers(2, 9))]
    sides = [Categorical.from_counts({w: a.count(w) for w in a}) for a in (people, draws)]
    assert tvd_debiased(Pair("i", "g", *sides)) == pytest.approx(naive(people, draws), abs=1e-9)


def test_exact_perfect_model_scores_zero() -> None:
    rng, probs = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    words = ("a", "b", "c")
    exact = Categorical(words, tuple(probs.tolist()))
    found = []
    for _ in range(3000):
        counts = dict(zip(words, rng.multinomial(10, probs).tolist(), strict=True))
        people = Categorical.from_counts({w: c for w, c in counts.items() if c})
        found.append(tvd_debiased(Pair("i", "g", people, exact)))
    assert abs(np.mean(found)) < 4 * np.std(found) / 3000**0.5


def test_debiased_ece_of_calibrated_answers_is_smaller_than_ece() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random((300, 1))
    correct = (rng.random((300, 1)) < confidence).astype(float)
    debiased = DebiasedECE("correct", tuple(i / 10 for i in range(1, 10)))
    sums = debiased.columns({"confidence": confidence, "correct": correct}).sum(axis=0)
    assert debiased.values(sums)[0] < 0.04
    assert debiased.defined(sums) == 300


def test_variance_components_match_repeated_studies() -> None:
    """Resample people, the model, or both: the components predict the variance of the mean."""
    design = Design(40, 40)
    base = simulate(design, 30, stream(3, "base"))
    rng = stream(3, "again")
    pairs = zip(base.people, base.model, strict=True)
    sides = [Sides(Side(x, 40), (Side(y, 40),)) for x, y in pairs]
    parts = np.array([side_variances(both) for both in sides])
    values = tvd_of_counts(base.people, base.model)
    found = split_variance(values, base.passage, parts[:, 0], parts[:, 1])
    assert found is not None
    by_people = [
        tvd_of_counts(rng.multinomial(40, base.human_truth), base.model).mean() for _ in range(300)
    ]
    by_model = [
        tvd_of_counts(base.people, rng.multinomial(40, base.model_truth)).mean() for _ in range(300)
    ]
    assert found.people == pytest.approx(np.var(by_people), rel=0.35)
    assert found.model == pytest.approx(np.var(by_model), rel=0.35)
    assert found.people + found.model + found.contexts == pytest.approx(found.total)
