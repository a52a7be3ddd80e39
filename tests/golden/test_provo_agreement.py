"""Agreements, intervals and the expected TVD of a perfect model on the recorded Provo systems.

Origin: `golden/agreement.json` was computed from the recordings by other code (standard library
alone); the ranges of a perfect model's TVD stand in METHOD, section 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aleatoric.comparing.quartiles import by_agreement
from aleatoric.pipeline import WordJob, results, run_word
from aleatoric.store import Store
from aleatoric.types import Result

SYSTEMS = ("gpt2", "gpt2_temp05", "bloom", "chatgpt_diverse")


@pytest.fixture(scope="module")
def run(provo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    models = tuple(f"recorded:{provo / system}.jsonl.gz" for system in SYSTEMS)
    job = WordJob(str(provo / "provo_cloze.jsonl.gz"), models)
    with run_word(job, tmp_path_factory.mktemp("run") / "run") as store:
        yield store


@pytest.fixture(scope="module")
def found(run: Store) -> dict[tuple[str, str], Result]:
    return {(r.system, r.metric): r for r in results(run)}


def test_people_are_a_perfect_model_of_people(found) -> None:
    assert found["oracle", "sq_distance"].estimate.value == pytest.approx(0, abs=0.001)
    assert found["oracle", "overlap"].estimate.value == pytest.approx(1, abs=0.005)
    assert found["oracle", "tvd_debiased"].estimate.value == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize(
    ("system", "low", "high"),
    [("oracle", 0.35, 0.47), ("gpt2_temp05", 0.26, 0.37), ("gpt2", 0.19, 0.30)],
)
def test_the_expected_tvd_of_a_perfect_model(found, system: str, low: float, high: float) -> None:
    perfect = found[system, "tvd"].perfect
    assert perfect.low == pytest.approx(low, abs=0.01)
    assert perfect.high == pytest.approx(high, abs=0.01)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_true_tvd_lies_between_the_debiased_and_the_plain_one(found, system: str) -> None:
    debiased, plain = (found[system, m].estimate.value for m in ("tvd_debiased", "tvd"))
    assert 0.2 < debiased < plain


@pytest.mark.parametrize("system", SYSTEMS)
def test_leading_metrics_have_intervals_around_their_values(found, system: str) -> None:
    for metric in ("overlap", "sq_distance", "agreement_H", "agreement_M", "agreement_C"):
        estimate = found[system, metric].estimate
        assert estimate.interval.low < estimate.value < estimate.interval.high


def test_quartiles_of_human_agreement_average_to_the_whole(run: Store, found) -> None:
    rows = [row for row in by_agreement(run).rows if row[0] == "gpt2"]
    human = [float(row[2]) for row in rows]
    assert human == sorted(human)
    weights = [int(row[-1]) for row in rows]
    mean = sum(h * n for h, n in zip(human, weights, strict=True)) / sum(weights)
    assert mean == pytest.approx(found["gpt2", "agreement_H"].estimate.value, abs=0.002)
