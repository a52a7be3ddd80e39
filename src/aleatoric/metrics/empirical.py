"""Rows of samples: what divergences between two empirical distributions share.

A row is one input; a NaN is a value that is not there, so rows may hold unequal numbers. A row
with nothing on one side has no divergence: NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats, Ints

Divergence = Callable[[Floats, Floats], Floats]
"""Row by row of (n, k) and (n, m) samples, how far apart their distributions are: (n,)."""


@dataclass(frozen=True)
class Steps:
    """The difference of two empirical distribution functions, row by row.

    Between two neighbouring values of the merged rows, `widths` apart, it is `gaps`.
    """

    gaps: Floats
    widths: Floats


def steps(left: Floats, right: Floats) -> Steps:
    """Merge two rows of samples; what lies outside both has gap 0 and width 0.

    >>> found = steps(np.array([[1.0, 3.0]]), np.array([[2.0, np.nan]]))
    >>> found.gaps.tolist(), found.widths.tolist()
    ([[0.5, -0.5, 0.0]], [[1.0, 1.0, 0.0]])
    """
    merged = np.concatenate([left, right], axis=1)
    order = np.argsort(merged, axis=1)  # NaN goes last
    values = np.take_along_axis(merged, order, axis=1)
    there = ~np.isnan(values)
    from_left = order < left.shape[1]
    cdf_left, cdf_right = _cdf(from_left & there), _cdf(~from_left & there)
    widths = np.nan_to_num(np.diff(values, axis=1), nan=0.0)
    return Steps((cdf_left - cdf_right)[:, :-1], widths)


def mean(values: Floats) -> Floats:
    """Row by row the mean of what is there; NaN where nothing is.

    >>> mean(np.array([[1.0, np.nan], [np.nan, np.nan]])).tolist()
    [1.0, nan]
    """
    n = counts(values)
    total = np.nansum(values, axis=1)
    found: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return found


def counts(values: Floats) -> Ints:
    """How many values each row holds.

    >>> counts(np.array([[1.0, np.nan]])).tolist()
    [1]
    """
    found: Ints = (~np.isnan(values)).sum(axis=1)
    return found


def undefined_where_empty(found: Floats, left: Floats, right: Floats) -> Floats:
    """`found`, or NaN in rows where a side has no value.

    >>> undefined_where_empty(np.zeros(1), np.array([[np.nan]]), np.ones((1, 2))).tolist()
    [nan]
    """
    return np.where((counts(left) > 0) & (counts(right) > 0), found, np.nan)


def _cdf(mask: NDArray[np.bool_]) -> Floats:
    # Whole numbers are added up, so that equal numbers of steps give equal heights exactly.
    steps_up = np.cumsum(mask, axis=1)
    total = steps_up[:, -1:]
    height: Floats = steps_up / np.maximum(total, 1)
    return height
