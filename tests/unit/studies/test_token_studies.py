"""Studies of per-token rows, on rows with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from aleatoric.calibration.statistics import PLAIN, Expected, TokenTable
from aleatoric.errors import UsageError
from aleatoric.studies import token_studies


def table(n_units: int, length: int = 8, seed: int = 0) -> TokenTable:
    """Tokens whose disagreement grows with uncertainty."""
    rng = np.random.default_rng(seed)
    n = n_units * length
    uncertainty = rng.random(n) * 3
    confidence = rng.random(n)
    correct = (rng.random(n) < confidence).astype(float)
    expected = Expected(confidence - uncertainty / 10, correct.copy())
    return TokenTable(
        unit=np.repeat(np.arange(n_units), length),
        target=rng.integers(0, 5, n),
        predicted=rng.integers(0, 5, n),
        confidence=confidence,
        correct=correct,
        expected={PLAIN: expected},
        uncertainty=uncertainty,
        uncertainty_of="another model",
    )


def test_disagreement_matches_definition() -> None:
    own = table(3)
    assert own.disagreement == pytest.approx(own.uncertainty / 10)


def test_quartiles_increase_with_disagreement() -> None:
    found = token_studies.quartiles(table(50).uncertainty, table(50).disagreement)
    assert list(found.median_d) == sorted(found.median_d)
    assert found.r == pytest.approx(1)
    assert found.counts == (100, 100, 100, 100)
    study = token_studies.intrinsic(table(50), 0)
    assert study.tables[0].rows[-1][0] == "r"
    assert "another model" in study.tables[0].notes[0]
    assert set(study.figures["tab3_quartiles"].values) == {"Q1", "Q2", "Q3", "Q4"}


def test_too_few_tokens_are_rejected() -> None:
    with pytest.raises(UsageError, match="at least 4"):
        token_studies.intrinsic(table(1, length=2), 0)
    with pytest.raises(UsageError, match="at least 10 tokens"):
        token_studies.stability(table(1), 0)


def test_constant_uncertainty_has_no_correlation() -> None:
    found = token_studies.quartiles(np.ones(8), np.arange(8.0))
    assert found.r is None
    assert found.p_value is None


def test_stability_matches_ece_of_subsets() -> None:
    own = table(60)
    sums = token_studies.sums_by_unit(own.unit, own.confidence, own.correct, 5)
    subsets = token_studies.draw_subsets(60, [10], seed=3)
    (found,) = token_studies.spreads(token_studies.error_of_documents(sums), 0.0, subsets)
    by_hand = []
    for chosen in subsets[10]:
        held = np.isin(own.unit, chosen)
        part = token_studies.sums_by_unit(
            np.zeros(held.sum(), dtype=np.int64), own.confidence[held], own.correct[held], 5
        )
        by_hand.append(np.abs(part[0, :, 1] - part[0, :, 2]).sum() / held.sum())
    assert found.mean == pytest.approx(np.mean(by_hand))
    assert found.deviation == pytest.approx(np.std(by_hand, ddof=1))


def test_full_set_has_no_deviation_or_distance() -> None:
    study = token_studies.stability(table(50), 0)
    row = study.tables[1].rows[-2]
    assert row[0] == "50"
    assert {row[2], row[3], row[5], row[6]} == {"0.00"}


def test_token_subsets_match_subsets_of_one_token_documents() -> None:
    """With one token per document the two units are the same."""
    study = token_studies.stability(table(60, length=1), 0)
    tokens, documents = study.tables
    assert tokens.rows == documents.rows
    assert tokens.title == "Stability, subsets of tokens"
    assert documents.title == "Stability, subsets of documents"
    assert set(study.figures) == {"tab4_stability", "tab4_stability_documents"}


def test_few_documents_give_no_subsets_and_a_note() -> None:
    tokens, documents = token_studies.stability(table(9), 0).tables
    assert [row[0] for row in tokens.rows] == ["10", "50", "all"]
    assert [row[0] for row in documents.rows] == ["all"]
    assert documents.notes == ("9 documents are too few for subsets of 10.",)


def test_same_seed_gives_same_subsets() -> None:
    assert (
        token_studies.stability(table(60), 1).tables == token_studies.stability(table(60), 1).tables
    )
    assert (
        token_studies.stability(table(60), 1).tables != token_studies.stability(table(60), 2).tables
    )


def test_frequency_bands_contain_every_token() -> None:
    study = token_studies.frequency(table(50), 0)
    rows = study.tables[0].rows
    assert sum(int(row[1]) for row in rows) == 400
    assert {row[0] for row in rows} == {"10–99"}
    assert sum(int(row[2]) for row in rows) == 5
