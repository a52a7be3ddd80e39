"""Class-wise errors over a vocabulary, against loops over classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.calibration.kernels.naive import softmax
from aleatoric.calibration.sums import AllClasses, PredictedClasses
from aleatoric.metrics.calibration import (
    ace_of,
    bin_index,
    bin_sums,
    ece,
    equal_mass_edges,
    equal_width_edges,
    exact_cells,
    predicted_class_errors,
    sce_of,
)

BINS = 5


def made(seed: int, n: int = 60, width: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)) * 2, rng.integers(0, width, size=n)


def naive_sce(probs: np.ndarray, targets: np.ndarray) -> float:
    edges, total = equal_width_edges(BINS), 0.0
    for k in range(probs.shape[1]):
        total += ece(probs[:, k], (targets == k).astype(float), edges) or 0.0
    return total / probs.shape[1]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_sce_is_nixons(seed: int) -> None:
    logits, targets = made(seed)
    own = AllClasses(7, BINS)
    own.add(logits[:25], targets[:25])
    own.add(logits[25:], targets[25:])
    assert own.errors()["sce"] == pytest.approx(naive_sce(softmax(logits), targets), abs=1e-12)


def test_ace_is_nixons_up_to_its_cells() -> None:
    """Probabilities in well-separated steps: every step is a cell of its own, and ACE is exact."""
    rng = np.random.default_rng(0)
    rows = np.array([[0.9, 0.08, 0.02], [0.3, 0.6, 0.1], [0.02, 0.18, 0.8], [0.1, 0.25, 0.65]])
    probs = rows[rng.integers(0, 4, size=400)]
    targets = rng.integers(0, 3, size=400)
    own = AllClasses(3, 2)
    own.add(np.log(probs), targets)
    total = 0.0
    for k in range(3):
        edges = equal_mass_edges(sorted(probs[:, k]), 400, 2)
        index = bin_index(probs[:, k], edges)
        for b in set(index.tolist()):
            held = index == b
            total += abs(probs[held, k].mean() - (targets[held] == k).mean())
    assert own.errors()["ace"] == pytest.approx(total / 6, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_sce_at_predicted_classes_is_the_mean_of_their_own(seed: int) -> None:
    logits, targets = made(seed)
    probs = softmax(logits)
    predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)
    correct = (predicted == targets).astype(float)
    own = PredictedClasses(BINS)
    for part in (slice(0, 20), slice(20, 60)):
        own.add(predicted[part], confidence[part], correct[part])
    edges = equal_width_edges(BINS)
    each = [ece(confidence[predicted == k], correct[predicted == k], edges) for k in set(predicted)]
    assert own.errors()["sce_predicted"] == pytest.approx(np.mean(each), abs=1e-12)
    counts = [(predicted == k).sum() for k in set(predicted)]
    weighted = np.average(each, weights=counts)
    assert own.errors()["sce_weighted"] == pytest.approx(weighted, abs=1e-12)


def test_unseen_classes_are_those_that_are_no_reference() -> None:
    logits, targets = made(3)
    own = AllClasses(logits.shape[1], BINS)
    own.add(logits, targets)
    unseen = set(range(logits.shape[1])) - set(targets.tolist())
    assert own.errors()["vocabulary_unseen"] == pytest.approx(len(unseen) / logits.shape[1])


def test_pairs_that_never_occur_take_no_room() -> None:
    own = PredictedClasses(15)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        own.add(rng.integers(0, 20, 5000) * 2500, rng.random(5000), rng.random(5000).round())
    own.errors()
    assert len(own._keys) <= 20 * 15 * 8


def test_ace_at_predicted_classes_is_the_mean_of_their_own() -> None:
    """Classes with unequal numbers of tokens, two of which have fewer than there are bins."""
    rng = np.random.default_rng(1)
    classes = [np.sort(rng.random(n)) for n in (40, 3, 17, 1)]
    right = [(rng.random(len(own)) < own).astype(float) for own in classes]
    cells = [exact_cells(*both) for both in zip(classes, right, strict=True)]
    edges = equal_width_edges(BINS)
    sums = np.stack(
        [
            bin_sums(own, correct, bin_index(own, edges), BINS)
            for own, correct in zip(classes, right, strict=True)
        ]
    )
    each = [
        ece(own, correct, equal_mass_edges(own, len(own), BINS))
        for own, correct in zip(classes, right, strict=True)
    ]
    found = predicted_class_errors(sums, cells, BINS)
    assert found["ace_predicted"] == pytest.approx(np.mean(each))
    assert found["ace_weighted"] == pytest.approx(np.average(each, weights=[40, 3, 17, 1]))
    static = [ece(*both, edges) for both in zip(classes, right, strict=True)]
    assert found["sce_predicted"] == pytest.approx(np.mean(static))
    nothing = predicted_class_errors(np.zeros((0, BINS, 3)), [], BINS)
    assert np.isnan(list(nothing.values())).all()


def test_more_classes_than_are_taken_at_once() -> None:
    """The same class 5000 times has its own error."""
    cell = np.array([[1.0, 0.25, 0.0], [1.0, 0.75, 1.0], [0.0, 0.0, 0.0]])
    many = np.tile(cell, (5000, 1, 1))
    assert ace_of(many, 5000, 2) == pytest.approx(0.25)
    assert sce_of(many, 5000, 2) == pytest.approx(0.25)
    found = predicted_class_errors(many, list(many), 2)
    assert list(found.values()) == pytest.approx([0.25] * 4)


def test_classes_that_begin_with_empty_cells_are_cut_by_themselves() -> None:
    late = np.array([[0.0, 0.0, 0.0], [1.0, 0.25, 0.0], [1.0, 0.75, 1.0]])
    early = np.array([[1.0, 0.25, 1.0], [1.0, 0.5, 0.0], [1.0, 0.75, 1.0]])
    alone = [ace_of(own[None], 1, 3) for own in (late, early)]
    assert alone == pytest.approx([0.5 / 3, 1.5 / 3])
    assert ace_of(np.stack([late, early]), 2, 3) == pytest.approx(np.mean(alone))
