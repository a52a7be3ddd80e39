"""Class-wise calibration errors over a vocabulary: SCE and ACE (Nixon et al. 2019), two ways.

Nixon's formula takes every class k at every token, with confidence P(k) and accuracy 1[y = k], and
averages over all K classes; over a vocabulary of thousands nearly all of it is P(k) near 0, and the
average is tiny. `predicted` takes each token at its predicted class alone, with the class's own
ECE, and averages over the classes that are ever predicted.
"""

from __future__ import annotations

import numpy as np

from aleatoric.metrics.bins import ACCURACY, CONFIDENCE, COUNT, ece_of
from aleatoric.metrics.cells import mass_bins
from aleatoric.metrics.reduction import Floats, divide


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
    for own in cells:
        found = mass_bins(own, n_bins)
        total += np.abs(divide(found[:, CONFIDENCE] - found[:, ACCURACY], found[:, COUNT])).sum()
    return float(total / (n_classes * n_bins))


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
    return _mean_defined(np.array([float(ece_of(mass_bins(own, n_bins))) for own in cells]))


def _mean_defined(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
