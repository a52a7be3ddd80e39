"""TVD, squared distance and JS divergence of many splits at once, on count matrices.

The same quantities as the pairwise metrics, for (splits, outcomes) counts of two sides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def tvd(left: Counts, right: Counts) -> Floats:
    """Total variation distance by split.

    >>> tvd(np.array([[1, 1]]), np.array([[2, 0]])).tolist()
    [0.5]
    """
    distance: Floats = np.abs(_shares(left) - _shares(right)).sum(axis=1) / 2
    return distance


def sq_distance(left: Counts, right: Counts) -> Floats:
    """Unbiased squared distance by split; NaN where a side has fewer than two answers.

    >>> sq_distance(np.array([[1, 1]]), np.array([[1, 1]])).tolist()
    [-1.0]
    """
    cross = (_shares(left) * _shares(right)).sum(axis=1)
    distance: Floats = _self_product(left) + _self_product(right) - 2 * cross
    return distance


def js(left: Counts, right: Counts) -> Floats:
    """Jensen-Shannon divergence by split, in nats.

    >>> js(np.array([[1, 0]]), np.array([[1, 0]])).tolist()
    [0.0]
    """
    p, q = _shares(left), _shares(right)
    middle = (p + q) / 2
    return (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    # By hand: importing scipy.special takes longer than scoring a hundred contexts.
    logs = np.log(np.divide(p, q, out=np.ones_like(p), where=p > 0))
    total: Floats = (p * logs).sum(axis=1)
    return total


def _shares(counts: Counts) -> Floats:
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _self_product(counts: Counts) -> Floats:
    n = counts.sum(axis=1)
    agreeing = (counts * counts).sum(axis=1) - n
    product: Floats = agreeing / np.where(n > 1, n * (n - 1), np.nan)
    return product
