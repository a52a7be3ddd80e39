"""The Kolmogorov-Smirnov distance between two samples, for many inputs at once."""

from __future__ import annotations

import numpy as np

from aleatoric.metrics.empirical import steps, undefined_where_empty
from aleatoric.types import Floats


def ks(left: Floats, right: Floats) -> Floats:
    """Row by row the greatest difference of distribution functions; NaN entries are left out.

    >>> ks(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).tolist()
    [0.5]
    """
    found = steps(left, right)
    # Inside a tie the merged order is arbitrary: only the end of a tie counts.
    gaps = np.where(found.widths > 0, np.abs(found.gaps), 0.0)
    return undefined_where_empty(gaps.max(axis=1, initial=0.0), left, right)
