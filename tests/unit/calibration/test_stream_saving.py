"""Saving and restoring a calibration stream gives the same result as an uninterrupted stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aleatoric.calibration import sums
from aleatoric.calibration.stream import CalibrationStream, pack, unpack

SCHEMES = ("ancestral", "top_p=0.8", "temperature=0.5", "ancestral,samples=2")


def made(classwise: str, **more: Any) -> CalibrationStream:
    return CalibrationStream(
        vocabulary_size=6, units="logits", schemes=SCHEMES, bins=5, classwise=classwise, **more
    )


def chunk(number: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(number)
    groups = [f"{number}-{i // 4}" for i in range(20)]
    return rng.normal(size=(20, 6)) * 2, rng.integers(0, 6, 20), groups


@pytest.mark.parametrize("classwise", ["none", "predicted", "all"])
@pytest.mark.parametrize("most", [1000, 7])
def test_saving_and_restoring_does_not_change_result(
    classwise: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "MAX_UNITS", most)
    whole, first, second = (made(classwise) for _ in range(3))
    for number in range(4):
        whole.update(*chunk(number))
        (first if number < 2 else second).update(*chunk(number))
        if number == 1:
            second.restore(unpack(pack(first.save())))
    found, again = whole.result(), second.result()
    assert again.estimates == found.estimates
    assert again.n_groups == found.n_groups == 20
    assert again.n_tokens == second.n_tokens == 80


@pytest.mark.parametrize("groups", [[""], ["", "a"], ["a", ""], []])
def test_empty_group_names_survive_saving(groups: list[str]) -> None:
    first, second = made("none"), made("none")
    for number, group in enumerate(groups):
        first.update(*chunk(number)[:2], group)
    second.restore(unpack(pack(first.save())))
    assert second.grouped().names == first.grouped().names == tuple(groups)


def test_take_rows_returns_each_row_once() -> None:
    stream = made("none", keep_rows=True)
    assert stream.take_rows() is None
    stream.update(*chunk(0))
    rows, groups = stream.take_rows()
    assert len(rows.nll) == len(groups) == 20
    assert stream.take_rows() is None
    stream.update(*chunk(1))
    assert len(stream.take_rows()[1]) == 20
    assert stream.result().n_tokens == 40


def test_expected_error_matches_calibrated_model() -> None:
    """A calibrated model does not score 0: its mean error is the expected one."""
    rng = np.random.default_rng(0)
    values: dict[str, list[float]] = {"ece": [], "e_ece": []}
    expected: dict[str, list[float]] = {"ece": [], "e_ece": []}
    for _ in range(40):
        logits = rng.normal(size=(300, 6)) * 2
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        targets = np.array([rng.choice(6, p=row) for row in probs])
        stream = made("none")
        stream.update(logits, targets, "a")
        found = stream.result()
        for name in values:
            values[name].append(found.estimates[name].value)
            expected[name].append(found.consistency[name].expected)
    # Means of 40: their standard error is about .002.
    for name in values:
        assert np.mean(values[name]) == pytest.approx(np.mean(expected[name]), abs=0.006)
    assert np.mean(expected["ece"]) > 0.02


def test_consistency_bars_have_nominal_coverage() -> None:
    """95 in 100 bins of a calibrated model lie within their bars."""
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(60):
        logits = rng.normal(size=(400, 6)) * 2
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        targets = np.array([rng.choice(6, p=row) for row in probs])
        stream = made("none")
        stream.update(logits, targets, "a")
        result = stream.result()
        for name in ("ece", "e_ece"):
            curve, bars = result.curves[name], result.consistency[name]
            held = (bars.low <= curve.accuracy) & (curve.accuracy <= bars.high)
            inside.extend(held[curve.counts > 20])
    assert 0.92 < np.mean(inside) <= 0.99
