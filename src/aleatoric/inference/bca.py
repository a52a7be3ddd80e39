"""Bias-corrected and accelerated bootstrap (Efron 1987): where the replicates' quantiles are read.

Replicates of a biased or skewed value lie off its own: the percentile interval then errs to one
side. BCa moves the two shares at which quantiles are read, by the share of replicates below the
value (bias) and by the skewness of the leave-one-group-out values (acceleration).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_NORMAL = NormalDist()


def bca_ends(value: float, replicates: Floats, left_out: Floats, level: float) -> Floats:
    """The two ends of the interval.

    >>> replicates = np.linspace(-1, 1, 2001)
    >>> bca_ends(0.0, replicates, np.array([-1.0, 1.0]), 0.95).round(2).tolist()
    [-0.95, 0.95]
    """
    bias, bend = bias_correction(value, replicates), acceleration(left_out)
    shares = [_shifted(share, bias, bend) for share in ((1 - level) / 2, (1 + level) / 2)]
    ends: Floats = np.quantile(replicates, shares)
    return ends


def bias_correction(value: float, replicates: Floats) -> float:
    """The normal quantile of the share of replicates below the value; equal ones count half.

    >>> bias_correction(0.0, np.array([-1.0, 1.0]))
    0.0
    """
    below = (replicates < value).sum() + (replicates == value).sum() / 2
    # A value outside all replicates would be infinitely biased: half a replicate lies beyond it.
    share = np.clip(below / len(replicates), 0.5 / len(replicates), 1 - 0.5 / len(replicates))
    return _NORMAL.inv_cdf(float(share))


def acceleration(left_out: Floats) -> float:
    """A sixth of the skewness of the leave-one-group-out values, signed as the value's.

    >>> acceleration(np.array([1.0, 2.0, 3.0]))
    0.0
    """
    known = left_out[np.isfinite(left_out)]
    gaps = known.mean() - known
    squares = float((gaps**2).sum())
    return float((gaps**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0


def _shifted(share: float, bias: float, bend: float) -> float:
    z = bias + _NORMAL.inv_cdf(share)
    damped = 1 - bend * z
    if damped <= 0:  # a bend this strong moves the quantile past every replicate
        return 1.0 if z > 0 else 0.0
    return _NORMAL.cdf(bias + z / damped)
