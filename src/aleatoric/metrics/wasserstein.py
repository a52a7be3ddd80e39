"""The Wasserstein-1 distance between two samples, for many inputs at once."""

from __future__ import annotations

import numpy as np

from aleatoric.metrics.empirical import counts
from aleatoric.types import Floats, Ints


def w1(left: Floats, right: Floats) -> Floats:
    """Row by row the area between the two empirical distribution functions.

    Samples are (n, k) and (n, m); NaN entries are left out, and a row with nothing on one side
    is NaN.

    >>> w1(np.array([[0.0, 1.0]]), np.array([[0.0, 0.0, 3.0]])).tolist()
    [0.8333333333333333]
    """
    n_left, n_right = counts(left), counts(right)
    left, right = np.sort(left, axis=1), np.sort(right, axis=1)  # NaN goes last
    found = np.full(len(left), np.nan)
    # Rows of the same two numbers share their quantile steps; usually all rows do.
    shapes = n_left * (right.shape[1] + 1) + n_right
    for shape in np.unique(shapes).tolist():
        k, m = divmod(shape, right.shape[1] + 1)
        if k and m:
            rows = slice(None) if (shapes == shape).all() else np.flatnonzero(shapes == shape)
            found[rows] = _of_sorted(left[rows, :][:, :k], right[rows, :][:, :m])
    return found


def _of_sorted(left: Floats, right: Floats) -> Floats:
    """The integral over p of |left quantile - right quantile|, both of which are step functions."""
    k, m = left.shape[1], right.shape[1]
    if k == m:
        same: Floats = np.abs(left - right).mean(axis=1)
        return same
    # In units of 1 / (k * m) every step ends at a whole number.
    ends: Ints = np.union1d(np.arange(1, k + 1) * m, np.arange(1, m + 1) * k)
    lengths = np.diff(ends, prepend=0)
    distances = left.take((ends - 1) // m, axis=1)
    distances -= right.take((ends - 1) // k, axis=1)
    # A matrix product would be faster, but its last bit depends on how many rows there are.
    area: Floats = (np.abs(distances) * (lengths / (k * m))).sum(axis=1)
    return area
