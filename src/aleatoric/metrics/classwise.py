"""Class-wise calibration errors over a vocabulary: SCE and ACE (Nixon et al. 2019), three ways.

Nixon's formula takes every class k at every token, with confidence P(k) and accuracy 1[y = k], and
averages over all K classes; over a vocabulary of thousands nearly all of it is P(k) near 0, and the
average is tiny. The other two take each token at its predicted class alone and average the classes'
own ECEs over the classes that are ever predicted: `predicted` gives each class the same weight,
`weighted` weighs a class by the number of tokens predicted as it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.calibration import ACCURACY, CONFIDENCE, COUNT, ece_of
from aleatoric.metrics.reduction import divide
from aleatoric.types import Floats

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


def predicted_class_errors(sums: Floats, cells: list[Floats], n_bins: int) -> dict[str, float]:
    """Means over predicted classes of the class's own ECE, by name; NaN without tokens.

    `sums` is (classes, bins, 3 or more) in bins of equal width, for SCE; `cells` holds the tokens
    of each class in the order of their confidence, to be cut into bins of equal mass, for ACE.

    >>> sums = np.array([[[3.0, 1.5, 0.0]], [[1.0, 0.75, 0.75]]])
    >>> found = predicted_class_errors(sums, list(sums), n_bins=1)
    >>> found["sce_predicted"], found["sce_weighted"], found["ace_weighted"]
    (0.25, 0.375, 0.375)
    """
    counts = sums[..., COUNT].sum(axis=-1)
    static, adaptive = ece_of(sums), _ace_of_each(cells, n_bins)
    return {
        "sce_predicted": _mean_over(counts > 0, static),
        "ace_predicted": _mean_over(counts > 0, adaptive),
        "sce_weighted": _mean_over(counts, static),
        "ace_weighted": _mean_over(counts, adaptive),
    }


def _ace_of_each(cells: list[Floats], n_bins: int) -> Floats:
    """The ECE of each class over its own bins of equal mass."""
    parts = [cells[i : i + _CLASSES_AT_ONCE] for i in range(0, len(cells), _CLASSES_AT_ONCE)]
    errors = [ece_of(_mass_bins_of_each(_padded(part), n_bins)) for part in parts]
    return np.concatenate(errors) if errors else np.zeros(0)


def _padded(cells: list[Floats]) -> Floats:
    """Classes with unequal numbers of cells as one table, with empty cells at the end."""
    sizes = np.array([len(own) for own in cells])
    table = np.zeros((len(cells), int(sizes.max()), 3))
    rows = np.repeat(np.arange(len(cells)), sizes)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table[rows, places] = np.concatenate([own[:, :3] for own in cells])
    return table


def _mean_over(weights: NDArray[Any], errors: Floats) -> float:
    """The weighted mean of the classes' errors; a class of weight 0 may have none."""
    used = weights > 0
    return float(np.average(errors[used], weights=weights[used])) if used.any() else float("nan")
