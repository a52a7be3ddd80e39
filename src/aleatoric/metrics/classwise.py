"""Class-wise calibration errors over a vocabulary: SCE and ACE (Nixon et al. 2019), two ways.

Nixon's formula takes every class k at every token, with confidence P(k) and accuracy 1[y = k], and
averages over all K classes; over a vocabulary of thousands nearly all of it is P(k) near 0, and the
average is tiny. `predicted` takes each token at its predicted class alone, with the class's own
ECE, and averages over the classes that are ever predicted.
"""

from __future__ import annotations

import numpy as np

from aleatoric.metrics.bins import ACCURACY, CONFIDENCE, COUNT, ece_of
from aleatoric.metrics.reduction import Floats, divide

_CLASSES_AT_ONCE = 4096


def sce_of(sums: Floats, n_classes: int, n_tokens: float) -> float:
    """Static calibration error: (1/K) Σ_k Σ_bins |bin| / N · |accuracy − confidence|.

    `sums` is (classes, bins, 3 or more); classes without tokens may be left out of it.

    >>> sce_of(np.array([[[2.0, 1.0, 0.0]], [[2.0, 1.0, 2.0]]]), n_classes=2, n_tokens=2)
    0.5
    """
    gaps = np.abs(sums[..., CONFIDENCE] - sums[..., ACCURACY]).sum()
    return float(gaps / (n_classes * n_tokens))


def ace_of(cells: Floats, n_classes: int, n_bins: int) -> float:
    """Adaptive calibration error: (1/KR) Σ_k Σ_r |accuracy − confidence|, ranges of equal mass.

    `cells` is (classes, cells, 3 or more) with a class's tokens in the order of its confidence.

    >>> ace_of(np.array([[[1.0, 0.25, 0.0], [1.0, 0.75, 1.0]]]), n_classes=1, n_bins=2)
    0.25
    """
    total = 0.0
    for start in range(0, len(cells), _CLASSES_AT_ONCE):
        found = _mass_bins_of_each(cells[start : start + _CLASSES_AT_ONCE, :, :3], n_bins)
        gaps = np.abs(divide(found[..., CONFIDENCE] - found[..., ACCURACY], found[..., COUNT]))
        total += float(np.nansum(gaps))
    return total / (n_classes * n_bins)


def _mass_bins_of_each(cells: Floats, n_bins: int) -> Floats:
    """`mass_bins` of every class at once: (classes, bins, 3), bins that are not needed empty."""
    below = np.cumsum(cells[..., COUNT], axis=1)
    ranks = np.arange(1, n_bins)
    tokens = np.round(ranks * below[:, -1:] / n_bins)
    opens = np.zeros(below.shape, dtype=bool)
    for token in tokens.T[:, :, None]:
        opened = (below <= token).sum(axis=1)
        rows = np.flatnonzero((token[:, 0] > 0) & (opened < below.shape[1]))
        opens[rows, opened[rows]] = True
    # The first cell that holds a token opens the first bin, whatever else opens there.
    opens[np.arange(len(cells)), (cells[..., COUNT] > 0).argmax(axis=1)] = True
    label = np.maximum(np.cumsum(opens, axis=1) - 1, 0)
    place = (np.arange(len(cells))[:, None] * n_bins + label).ravel()
    sums = [
        np.bincount(place, own.ravel(), len(cells) * n_bins) for own in np.moveaxis(cells, 2, 0)
    ]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(len(cells), n_bins, 3)


def sce_predicted_of(sums: Floats) -> float:
    """The mean over predicted classes of the class's own ECE; `sums` is (classes, bins, 3 or more).

    >>> sce_predicted_of(np.array([[[2.0, 1.5, 1.0]], [[1.0, 0.5, 1.0]], [[0.0, 0.0, 0.0]]]))
    0.375
    """
    return _mean_defined(ece_of(sums))


def ace_predicted_of(cells: list[Floats], n_bins: int) -> float:
    """The mean over predicted classes of the class's ECE over its own bins of equal mass.

    >>> ace_predicted_of([np.array([[1.0, 0.25, 0.0], [1.0, 0.75, 1.0]])], n_bins=2)
    0.25
    """
    parts = [cells[i : i + _CLASSES_AT_ONCE] for i in range(0, len(cells), _CLASSES_AT_ONCE)]
    errors = [ece_of(_mass_bins_of_each(_padded(part), n_bins)) for part in parts]
    return _mean_defined(np.concatenate(errors) if errors else np.zeros(0))


def _padded(cells: list[Floats]) -> Floats:
    """Classes with unequal numbers of cells as one table, with empty cells at the end."""
    sizes = np.array([len(own) for own in cells])
    table = np.zeros((len(cells), int(sizes.max()), 3))
    rows = np.repeat(np.arange(len(cells)), sizes)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table[rows, places] = np.concatenate([own[:, :3] for own in cells])
    return table


def _mean_defined(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
