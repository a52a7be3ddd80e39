"""Tests of calibration by simulation, and intervals of binned calibration errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aleatoric.inference.bootstrap import (
    ONE_GROUP,
    T_METHOD,
    Resampled,
    bundled,
    jackknife_error,
    t_quantile,
)
from aleatoric.metrics.calibration import ACCURACY, CONFIDENCE, COUNT, SQUARE
from aleatoric.metrics.reduction import divide
from aleatoric.rng import stream
from aleatoric.types import Floats, Interval

N_SETS = 1000
LEVEL = 0.95
CELLS_PER_BIN = 16
CROSS_FITTED = f"{T_METHOD}, cross-fitted lower end"
_NORMAL = 1.959963984540054
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Consistency:
    """Scores that calibrated models would have on the same tokens, compared with the model's."""

    low: Floats
    """Per bin, the lower end of the central 95% of a calibrated model's accuracies."""
    high: Floats
    expected: float
    """The mean error of calibrated sets."""
    p: float
    """The share of calibrated sets whose error is at least as large as the model's."""

    @property
    def rejected(self) -> bool:
        """Whether calibration is rejected at 5%."""
        return self.p <= 1 - LEVEL


def consistency_of_hits(cells: Floats, n_bins: int, seed: int) -> Consistency:
    """Test accuracies that are 0 or 1, drawing hits with the confidences as probabilities.

    `cells` are sums of tokens of nearly equal confidence, the same number of cells per bin.
    """
    # At most `CELLS_PER_BIN` cells per bin: fewer draws, with confidences still nearly equal.
    parts = len(cells) // n_bins
    starts = np.arange(0, parts, -(-parts // CELLS_PER_BIN))
    places = (np.arange(n_bins)[:, None] * parts + starts).ravel()
    coarse: Floats = np.add.reduceat(cells, places, axis=0)
    used = np.flatnonzero(coarse[:, COUNT])
    counts, confidence = coarse[used, COUNT], coarse[used, CONFIDENCE]
    chances = np.clip(confidence / counts, 0, 1)
    rng = stream(seed, "consistency", n_bins)
    drawn = rng.binomial(counts.astype(np.int64), chances, size=(N_SETS, len(used)))
    in_bin = np.eye(n_bins)[used // len(starts)]
    hits = drawn @ in_bin
    errors = np.abs(hits - confidence @ in_bin).sum(axis=1)
    edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = (divide(quantile, counts @ in_bin) for quantile in np.quantile(hits, edges, axis=0))
    p = _p_value(_by_bin(cells, n_bins), errors)
    return Consistency(low, high, float(errors.mean() / counts.sum()), p)


def consistency_of_expectations(cells: Floats, n_bins: int, seed: int) -> Consistency:
    """Test expected accuracies: the sum of a bin's gaps is normal noise with the gaps' variance.

    For a calibrated model a gap a - p has mean 0 given the token's distribution, so the sum of the
    squared gaps estimates the variance of their sum. It is too small if rare large gaps have not
    occurred; the variance used is therefore at least that of all bins together, divided in
    proportion to p^1.5 - p^2, the largest variance that P(y) can have if its mean is p.
    """
    count, total = cells[:, COUNT], cells[:, CONFIDENCE]
    mean = np.where(count > 0, total / np.maximum(count, 1), 0.0)
    squares = cells[:, SQUARE] - 2 * mean * cells[:, ACCURACY] + mean * total
    parts = (squares, count * (mean**1.5 - mean**2))
    observed, shape = (x.reshape(n_bins, -1).sum(axis=1).clip(min=0.0) for x in parts)
    pooled = shape * (observed.sum() / max(shape.sum(), _ROUNDING))
    deviation = np.sqrt(np.maximum(observed, pooled))
    noise = stream(seed, "consistency", n_bins).normal(size=(N_SETS, n_bins)) * deviation
    bins = _by_bin(cells, n_bins)
    centre, reach = (divide(sums, bins[:, COUNT]) for sums in (bins[:, CONFIDENCE], deviation))
    return Consistency(
        low=np.maximum(centre - _NORMAL * reach, 0.0),
        high=np.minimum(centre + _NORMAL * reach, 1.0),
        # The mean of the absolute value of normal noise.
        expected=float(np.sqrt(2 / np.pi * observed).sum() / count.sum()),
        p=_p_value(bins, np.abs(noise).sum(axis=1)),
    )


def binned_error_interval(gaps: Floats, counts: Floats, level: float = LEVEL) -> Resampled:
    """Interval of Σ|gap of a bin| / tokens, from (groups, bins) gap sums and tokens per group.

    If a bin's gap is within its noise, its absolute value is too large on average. The upper end is
    that of the error itself. The lower end is that of a cross-fitted error, which is not too large:
    the sign of a bin's gap is taken from the other groups.
    """
    if len(gaps) < 2:
        return Resampled(None, ONE_GROUP)
    units = bundled(np.column_stack([gaps, counts]))
    plain, fitted = _plain_error(units), _cross_fitted(units)
    rest = [np.delete(units, i, axis=0) for i in range(len(units))]
    of_fitted, of_plain = (
        jackknife_error(np.array([value(others) for others in rest])) or 0.0
        for value in (_cross_fitted, _plain_error)
    )
    reach = t_quantile((1 + level) / 2, len(units) - 1)
    ends = fitted - reach * of_fitted, plain + reach * of_plain
    return Resampled(Interval(*ends, level, CROSS_FITTED))


def _plain_error(units: Floats) -> float:
    """The binned error; the last column of `units` is the number of tokens."""
    total = units.sum(axis=0)
    return float(np.abs(total[:-1]).sum() / total[-1])


def _cross_fitted(units: Floats) -> float:
    """The binned error with each bin's sign taken from the other groups."""
    gaps = units[:, :-1]
    return float((np.sign(gaps.sum(axis=0) - gaps) * gaps).sum() / units[:, -1].sum())


def _by_bin(cells: Floats, n_bins: int) -> Floats:
    bins: Floats = cells.reshape(n_bins, -1, cells.shape[1]).sum(axis=1)
    return bins


def _p_value(bins: Floats, errors: Floats) -> float:
    """Monte Carlo p-value; the observed set counts as one of the sets, so p is never 0."""
    observed = float(np.abs(bins[:, ACCURACY] - bins[:, CONFIDENCE]).sum())
    reached = int((errors >= observed * (1 - _ROUNDING)).sum())
    return (reached + 1) / (len(errors) + 1)
