"""From the sums of a stream to estimates with intervals."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenRows, join_rows
from aleatoric.calibration.sums import (
    MAX_UNITS,
    AllClasses,
    Curve,
    CurveSums,
    PredictedClasses,
    Units,
    UnitSums,
)
from aleatoric.inference.bootstrap import (
    DEFAULT_METHOD,
    ONE_GROUP,
    T_METHOD,
    Resampled,
    bundled,
    jackknife_error,
    resample,
    t_quantile,
)
from aleatoric.metrics.calibration import (
    ACCURACY,
    CONFIDENCE,
    COUNT,
    N_COLUMNS,
    SQUARE,
    ece_debiased_of,
    ece_of,
    exact_cells,
    mce_of,
)
from aleatoric.metrics.reduction import divide
from aleatoric.rng import stream
from aleatoric.types import Estimate, Floats, Interval

N_SETS = 1000
LEVEL = 0.95
CELLS_PER_BIN = 16
CROSS_FITTED = f"{T_METHOD}, cross-fitted lower end"
_NORMAL = 1.959963984540054
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Consistency:
    """What calibrated sets of the same tokens look like, and how the model compares with them."""

    low: Floats
    """Per bin, the lower end of 95% of a calibrated model's accuracies."""
    high: Floats
    expected: float
    """The mean error of calibrated sets."""
    p: float
    """The share of calibrated sets whose error is at least as large as the model's."""

    @property
    def rejected(self) -> bool:
        """Whether calibration is rejected at 5%."""
        return self.p <= 1 - LEVEL


def of_hits(cells: Floats, n_bins: int, seed: int) -> Consistency:
    """Test accuracies that are 0 or 1: hits are drawn with the confidences as probabilities.

    `cells` are sums of tokens of nearly equal confidence, the same number of cells per bin.

    >>> cells = np.array([[100.0, 25.0, 20.0, 20.0], [100.0, 75.0, 80.0, 80.0]])
    >>> found = of_hits(cells, n_bins=2, seed=0)
    >>> bool(found.low[0] < 0.25 < found.high[0]), round(found.expected, 2), found.rejected
    (True, 0.03, False)
    """
    coarse, per_bin = _coarse(cells, n_bins)
    used = np.flatnonzero(coarse[:, COUNT])
    counts, confidence = coarse[used, COUNT], coarse[used, CONFIDENCE]
    chances = np.clip(confidence / counts, 0, 1)
    rng = stream(seed, "consistency", n_bins)
    drawn = rng.binomial(counts.astype(np.int64), chances, size=(N_SETS, len(used)))
    in_bin = np.eye(n_bins)[used // per_bin]
    hits = drawn @ in_bin
    errors = np.abs(hits - confidence @ in_bin).sum(axis=1)
    edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = (divide(own, counts @ in_bin) for own in np.quantile(hits, edges, axis=0))
    p = _p_value(_by_bin(cells, n_bins), errors)
    return Consistency(low, high, float(errors.mean() / counts.sum()), p)


def of_expectations(cells: Floats, n_bins: int, seed: int) -> Consistency:
    """Test expected accuracies: the gaps of a bin add up to normal noise of the gaps' own variance.

    A calibrated model's gap a - p has mean 0 given the token's distribution, so the sum of the
    squared gaps estimates the variance of their sum. Where rare large gaps have not occurred it is
    too small; the variance used is therefore at least that of all bins together, shared out in
    proportion to p^1.5 - p^2, the largest variance that P(y) can have if its mean is p.

    >>> cells = np.array([[100.0, 25.0, 24.0, 8.0], [100.0, 75.0, 76.0, 60.0]])
    >>> found = of_expectations(cells, n_bins=2, seed=0)
    >>> bool(found.low[0] < 0.25 < found.high[0]), round(found.expected, 2), found.rejected
    (True, 0.01, False)
    """
    count, total = cells[:, COUNT], cells[:, CONFIDENCE]
    mean = np.where(count > 0, total / np.maximum(count, 1), 0.0)
    squares = cells[:, SQUARE] - 2 * mean * cells[:, ACCURACY] + mean * total
    observed, shape = (
        own.reshape(n_bins, -1).sum(axis=1).clip(min=0.0)
        for own in (squares, count * (mean**1.5 - mean**2))
    )
    pooled = shape * (observed.sum() / max(shape.sum(), _ROUNDING))
    deviation = np.sqrt(np.maximum(observed, pooled))
    noise = stream(seed, "consistency", n_bins).normal(size=(N_SETS, n_bins)) * deviation
    bins = _by_bin(cells, n_bins)
    centre, reach = (divide(own, bins[:, COUNT]) for own in (bins[:, CONFIDENCE], deviation))
    # The mean of the absolute value of normal noise.
    expected = np.sqrt(2 / np.pi * observed).sum() / count.sum()
    return Consistency(
        low=np.maximum(centre - _NORMAL * reach, 0.0),
        high=np.minimum(centre + _NORMAL * reach, 1.0),
        expected=float(expected),
        p=_p_value(bins, np.abs(noise).sum(axis=1)),
    )


def error_interval(gaps: Floats, counts: Floats, level: float = LEVEL) -> Resampled:
    """Interval of Σ|gap of a bin| / tokens, from (groups, bins) gap sums and tokens per group.

    Where a bin's gap is within its noise, its absolute value is too large on average. The upper end
    belongs to the error itself. The lower end belongs to a cross-fitted error, which is not too
    large: the sign of a bin's gap is taken from the other groups.

    >>> gaps = np.array([[3.0, -1.0], [2.0, -2.0], [4.0, -1.0]])
    >>> found = error_interval(gaps, np.full(3, 10.0)).interval
    >>> round(found.low, 3), round(found.high, 3)
    (0.29, 0.577)
    """
    if len(gaps) < 2:
        return Resampled(None, ONE_GROUP)
    units = bundled(np.column_stack([gaps, counts]))
    plain, fitted = _plain_error(units), _cross_fitted(units)
    rest = [np.delete(units, i, axis=0) for i in range(len(units))]
    errors = [
        jackknife_error(np.array([value(own) for own in rest]))
        for value in (_cross_fitted, _plain_error)
    ]
    reach = t_quantile((1 + level) / 2, len(units) - 1)
    low, high = fitted - reach * (errors[0] or 0.0), plain + reach * (errors[1] or 0.0)
    return Resampled(Interval(low, high, level, CROSS_FITTED))


def _plain_error(units: Floats) -> float:
    """The binned error; the last column of `units` is the number of tokens."""
    total = units.sum(axis=0)
    return float(np.abs(total[:-1]).sum() / total[-1])


def _cross_fitted(units: Floats) -> float:
    """The binned error with each bin's sign taken from the other groups."""
    gaps = units[:, :-1]
    return float((np.sign(gaps.sum(axis=0) - gaps) * gaps).sum() / units[:, -1].sum())


def _coarse(cells: Floats, n_bins: int) -> tuple[Floats, int]:
    """At most `CELLS_PER_BIN` cells per bin: fewer draws, and confidences still nearly equal."""
    parts = len(cells) // n_bins
    starts = np.arange(0, parts, -(-parts // CELLS_PER_BIN))
    places = (np.arange(n_bins)[:, None] * parts + starts).ravel()
    sums: Floats = np.add.reduceat(cells, places, axis=0)
    return sums, len(starts)


def _by_bin(cells: Floats, n_bins: int) -> Floats:
    bins: Floats = cells.reshape(n_bins, -1, cells.shape[1]).sum(axis=1)
    return bins


def _p_value(bins: Floats, errors: Floats) -> float:
    """Monte Carlo p-value; the observed set counts as one of the sets, so p is never 0."""
    observed = float(np.abs(bins[:, ACCURACY] - bins[:, CONFIDENCE]).sum())
    reached = int((errors >= observed * (1 - _ROUNDING)).sum())
    return (reached + 1) / (len(errors) + 1)


SCORES = {"nll": 1, "brier": 3, "entropy": 4, "accuracy": 5}
"""Means over tokens -> the column of their sums."""
AGREEMENTS = {"agreement_M": CONFIDENCE, "agreement_C": ACCURACY}
"""Agreements -> the column of e-ECE's bin sums: with P̃ = P, p̃ = Σ P² and ã = P(y)."""
_EXCLUDED = 2
_NO_INTERVAL = Resampled(None, "this error is not a sum over groups: it has no interval")
_LARGEST = Resampled(None, "the largest gap of several bins: it has no reliable interval")


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
    """By curve, how calibrated sets of the same size compare."""
    rows: TokenRows | None
    """Per-token rows, where they were asked for."""
    row_groups: tuple[str, ...]
    """The group of each kept row."""


@dataclass
class State:
    """All that a stream remembers."""

    groups: Units
    scores: UnitSums
    curves: dict[str, CurveSums]
    predicted: PredictedClasses | None
    classes: AllClasses | None
    rows: list[TokenRows] | None
    row_groups: list[str]

    @property
    def n_tokens(self) -> int:
        """Tokens seen."""
        return int(self.scores.table[:, 0].sum())

    def move(self, moved: NDArray[np.int64] | None) -> None:
        """Follow units that were bundled."""
        self.scores.move(moved)
        for own in self.curves.values():
            own.units.move(moved)

    def merge(self, other: State) -> None:
        """Add another state of the same settings."""
        moved, theirs = self.groups.merge(other.groups)
        self.move(moved)
        self.scores.add(theirs[: len(other.scores.table)], other.scores.table)
        for name, own in self.curves.items():
            own.merge(other.curves[name], theirs)
        if self.predicted is not None and other.predicted is not None:
            self.predicted.merge(other.predicted)
        if self.classes is not None and other.classes is not None:
            self.classes.merge(other.classes)
        if self.rows is not None and other.rows is not None:
            self.rows.extend(other.rows)
            self.row_groups.extend(other.row_groups)


def summarise(state: State, seed: int, method: str = DEFAULT_METHOD) -> CalibrationResult:
    """Every metric of a state that holds tokens."""
    rows = join_rows(state.rows) if state.rows else None
    curves = {name: own.curve() for name, own in state.curves.items()}
    if rows is not None:
        curves = _exact(curves, rows)
    consistency = {name: _consistency(name, own, seed) for name, own in state.curves.items()}
    means = _scores(state, seed, method)
    means |= _agreements(state, seed, method)
    errors = _errors(state, curves, consistency, seed, method)
    found = {**errors, **means, **_classwise(state)}
    return CalibrationResult(
        n_tokens=state.n_tokens,
        n_groups=state.groups.n_groups,
        estimates=found,
        curves=curves,
        consistency=consistency,
        rows=rows,
        row_groups=tuple(state.row_groups),
    )


def _exact(curves: dict[str, Curve], rows: TokenRows) -> dict[str, Curve]:
    pairs = [(rows.confidence, rows.correct)]
    pairs += [(own.confidence, own.accuracy) for own in rows.expected.values()]
    named = zip(curves.items(), pairs, strict=True)
    return {name: replace(curve, cells=exact_cells(*pair)) for (name, curve), pair in named}


def _consistency(name: str, sums: CurveSums, seed: int) -> Consistency:
    """The plain curve has hits, which are 0 or 1; a scheme has expected accuracies."""
    curve = sums.curve()  # its own cells: exact ones are not aligned with the bins
    test = of_hits if name == "ece" else of_expectations
    return test(curve.cells, len(curve.bins), seed)


def _errors(
    state: State,
    curves: Mapping[str, Curve],
    consistency: Mapping[str, Consistency],
    seed: int,
    method: str,
) -> dict[str, Estimate]:
    """All errors of the plain curve, and the ECE of every scheme's.

    Without an interval where calibration is not rejected: the p-value stands in its place.
    """
    values = {**curves["ece"].errors(), **{n: float(ece_of(c.bins)) for n, c in curves.items()}}
    found = {name: _estimate(state, value, _NO_INTERVAL) for name, value in values.items()}
    found["mce"] = _estimate(state, values["mce"], _LARGEST)
    for name in (*curves, "ece_debiased"):
        curve = name if name in curves else "ece"
        test = consistency[curve]
        interval = Resampled(None, f"consistent with calibration (p = {test.p:.2g})")
        if test.rejected:
            interval = _error_interval(state, state.curves[curve], name, seed, method)
        own = _estimate(state, values[name], interval)
        found[name] = replace(own, p_calibrated=test.p)
    return found


def _error_interval(state: State, sums: CurveSums, name: str, seed: int, method: str) -> Resampled:
    if name == "ece_debiased":
        return _interval(state, sums.units.table, sums.by_unit(ece_debiased_of), seed, method)
    if method not in ("auto", "t"):
        return _interval(state, sums.units.table, sums.by_unit(ece_of), seed, method)
    bins = sums.binned_units()[state.scores.table[:, 0] > 0]
    gaps = bins[..., ACCURACY] - bins[..., CONFIDENCE]
    return _pooled(state, error_interval(gaps, bins[..., COUNT].sum(axis=1)))


def _scores(state: State, seed: int, method: str) -> dict[str, Estimate]:
    """Means over tokens; the log score is undefined where a reference has no probability."""
    table = state.scores.table
    found = {}
    for name, column in SCORES.items():
        value = float(table[:, column].sum() / state.n_tokens)
        own = table[:, [column, 0]]
        interval = _interval(state, own, lambda s: divide(s[:, 0], s[:, 1]), seed, method)
        found[name] = _estimate(state, value, interval)
    excluded = int(table[:, _EXCLUDED].sum())
    if excluded:
        reason = f"{excluded} references have no probability"
        found["nll"] = Estimate(None, None, 0, 0, n_undefined=excluded, reason=reason)
    return found


def agreement_sums(state: State) -> dict[str, Floats]:
    """Each agreement's sum and the number of tokens, by unit; none without the scheme of e-ECE."""
    if "e_ece" not in state.curves:
        return {}
    table = state.curves["e_ece"].units.table
    totals = table.reshape(len(table), -1, N_COLUMNS).sum(axis=1)
    return {name: totals[:, [column, COUNT]] for name, column in AGREEMENTS.items()}


def _agreements(state: State, seed: int, method: str) -> dict[str, Estimate]:
    """Mean M = Σ P² and mean C = P(y), from the sums of e-ECE."""
    found = {}
    for name, own in agreement_sums(state).items():
        interval = _interval(state, own, lambda s: divide(s[:, 0], s[:, 1]), seed, method)
        found[name] = _estimate(state, float(own[:, 0].sum() / state.n_tokens), interval)
    return found


def _classwise(state: State) -> dict[str, Estimate]:
    found: dict[str, float] = {}
    for own in (state.predicted, state.classes):
        found |= own.errors() if own is not None else {}
    if state.classes is not None:
        found["vocabulary_unseen"] = state.classes.unseen_share()
    return {name: _estimate(state, value, _NO_INTERVAL) for name, value in found.items()}


def _interval(
    state: State, table: Floats, value: Callable[[Floats], Floats], seed: int, method: str
) -> Resampled:
    used = table[state.scores.table[:, 0] > 0]
    return _pooled(state, resample(used, value, seed, method=method))


def _pooled(state: State, found: Resampled) -> Resampled:
    """Say in the method of an interval that groups were pooled."""
    if found.interval is None or not state.groups.pooled:
        return found
    method = f"{found.interval.method}, groups pooled into {MAX_UNITS} units"
    return replace(found, interval=replace(found.interval, method=method))


def _estimate(state: State, value: float, found: Resampled) -> Estimate:
    if math.isnan(value):
        reason = "no bin holds enough tokens"
        return Estimate(None, None, 0, 0, n_undefined=state.n_tokens, reason=reason)
    return Estimate(
        value, found.interval, state.n_tokens, state.groups.n_groups, reason=found.reason
    )


Arrays = dict[str, NDArray[Any]]


def to_arrays(state: State) -> Arrays:
    """Everything that a state has summed up; per-token rows are not part of it."""
    found = {f"groups/{name}": own for name, own in state.groups.arrays().items()}
    found["scores"] = state.scores.table
    for name, own in state.curves.items():
        found |= {f"curve/{name}/cells": own.cells, f"curve/{name}/units": own.units.table}
    for name, part in (("predicted", state.predicted), ("classes", state.classes)):
        if part is not None:
            found |= {f"{name}/{key}": own for key, own in part.arrays().items()}
    return found


def from_arrays(state: State, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill a fresh state of the same settings with what `to_arrays` gave, or raise ValueError."""
    for name, fresh in to_arrays(state).items():
        is_table = name == "scores" or name.startswith("curve/")
        if is_table and not _is_alike(arrays.get(name), fresh):
            raise ValueError(f"the saved sums {name} have another form")
    state.groups.restore(_below(arrays, "groups"))
    state.scores.table = arrays["scores"]
    for name, curve in state.curves.items():
        curve.cells, curve.units.table = (
            arrays[f"curve/{name}/{part}"] for part in ("cells", "units")
        )
    for name, part in (("predicted", state.predicted), ("classes", state.classes)):
        if part is not None:
            part.restore(_below(arrays, name))


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as the bytes of an .npz file, not compressed: a run saves its sums often.

    >>> unpack(pack({"a/b": np.arange(2)}))["a/b"].tolist()
    [0, 1]
    """
    file = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    np.savez(file, **named)
    return file.getvalue()


def unpack(payload: bytes) -> Arrays:
    """The arrays that `pack` wrote; raises ValueError or a zip error for anything else."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise ValueError("saved sums are compressed")
    with np.load(io.BytesIO(payload), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _is_alike(found: NDArray[Any] | None, own: NDArray[Any]) -> bool:
    """Whether saved sums have the type and the columns of fresh ones, and are finite."""
    return (
        found is not None
        and found.dtype == own.dtype
        and found.shape[1:] == own.shape[1:]
        and bool(np.isfinite(found).all())
    )


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    start = f"{prefix}/"
    return {name[len(start) :]: own for name, own in arrays.items() if name.startswith(start)}


Value = Callable[[Floats], Floats]
"""(rows, k) sums -> (rows,) values; NaN where undefined."""
_OF_THE_PLAIN_CURVE: Mapping[str, Value] = {"ece_debiased": ece_debiased_of, "mce": mce_of}


@dataclass(frozen=True, eq=False)
class Summed:
    """A metric's sums, (groups, k), and its value of any of them added up."""

    table: Floats
    value: Value


@dataclass(frozen=True, eq=False)
class GroupedSums:
    """Groups by name, their numbers of tokens, and the sums of every metric that has some."""

    names: tuple[str, ...]
    tokens: Floats
    metrics: Mapping[str, Summed]


def grouped(state: State) -> GroupedSums:
    """The sums of every metric that is a function of sums over groups."""
    curves = {
        name: Summed(own.units.table, own.by_unit(ece_of)) for name, own in state.curves.items()
    }
    plain = state.curves["ece"]
    others = {
        name: Summed(plain.units.table, plain.by_unit(error))
        for name, error in _OF_THE_PLAIN_CURVE.items()
    }
    return GroupedSums(
        state.groups.names, state.scores.table[:, 0], {**curves, **others, **_means(state)}
    )


def _means(state: State) -> dict[str, Summed]:
    """Means over tokens: a sum and the number of tokens."""
    table = state.scores.table
    sums = {name: table[:, [column, 0]] for name, column in SCORES.items()} | agreement_sums(state)
    return {
        name: Summed(own, lambda rows: divide(rows[..., 0], rows[..., 1]))
        for name, own in sums.items()
    }
