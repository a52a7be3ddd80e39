"""Calibration errors from bin sums.

Bin sums are additive, (..., bins, 4): the number of tokens, the sums of their confidences, of
their accuracies and of the squares of their accuracies. Sums of any groups of tokens add up to the
sums of all, so every error here can be bootstrapped over groups without a second look at a token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.reduction import divide
from aleatoric.types import Floats

COUNT, CONFIDENCE, ACCURACY, SQUARE = range(4)
N_COLUMNS = 4


def token_columns(confidence: Floats, accuracy: Floats) -> Floats:
    """What each token adds to the sums of its bin: (tokens, 4).

    >>> token_columns(np.array([0.75]), np.array([0.5])).tolist()
    [[1.0, 0.75, 0.5, 0.25]]
    """
    return np.stack([np.ones_like(confidence), confidence, accuracy, accuracy**2], axis=-1)


def bin_sums(confidence: Floats, accuracy: Floats, bins: NDArray[np.intp], n_bins: int) -> Floats:
    """The sums of each bin: (bins, 4).

    >>> bin_sums(np.array([0.25, 0.75]), np.array([0.0, 1.0]), np.array([0, 1]), 2)[:, 1].tolist()
    [0.25, 0.75]
    """
    columns = token_columns(confidence, accuracy).T
    return np.stack([np.bincount(bins, own, minlength=n_bins) for own in columns], axis=-1)


def ece_of(sums: Floats) -> Floats:
    """Expected calibration error: Σ |bin| / N · |accuracy − confidence|; NaN without tokens.

    >>> ece_of(np.array([[2.0, 1.5, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])).tolist()
    0.25
    """
    gaps = np.abs(sums[..., CONFIDENCE] - sums[..., ACCURACY]).sum(axis=-1)
    return divide(gaps, sums[..., COUNT].sum(axis=-1))


def mce_of(sums: Floats) -> Floats:
    """Maximum calibration error: the largest |accuracy − confidence| of a bin that holds a token.

    >>> mce_of(np.array([[2.0, 1.5, 1.0, 1.0], [1.0, 0.75, 0.0, 0.0]])).tolist()
    0.75
    """
    gaps = np.abs(divide(sums[..., CONFIDENCE] - sums[..., ACCURACY], sums[..., COUNT]))
    largest: Floats = np.where(np.isnan(gaps), -np.inf, gaps).max(axis=-1)
    return np.where(np.isfinite(largest), largest, np.nan)


def squared_ece_debiased_of(sums: Floats) -> Floats:
    """The mean square of the bins' gaps, less what noise adds to it (Bröcker 2012, Kumar 2019).

    From a bin's squared gap the sampling variance of its mean accuracy is taken away, so that the
    result is unbiased and may be below 0. Bins of one token have no variance and are left out.

    >>> round(float(squared_ece_debiased_of(np.array([[4.0, 2.0, 2.0, 2.0]]))), 6)
    -0.083333
    """
    count = sums[..., COUNT]
    mean = divide(sums[..., ACCURACY], count)
    gap = divide(sums[..., CONFIDENCE], count) - mean
    variance = divide(divide(sums[..., SQUARE], count) - mean**2, count - 1)
    used = count > 1
    terms = np.where(used, count * (gap**2 - variance), 0.0).sum(axis=-1)
    return divide(terms, np.where(used, count, 0.0).sum(axis=-1))


def ece_debiased_of(sums: Floats) -> Floats:
    """The root of the debiased mean squared gap, 0 where that is negative.

    A root mean square: compare it with other root mean squares, not with `ece_of`, which averages
    absolute gaps.

    >>> float(ece_debiased_of(np.array([[4.0, 2.0, 2.0, 2.0]])))
    0.0
    """
    squared = squared_ece_debiased_of(sums)
    root: Floats = np.sqrt(np.maximum(squared, 0.0))
    return np.where(np.isnan(squared), np.nan, root)
