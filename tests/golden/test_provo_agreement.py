"""Agreements, intervals and the expected TVD of a perfect model on the recorded Provo systems.

Origin: `golden/agreement.json` was computed from the recordings by other code (standard library
alone); the ranges of a perfect model's TVD stand in METHOD, section 1.
"""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from doc_pages import ROOT

from aleatoric.levels.word import results
from aleatoric.result_types import Result
from aleatoric.runs.run import Store
from aleatoric.studies.by_agreement import by_agreement

SYSTEMS = ("gpt2", "bloom", "gpt2_temp05", "chatgpt_diverse")
outputs: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "outputs.py"))


@pytest.fixture(scope="module")
def found(provo_run: Store) -> dict[tuple[str, str], Result]:
    return {(r.system, r.metric): r for r in results(provo_run)}


def test_people_are_a_perfect_model_of_people(found) -> None:
    assert found["oracle", "sq_distance"].estimate.value == pytest.approx(0, abs=0.001)
    assert found["oracle", "overlap"].estimate.value == pytest.approx(1, abs=0.005)
    assert found["oracle", "tvd_debiased"].estimate.value == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize(
    ("system", "low", "high"),
    [("oracle", 0.35, 0.47), ("gpt2_temp05", 0.26, 0.37), ("gpt2", 0.19, 0.30)],
)
def test_expected_tvd_of_a_perfect_model(found, system: str, low: float, high: float) -> None:
    perfect = found[system, "tvd"].perfect
    assert perfect.low == pytest.approx(low, abs=0.01)
    assert perfect.high == pytest.approx(high, abs=0.01)


@pytest.mark.parametrize("system", SYSTEMS)
def test_true_tvd_lies_between_debiased_and_plain_tvd(found, system: str) -> None:
    debiased, plain = (found[system, m].estimate.value for m in ("tvd_debiased", "tvd"))
    assert 0.2 < debiased < plain


@pytest.mark.parametrize("system", SYSTEMS)
def test_leading_metrics_have_intervals_around_their_values(found, system: str) -> None:
    for metric in ("overlap", "sq_distance", "agreement_H", "agreement_M", "agreement_C"):
        estimate = found[system, metric].estimate
        assert estimate.interval.low < estimate.value < estimate.interval.high


def test_quartiles_of_human_agreement_average_to_the_whole(provo_run: Store, found) -> None:
    rows = [row for row in by_agreement(provo_run).rows if row[0] == "gpt2"]
    human = [float(row[2]) for row in rows]
    assert human == sorted(human)
    weights = [int(row[-1]) for row in rows]
    mean = sum(h * n for h, n in zip(human, weights, strict=True)) / sum(weights)
    assert mean == pytest.approx(found["gpt2", "agreement_H"].estimate.value, abs=0.002)


@pytest.fixture(scope="module")
def tables(provo_run: Store) -> dict[str, str]:
    made: dict[str, str] = outputs["provo_tables"](provo_run)
    return made


@pytest.mark.parametrize("name", outputs["PROVO_PAGES"])
def test_documented_tables(tables: dict[str, str], name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert "<!-- provo: " in page
    assert outputs["with_provo_tables"](page, tables) == page, "run docs/outputs.py --provo RUN"


def shown(result: Result) -> str:
    """A number as written in the text of the documentation: .619."""
    return f"{result.estimate.value:.3f}".removeprefix("0")


def test_documented_numbers_in_text(found) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    people, gpt2 = (shown(found[s, "ece_human"]) for s in ("human", "gpt2"))
    assert f"people ({people}) look worse calibrated to people than GPT-2 does ({gpt2})" in readme
    methods = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    overlaps = [shown(found[system, "overlap"]) for system in SYSTEMS]
    assert (
        "overlap with people {} (GPT-2), {} (BLOOM), {} (GPT-2 at temperature .5) and {} "
        "(ChatGPT diverse)".format(*overlaps)
    ) in " ".join(methods.split())
    self_agreement = [f"{100 * found[s, 'agreement_M'].estimate.value:.0f}%" for s in SYSTEMS]
    human = f"{100 * found['human', 'agreement_H'].estimate.value:.0f}%"
    assert (
        f"people agree with each other {human} of the time, GPT-2 with itself {self_agreement[0]}, "
        f"GPT-2 at temperature .5 {self_agreement[2]}"
    ) in " ".join(methods.split())
    for system, metric in (
        *(("human", "ece_original"), ("gpt2", "ece_original"), ("gpt2_temp05", "ece_original")),
        *(("bloom", "ece_original"), ("chatgpt_diverse", "ece_original")),
        *(("chatgpt_diverse", "ece_human"), ("human", "ece_oracle")),
    ):
        assert f" {shown(found[system, metric])} " in methods, (system, metric)
    ranges = [found[system, "tvd"].perfect for system in ("oracle", "gpt2_temp05", "gpt2")]
    cells = " | ".join(f"{own.low:.3f}–{own.high:.3f}".replace("0.", ".") for own in ranges)
    assert f"| {cells} |" in methods
    for system in ("gpt2", "bloom", "chatgpt_diverse"):
        tvd = f"{found[system, 'tvd'].estimate.value:.4f}".removeprefix("0")
        assert f" {tvd} " in methods, system
