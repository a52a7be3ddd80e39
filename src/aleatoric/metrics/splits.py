"""TVD and JS divergence of many splits at once, on count matrices.

The same quantities as the pairwise metrics, for (splits, outcomes) counts of two sides. An outcome
that neither side has changes nothing, so that items of different outcomes may share a table.
"""

from __future__ import annotations

import numpy as np

from aleatoric.types import Floats, Ints


def tvd(left: Ints, right: Ints) -> Floats:
    """Total variation distance by split.

    >>> tvd(np.array([[1, 1]]), np.array([[2, 0]])).tolist()
    [0.5]
    """
    n, m = _sizes(left), _sizes(right)
    # In whole numbers: equal to the last bit, whatever order or table the outcomes stand in.
    apart: Floats = np.abs(left * m - right * n).sum(axis=1) / (2 * n * m)[:, 0]
    return apart


def js(left: Ints, right: Ints) -> Floats:
    """Jensen-Shannon divergence by split, in nats.

    >>> js(np.array([[1, 0]]), np.array([[1, 0]])).tolist()
    [0.0]
    """
    p, q = left / _sizes(left), right / _sizes(right)
    middle = (p + q) / 2
    return (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    # By hand: importing scipy.special takes longer than scoring a hundred contexts.
    with np.errstate(invalid="ignore"):
        terms = p * np.log(np.where(p > 0, p / q, 1.0))
    # One after another: unlike a sum, the same however many empty outcomes a table is filled with.
    total: Floats = np.add.accumulate(terms, axis=1)[:, -1]
    return total


def _sizes(counts: Ints) -> Ints:
    sizes: Ints = counts.sum(axis=1, keepdims=True)
    return sizes
