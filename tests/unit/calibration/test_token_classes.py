"""Class-wise calibration errors over a vocabulary, compared with loops over classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from aleatoric.calibration import sums
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
def test_sce_matches_nixon_et_al(seed: int) -> None:
    logits, targets = made(seed)
    own = AllClasses(7, BINS)
    own.add(logits[:25], targets[:25])
    own.add(logits[25:], targets[25:])
    assert own.errors()["sce"] == pytest.approx(naive_sce(softmax(logits), targets), abs=1e-12)


def test_ace_of_a_small_vocabulary_is_nearly_that_of_exact_ranges() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3000, 30)) * 2
    truth = softmax(logits * 0.7)
    targets = (truth.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    own = AllClasses(30, 15)
    own.add(logits, targets)
    gaps = softmax(logits) - np.eye(30)[targets]
    exact = [
        np.abs(gaps[part, k].mean())
        for k in range(30)
        for part in np.array_split(np.argsort(logits[:, k] - logsumexp(logits, axis=1)), 15)
    ]
    assert own.errors()["ace"] == pytest.approx(np.mean(exact), rel=0.005)
    saved = AllClasses(30, 15)
    saved.restore(own.arrays())
    assert saved.errors() == own.errors()


def test_sums_with_other_cells_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, targets = made(0)
    with monkeypatch.context() as patched:
        patched.setattr(sums, "_ALL_CELLS", 0)
        older = AllClasses(7, BINS)
    restored = AllClasses(7, BINS)
    older.add(logits[:30], targets[:30])
    restored.restore(older.arrays())
    for stream in (older, restored):
        stream.add(logits[30:], targets[30:])
    assert restored.errors() == older.errors()


def test_ace_matches_nixon_et_al_up_to_cell_resolution() -> None:
    """Probabilities in well-separated steps: each step has its own cell, and ACE is exact."""
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
def test_sce_of_predicted_classes_is_mean_of_per_class_errors(seed: int) -> None:
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


def test_unseen_classes_never_occur_as_targets() -> None:
    logits, targets = made(3)
    own = AllClasses(logits.shape[1], BINS)
    own.add(logits, targets)
    unseen = set(range(logits.shape[1])) - set(targets.tolist())
    assert own.errors()["vocabulary_unseen"] == pytest.approx(len(unseen) / logits.shape[1])


def test_unobserved_class_cell_pairs_use_no_memory() -> None:
    own = PredictedClasses(15)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        own.add(rng.integers(0, 20, 5000) * 2500, rng.random(5000), rng.random(5000).round())
    own.errors()
    assert sum(len(keys) for keys, _ in own._parts) <= 20 * 15 * 8


def test_ace_of_predicted_classes_is_mean_of_per_class_errors() -> None:
    """Classes with unequal numbers of tokens, two of which have fewer than there are bins."""
    rng = np.random.default_rng(1)
    classes = [np.sort(rng.random(n)) for n in (40, 3, 17, 1)]
    right = [(rng.random(len(own)) < own).astype(float) for own in classes]
    cells = [exact_cells(*both) for both in zip(classes, right, strict=True)]
    edges = equal_width_edges(BINS)
    by_bin = np.stack(
        [
            bin_sums(own, correct, bin_index(own, edges), BINS)
            for own, correct in zip(classes, right, strict=True)
        ]
    )
    each = [
        ece(own, correct, equal_mass_edges(own, len(own), BINS))
        for own, correct in zip(classes, right, strict=True)
    ]
    found = predicted_class_errors(by_bin, cells, BINS)
    assert found["ace_predicted"] == pytest.approx(np.mean(each))
    assert found["ace_weighted"] == pytest.approx(np.average(each, weights=[40, 3, 17, 1]))
    static = [ece(*both, edges) for both in zip(classes, right, strict=True)]
    assert found["sce_predicted"] == pytest.approx(np.mean(static))
    nothing = predicted_class_errors(np.zeros((0, BINS, 3)), [], BINS)
    assert np.isnan(list(nothing.values())).all()


def test_more_classes_than_fit_in_one_block() -> None:
    """5000 copies of one class have the error of that class."""
    cell = np.array([[1.0, 0.25, 0.0], [1.0, 0.75, 1.0], [0.0, 0.0, 0.0]])
    many = np.tile(cell, (5000, 1, 1))
    assert ace_of(many, 5000, 2) == pytest.approx(0.25)
    assert sce_of(many, 5000, 2) == pytest.approx(0.25)
    found = predicted_class_errors(many, list(many), 2)
    assert list(found.values()) == pytest.approx([0.25] * 4)


def test_classes_with_leading_empty_cells_are_binned_separately() -> None:
    late = np.array([[0.0, 0.0, 0.0], [1.0, 0.25, 0.0], [1.0, 0.75, 1.0]])
    early = np.array([[1.0, 0.25, 1.0], [1.0, 0.5, 0.0], [1.0, 0.75, 1.0]])
    alone = [ace_of(own[None], 1, 3) for own in (late, early)]
    assert alone == pytest.approx([0.5 / 3, 1.5 / 3])
    assert ace_of(np.stack([late, early]), 2, 3) == pytest.approx(np.mean(alone))
