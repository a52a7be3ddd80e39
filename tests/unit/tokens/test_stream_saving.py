"""A stream that is saved and taken up again gives what one stream would have given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aleatoric.tokens import units
from aleatoric.tokens.consistency import of_expectations, of_hits
from aleatoric.tokens.saving import pack, unpack
from aleatoric.tokens.stream import CalibrationStream

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
def test_saving_in_between_changes_nothing(
    classwise: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MAX_UNITS", most)
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


def test_rows_are_taken_once() -> None:
    stream = made("none", keep_rows=True)
    assert stream.take_rows() is None
    stream.update(*chunk(0))
    rows, groups = stream.take_rows()
    assert len(rows.nll) == len(groups) == 20
    assert stream.take_rows() is None
    stream.update(*chunk(1))
    assert len(stream.take_rows()[1]) == 20
    assert stream.result().n_tokens == 40


def test_the_floor_is_the_ece_of_a_calibrated_model() -> None:
    """A model whose hits follow its confidences scores the floor, not 0."""
    rng = np.random.default_rng(0)
    values, floors = [], []
    for seed in range(40):
        logits = rng.normal(size=(300, 6)) * 2
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        targets = np.array([rng.choice(6, p=row) for row in probs])
        stream = made("none")
        stream.update(logits, targets, "a")
        curve = stream.result().curves["ece"]
        values.append(curve.errors()["ece"])
        floors.append(of_hits(curve.cells, 5, seed).ece)
    # Means of 40: their standard error is about .002.
    assert np.mean(values) == pytest.approx(np.mean(floors), abs=0.006)
    assert np.mean(floors) > 0.02


def test_consistency_bars_hold_what_they_promise() -> None:
    """95 in 100 bins of a calibrated model lie within their bars."""
    rng = np.random.default_rng(1)
    inside = []
    for seed in range(60):
        logits = rng.normal(size=(400, 6)) * 2
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        targets = np.array([rng.choice(6, p=row) for row in probs])
        stream = made("none")
        stream.update(logits, targets, "a")
        curves = stream.result().curves
        found = of_hits(curves["ece"].cells, 5, seed)
        bars = {"ece": (found.low, found.high), "e_ece": of_expectations(curves["e_ece"].bins)}
        for name, (low, high) in bars.items():
            used = curves[name].counts > 20
            held = (low <= curves[name].accuracy) & (curves[name].accuracy <= high)
            inside.extend(held[used])
    assert 0.92 < np.mean(inside) <= 0.99
