"""Simulated people and models with a known truth, which the estimates must recover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aleatoric.data.opening import open_corpus
from aleatoric.data.simulated import truth
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob, results
from aleatoric.metrics.distances import tvd
from aleatoric.types import Pair

CONTEXTS = 150
TEMPERATURE = 0.5


def estimate(tmp_path: Path, metric: str, people: int, samples: int, model: str) -> float:
    job = WordJob(
        f"simulated:contexts={CONTEXTS},people={people},passage=10", (model,), samples=samples
    )
    with run_job(job, tmp_path / f"{people}-{samples}") as store:
        return next(
            r.estimate.value for r in results(store) if r.metric == metric and r.system == model
        )


def truths(people: int) -> tuple[float, float]:
    """Mean TVD and mean squared distance between the truth and the tempered truth."""
    corpus = open_corpus(f"simulated:contexts={CONTEXTS},people={people},passage=10")
    distances, squares = [], []
    for item in corpus.items:
        people_truth, model_truth = truth(item.context), truth(item.context, TEMPERATURE)
        distances.append(tvd(Pair("", "", people_truth, model_truth)))
        gaps = np.array(people_truth.probs) - np.array(model_truth.probs)
        squares.append(float((gaps**2).sum()))
    return float(np.mean(distances)), float(np.mean(squares))


MODEL = f"toy:temperature={TEMPERATURE}"


@pytest.mark.long
def test_tvd_approaches_the_truth_as_samples_grow(tmp_path: Path) -> None:
    errors = []
    for n in (10, 100, 5000):
        expected, _ = truths(n)
        errors.append(abs(estimate(tmp_path, "tvd", n, n, MODEL) - expected))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.005


@pytest.mark.parametrize(("people", "samples"), [(5, 10), (40, 40), (40, 1000)])
def test_squared_distance_is_unbiased_at_any_size(
    tmp_path: Path, people: int, samples: int
) -> None:
    _, expected = truths(people)
    job = WordJob(
        f"simulated:contexts={CONTEXTS},people={people},passage=10", (MODEL,), samples=samples
    )
    with run_job(job, tmp_path / "run") as store:
        found = next(r for r in results(store) if (r.system, r.metric) == (MODEL, "sq_distance"))
        values = [row.value for row in found.rows]
    noise = np.std(values) / np.sqrt(len(values))
    assert found.estimate.value == pytest.approx(expected, abs=4 * noise)


def test_perfect_model_has_no_squared_distance(tmp_path: Path) -> None:
    found = estimate(tmp_path, "sq_distance", 40, 40, "toy")
    assert abs(found) < 0.005


def test_tvd_ranks_the_truth_first_where_ece_does_not(tmp_path: Path) -> None:
    models = ("toy", "toy:temperature=0.5", "toy:temperature=2")
    job = WordJob(f"simulated:contexts={CONTEXTS},people=40", models, samples=40)
    with run_job(job, tmp_path / "run") as store:
        found = {(r.system, r.metric): r.estimate.value for r in results(store)}
    assert min(models, key=lambda m: found[m, "tvd"]) == "toy"
    assert min(models, key=lambda m: found[m, "ece_human"]) != "toy"
