"""From the sums of a stream to estimates with intervals and tests of calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aleatoric.calibration.statistics import TokenRows, join_rows
from aleatoric.calibration.sums import MAX_UNITS, Curve, CurveSums, StreamState
from aleatoric.errors import counted
from aleatoric.inference import bootstrap
from aleatoric.inference.bootstrap import DEFAULT_METHOD, LEVEL, Resampled, Value, resample
from aleatoric.inference.estimate import bounded
from aleatoric.metrics import calibration
from aleatoric.metrics.calibration import (
    ACCURACY,
    CONFIDENCE,
    COUNT,
    SQUARE,
    ece_debiased_of,
    ece_of,
)
from aleatoric.metrics.reduction import divide
from aleatoric.rng import stream
from aleatoric.types import Estimate, Floats, Interval

SCORES = {"nll": 1, "brier": 3, "entropy": 4, "accuracy": 5}
"""Means over tokens -> the column of their sums."""
AGREEMENTS = {"agreement_M": CONFIDENCE, "agreement_C": ACCURACY}
"""Agreements -> the column of e-ECE's bin sums: with P̃ = P, p̃ = Σ P² and ã = P(y)."""
_EXCLUDED = 2
_NO_INTERVAL = Resampled(None, "this error is not a sum over groups: it has no interval")
_LARGEST = Resampled(None, "the largest gap of several bins: it has no reliable interval")


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


@dataclass(frozen=True)
class CalibrationResult:
    """Every calibration error of a stream, as fractions (the paper prints percent)."""

    n_tokens: int
    n_groups: int
    estimates: Mapping[str, Estimate]
    """By metric name: ece, mce, e_ece, e_ece_p, brier, nll, ..."""
    curves: Mapping[str, Curve]
    """By metric name (ece, e_ece, ...), the bin sums behind it, for reliability diagrams."""
    consistency: Mapping[str, Consistency]
    """By curve, the test of calibration."""
    rows: TokenRows | None
    """Per-token rows, if they were kept."""
    row_groups: tuple[str, ...]
    """The group of each kept row."""


class Summed(NamedTuple):
    """A metric's (groups, k) sums, and the function from sums to its value."""

    table: Floats
    value: Value


class GroupedSums(NamedTuple):
    """Groups by name, their numbers of tokens, and the sums of every metric that has them."""

    names: tuple[str, ...]
    tokens: Floats
    metrics: Mapping[str, Summed]


def estimate_all(state: StreamState, seed: int, method: str = DEFAULT_METHOD) -> CalibrationResult:
    """Every metric of a state that holds tokens."""
    rows = join_rows(state.rows) if state.rows else None
    curves = {name: sums.curve() for name, sums in state.curves.items()}
    if rows is not None:
        pairs = [(rows.confidence, rows.correct), *rows.expected.values()]
        cells = dict(zip(curves, (calibration.exact_cells(*pair) for pair in pairs), strict=True))
        curves = {name: replace(curve, cells=cells[name]) for name, curve in curves.items()}
    consistency = {}
    for name, sums in state.curves.items():
        # The plain curve has hits, which are 0 or 1; a scheme has expected accuracies.
        test = consistency_of_hits if name == "ece" else consistency_of_expectations
        curve = sums.curve()  # exact cells are not aligned with the bins
        consistency[name] = test(curve.cells, len(curve.bins), seed)
    errors = _errors(state, curves, consistency, seed, method)
    parts = {**errors, **_mean_estimates(state, seed, method), **_classwise(state)}
    estimates = {metric: bounded(part, metric) for metric, part in parts.items()}
    sizes, row_groups = (state.n_tokens, state.units.n_groups), tuple(state.row_groups)
    return CalibrationResult(*sizes, estimates, curves, consistency, rows, row_groups)


def grouped(state: StreamState) -> GroupedSums:
    """The sums of every metric that is a function of sums over groups."""
    curves: list[tuple[str, CurveSums, Value]] = [(n, c, ece_of) for n, c in state.curves.items()]
    curves += [("ece_debiased", state.curves["ece"], ece_debiased_of)]
    curves += [("mce", state.curves["ece"], calibration.mce_of)]
    errors = {name: Summed(sums.by_group, sums.by_unit(error)) for name, sums, error in curves}
    return GroupedSums(state.units.names, state.scores[:, 0], errors | _means(state))


def _errors(
    state: StreamState,
    curves: Mapping[str, Curve],
    consistency: Mapping[str, Consistency],
    seed: int,
    method: str,
) -> dict[str, Estimate]:
    """Errors of all curves; if calibration is not rejected, the p-value replaces the interval."""
    values = {**curves["ece"].errors(), **{n: float(ece_of(c.bins)) for n, c in curves.items()}}
    estimates = {name: _estimate(state, value, _NO_INTERVAL) for name, value in values.items()}
    estimates["mce"] = _estimate(state, values["mce"], _LARGEST)
    for name, curve in [*((name, name) for name in curves), ("ece_debiased", "ece")]:
        test = consistency[curve]
        interval = Resampled(None, f"consistent with calibration (p = {test.p:.2g})")
        if test.rejected:
            interval = _error_interval(state, state.curves[curve], name, seed, method)
        estimates[name] = replace(_estimate(state, values[name], interval), p_calibrated=test.p)
    return estimates


def _error_interval(
    state: StreamState, sums: CurveSums, name: str, seed: int, method: str
) -> Resampled:
    if name == "ece_debiased" or method not in ("auto", "t"):
        error = sums.by_unit(ece_debiased_of if name == "ece_debiased" else ece_of)
        return _interval(state, sums.by_group, error, seed, method)
    bins = sums.binned_units()[state.scores[:, 0] > 0]
    gaps = bins[..., ACCURACY] - bins[..., CONFIDENCE]
    interval = binned_error_interval(gaps, bins[..., COUNT].sum(axis=1))
    return interval.pooled_into(MAX_UNITS) if state.units.pooled else interval


def _mean_estimates(state: StreamState, seed: int, method: str) -> dict[str, Estimate]:
    """Means over tokens; the log score is undefined if a reference has no probability."""
    estimates = {}
    for name, sums in _means(state).items():
        value = float(sums.table[:, 0].sum() / state.n_tokens)
        interval = _interval(state, sums.table, sums.value, seed, method)
        estimates[name] = _estimate(state, value, interval)
    if excluded := int(state.scores[:, _EXCLUDED].sum()):
        reason = f"{counted(excluded, 'reference', 'has', 'have')} no probability"
        estimates["nll"] = Estimate(None, None, 0, 0, n_undefined=excluded, reason=reason)
    return estimates


def _classwise(state: StreamState) -> dict[str, Estimate]:
    parts = [sums.errors() for sums in (state.predicted, state.classes) if sums is not None]
    errors = {name: value for part in parts for name, value in part.items()}
    return {name: _estimate(state, value, _NO_INTERVAL) for name, value in errors.items()}


def _interval(state: StreamState, table: Floats, value: Value, seed: int, method: str) -> Resampled:
    is_scored, sizes = state.scores[:, 0] > 0, state.scores[:, 0]
    interval = resample(table[is_scored], value, seed, method=method, sizes=sizes[is_scored])
    return interval.pooled_into(MAX_UNITS) if state.units.pooled else interval


def _estimate(state: StreamState, value: float, resampled: Resampled) -> Estimate:
    if math.isnan(value):
        reason = "no bin holds enough tokens"
        return Estimate(None, None, 0, 0, n_undefined=state.n_tokens, reason=reason)
    counts = state.n_tokens, state.units.n_groups
    return Estimate(value, resampled.interval, *counts, reason=resampled.reason)


def _means(state: StreamState) -> dict[str, Summed]:
    """Means over tokens: a sum and the number of tokens."""
    table = state.scores
    sums = {name: table[:, [column, 0]] for name, column in SCORES.items()}
    if "e_ece" in state.curves:
        totals = state.curves["e_ece"].binned_units().sum(axis=1)
        sums |= {name: totals[:, [column, COUNT]] for name, column in AGREEMENTS.items()}
    return {
        name: Summed(table, lambda rows: divide(rows[..., 0], rows[..., 1]))
        for name, table in sums.items()
    }


# Tests of calibration by simulation, and intervals of binned errors -------------------------

N_SETS = 1000
CELLS_PER_BIN = 16
_NORMAL = 1.959963984540054
_ROUNDING = 1e-9


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
        return Resampled(None, bootstrap.ONE_GROUP)
    units = bootstrap.bundled(np.column_stack([gaps, counts]))
    plain, fitted = _plain_error(units), _cross_fitted(units)
    rest = [np.delete(units, i, axis=0) for i in range(len(units))]
    of_fitted, of_plain = (
        bootstrap.jackknife_error(np.array([value(others) for others in rest])) or 0.0
        for value in (_cross_fitted, _plain_error)
    )
    reach = bootstrap.t_quantile((1 + level) / 2, len(units) - 1)
    ends = fitted - reach * of_fitted, plain + reach * of_plain
    return Resampled(Interval(*ends, level, f"{bootstrap.T_METHOD}, cross-fitted lower end"))


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
