"""The calibration test and its interval, compared with naive implementations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from aleatoric.calibration.results import (
    N_SETS,
    binned_error_interval,
    consistency_of_expectations,
    consistency_of_hits,
)
from aleatoric.calibration.stream import CalibrationStream
from aleatoric.inference.bootstrap import ONE_GROUP


def cells_of(confidence: np.ndarray, accuracy: np.ndarray, n_cells: int) -> np.ndarray:
    place = np.minimum((confidence * n_cells).astype(int), n_cells - 1)
    columns = (np.ones_like(confidence), confidence, accuracy, accuracy**2)
    return np.stack([np.bincount(place, own, minlength=n_cells) for own in columns], axis=1)


def test_p_value_is_exact_for_one_bin() -> None:
    """25 tokens of confidence .4, 15 hits: |15 - 10| or more, of a binomial."""
    found = consistency_of_hits(np.array([[25.0, 10.0, 15.0, 15.0]]), n_bins=1, seed=0)
    chances = stats.binom(25, 0.4).pmf(np.arange(26))
    exact = chances[np.abs(np.arange(26) - 10) >= 5].sum()
    assert found.p == pytest.approx(exact, abs=3 * (exact * (1 - exact) / N_SETS) ** 0.5)
    expected = (chances * np.abs(np.arange(26) - 10)).sum() / 25
    assert found.expected == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("test", [consistency_of_hits, consistency_of_expectations])
def test_p_value_is_never_zero(test: object) -> None:
    """The observed set counts as a replicate: with 1000 others, p is at least 1 / 1001."""
    confidence = np.full(2000, 0.9)
    found = test(cells_of(confidence, np.full(2000, 0.1), 60), 15, 0)
    assert found.p == 1 / (N_SETS + 1)
    assert found.rejected


def test_perfect_fit_has_a_p_value_of_1() -> None:
    assert consistency_of_hits(np.array([[20.0, 10.0, 10.0, 10.0]]), 1, 0).p == 1.0


def test_binning_is_correct_for_any_number_of_cells() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(4000)
    accuracy = (rng.random(4000) < confidence).astype(float)
    fine = consistency_of_hits(cells_of(confidence, accuracy, 15 * 274), 15, 0)
    bins = cells_of(confidence, accuracy, 15)
    inside = (fine.low <= bins[:, 2] / bins[:, 0]) & (bins[:, 2] / bins[:, 0] <= fine.high)
    assert inside.sum() >= 12


def test_interval_is_student_t_far_from_calibration() -> None:
    """All gaps have one sign, documents are of one length: the error is a mean over documents."""
    gaps = np.random.default_rng(0).normal(5.0, 1.0, (8, 3))
    found = binned_error_interval(gaps, np.full(8, 50.0)).interval
    theirs = stats.ttest_1samp(gaps.sum(axis=1) / 50, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)


def test_lower_bound_is_negative_near_calibration() -> None:
    gaps = np.random.default_rng(0).normal(0.0, 1.0, (20, 15))
    counts = np.full(20, 50.0)
    value = np.abs(gaps.sum(axis=0)).sum() / counts.sum()
    found = binned_error_interval(gaps, counts).interval
    assert found.low < 0 < value < found.high
    assert binned_error_interval(gaps[:1], counts[:1]).reason == ONE_GROUP


def streamed(sharpness: float, n_documents: int = 12) -> CalibrationStream:
    rng = np.random.default_rng(3)
    stream = CalibrationStream(vocabulary_size=6, units="logits", classwise="none", bins=10)
    for number in range(n_documents):
        logits = rng.normal(size=(60, 6)) * 2
        truth = np.exp(sharpness * logits)
        truth /= truth.sum(axis=1, keepdims=True)
        targets = np.array([rng.choice(6, p=row) for row in truth])
        stream.update(logits, targets, group=str(number))
    return stream


def test_calibrated_stream_reports_p_values_instead_of_intervals() -> None:
    found = streamed(1.0).result().estimates
    for name in ("ece", "e_ece", "e_ece_p", "e_ece_k", "ece_debiased"):
        assert found[name].interval is None
        assert found[name].p_calibrated > 0.05
        assert found[name].reason.startswith("consistent with calibration (p = ")
    assert found["nll"].interval is not None
    assert found["nll"].p_calibrated is None


def test_overconfident_stream_has_intervals_around_its_values() -> None:
    found = streamed(0.3).result().estimates
    for name in ("ece", "e_ece", "e_ece_p", "e_ece_k", "ece_debiased"):
        assert found[name].p_calibrated <= 0.05
        interval = found[name].interval
        assert 0 < interval.low <= found[name].value <= interval.high


def test_one_document_has_a_p_value_and_no_interval() -> None:
    found = streamed(0.3, n_documents=1).result().estimates["ece"]
    assert (found.interval, found.reason) == (None, ONE_GROUP)
    assert found.p_calibrated <= 0.05
