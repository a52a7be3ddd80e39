"""Analytic standard errors that know groups: a check of the bootstrap that needs no random number.

Two ways to the same quantity. The linearised one holds for means (a ratio of sums): groups are the
independent units, so the variance of the mean is that of the groups' summed residuals. The
jackknife leaves one group out at a time and holds for any smooth value of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aleatoric.types import Floats, Interval

Value = Callable[[Floats], Floats]
"""(rows, k) sums -> (rows,) values; NaN where undefined."""
T_METHOD = "Student's t, jackknife over groups"


def clustered_error(totals: Floats, counts: Floats) -> float | None:
    """Standard error of Σ totals / Σ counts over groups (CR1); `None` with fewer than two groups.

    >>> round(clustered_error(np.array([1.0, 3.0]), np.array([2.0, 2.0])), 6)
    0.5
    >>> clustered_error(np.array([1.0]), np.array([2.0])) is None
    True
    """
    used = counts > 0
    n_groups = int(used.sum())
    if n_groups < 2:
        return None
    mean = totals[used].sum() / counts[used].sum()
    residuals = totals[used] - mean * counts[used]
    variance = n_groups / (n_groups - 1) * float((residuals**2).sum())
    return math.sqrt(variance) / float(counts[used].sum())


def leave_one_out(sums: Floats, value: Value) -> Floats:
    """The value without each group in turn.

    >>> leave_one_out(np.array([[1.0, 1.0], [3.0, 1.0]]), lambda s: s[:, 0] / s[:, 1]).tolist()
    [3.0, 1.0]
    """
    return value(sums.sum(axis=0) - sums)


def jackknife_error(left_out: Floats) -> float | None:
    """Standard error from leave-one-group-out values; `None` with fewer than two of them.

    >>> jackknife_error(np.array([3.0, 1.0]))
    1.0
    """
    known = left_out[np.isfinite(left_out)]
    if len(known) < 2:
        return None
    squares = float(((known - known.mean()) ** 2).sum())
    return math.sqrt((len(known) - 1) / len(known) * squares)


def skewness(left_out: Floats) -> float:
    """Skewness of the groups' influence on a value, from leave-one-group-out values.

    >>> skewness(np.array([1.0, 2.0, 3.0]))
    0.0
    """
    known = left_out[np.isfinite(left_out)]
    gaps = known.mean() - known
    square = float((gaps**2).mean())
    return float((gaps**3).mean()) / square**1.5 if square > 0 else 0.0


def t_interval(
    value: float, error: float, n_groups: int, level: float = 0.95, skew: float = 0.0
) -> Interval:
    """Student's t around a value, with n_groups - 1 degrees of freedom for its standard error.

    Groups with a long tail on one side are too rarely seen there: the end on that side is moved out
    by Johnson's (1978) correction for their skewness. The other end stays.

    >>> round(t_interval(0.0, 1.0, 5).high, 3), round(t_interval(0.0, 1.0, 5, skew=1.0).high, 3)
    (2.776, 4.0)
    """
    reach = t_quantile((1 + level) / 2, n_groups - 1)
    shift = skew * (1 + 2 * reach**2) / (6 * math.sqrt(n_groups))
    low, high = -reach + min(shift, 0.0), reach + max(shift, 0.0)
    return Interval(value + low * error, value + high * error, level, T_METHOD)


def t_quantile(share: float, degrees: int) -> float:
    """Quantile of Student's t.

    >>> round(t_quantile(0.975, 54), 3)
    2.005
    """
    from scipy.special import stdtrit  # importing it takes longer than all the rest here

    return float(stdtrit(degrees, share))
