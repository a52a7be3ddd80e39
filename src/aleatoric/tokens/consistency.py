"""What a calibrated model's reliability diagram would look like with as many tokens.

Bröcker & Smith (2007): with hits drawn from the model's own confidences, accuracies still stray
from the diagonal, and the expected calibration error is above 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aleatoric.metrics.bins import ACCURACY, CONFIDENCE, COUNT, SQUARE
from aleatoric.metrics.reduction import Floats, divide
from aleatoric.streams import stream

N_SETS = 1000
LEVEL = 0.95
_NORMAL = 1.959963984540054


@dataclass(frozen=True)
class Consistency:
    """Where 95% of a calibrated model's accuracies lie, by bin, and its mean ECE."""

    low: Floats
    high: Floats
    ece: float


def of_hits(cells: Floats, n_bins: int, seed: int) -> Consistency:
    """For hits, which are 0 or 1: `cells` are sums of like confidence, so many to each bin.

    >>> cells = np.array([[100.0, 25.0, 20.0, 20.0], [100.0, 75.0, 80.0, 80.0]])
    >>> found = of_hits(cells, n_bins=2, seed=0)
    >>> bool(found.low[0] < 0.25 < found.high[0]), round(found.ece, 2)
    (True, 0.03)
    """
    used = np.flatnonzero(cells[:, COUNT])
    counts, confidence = cells[used, COUNT], cells[used, CONFIDENCE]
    chances = np.clip(confidence / counts, 0, 1)
    rng = stream(seed, "consistency", n_bins)
    drawn = rng.binomial(counts.astype(np.int64), chances, size=(N_SETS, len(used)))
    in_bin = np.eye(n_bins)[used * n_bins // len(cells)]
    hits, sums = drawn @ in_bin, counts @ in_bin
    gaps = np.abs(hits - confidence @ in_bin).sum(axis=1) / counts.sum()
    edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = (divide(own, sums) for own in np.quantile(hits, edges, axis=0))
    return Consistency(low, high, float(gaps.mean()))


def of_expectations(bins: Floats) -> tuple[Floats, Floats]:
    """For expected accuracies: 95% of the means of as many of them, by their own variance.

    A bin of one token has no variance: its ends are NaN.

    >>> low, high = of_expectations(np.array([[4.0, 2.0, 2.0, 1.48]]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.108], [0.892])
    """
    count = bins[:, COUNT]
    mean = divide(bins[:, ACCURACY], count)
    variance = divide(bins[:, SQUARE] - count * mean**2, count - 1)
    reach = _NORMAL * np.sqrt(divide(np.maximum(variance, 0.0), count))
    centre = divide(bins[:, CONFIDENCE], count)
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
