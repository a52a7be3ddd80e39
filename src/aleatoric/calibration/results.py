"""From the sums of a stream to estimates with intervals, and saving those sums."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.consistency import (
    Consistency,
    binned_error_interval,
    consistency_of_expectations,
    consistency_of_hits,
)
from aleatoric.calibration.statistics import TokenRows, join_rows
from aleatoric.calibration.sums import (
    MAX_UNITS,
    AllClasses,
    Curve,
    CurveSums,
    FoldingUnits,
    PredictedClasses,
    UnitSums,
)
from aleatoric.inference.bootstrap import DEFAULT_METHOD, Resampled, Value, resample
from aleatoric.metrics.calibration import (
    ACCURACY,
    CONFIDENCE,
    COUNT,
    ece_debiased_of,
    ece_of,
    exact_cells,
    mce_of,
)
from aleatoric.metrics.reduction import divide
from aleatoric.types import Estimate, Floats

SCORES = {"nll": 1, "brier": 3, "entropy": 4, "accuracy": 5}
"""Means over tokens -> the column of their sums."""
AGREEMENTS = {"agreement_M": CONFIDENCE, "agreement_C": ACCURACY}
"""Agreements -> the column of e-ECE's bin sums: with P̃ = P, p̃ = Σ P² and ã = P(y)."""
_EXCLUDED = 2
_NO_INTERVAL = Resampled(None, "this error is not a sum over groups: it has no interval")
_LARGEST = Resampled(None, "the largest gap of several bins: it has no reliable interval")
_OF_THE_PLAIN_CURVE: Mapping[str, Value] = {"ece_debiased": ece_debiased_of, "mce": mce_of}
Arrays = dict[str, NDArray[Any]]


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


@dataclass
class StreamState:
    """The complete state of a stream."""

    curves: dict[str, CurveSums]
    predicted: PredictedClasses | None
    classes: AllClasses | None
    rows: list[TokenRows] | None
    row_groups: list[str] = field(default_factory=list)
    groups: FoldingUnits = field(default_factory=FoldingUnits)
    scores: UnitSums = field(default_factory=lambda: UnitSums(6))

    @property
    def n_tokens(self) -> int:
        """Tokens seen."""
        return int(self.scores.table[:, 0].sum())

    def move(self, moved: NDArray[np.int64] | None) -> None:
        """Move the sums of units that were bundled."""
        self.scores.move(moved)
        for curve in self.curves.values():
            curve.units.move(moved)

    def merge(self, other: StreamState) -> None:
        """Add another state with the same settings."""
        moved, other_units = self.groups.merge(other.groups)
        self.move(moved)
        self.scores.add(other_units[: len(other.scores.table)], other.scores.table)
        for name, curve in self.curves.items():
            curve.merge(other.curves[name], other_units)
        if self.predicted is not None and other.predicted is not None:
            self.predicted.merge(other.predicted)
        if self.classes is not None and other.classes is not None:
            self.classes.merge(other.classes)
        if self.rows is not None and other.rows is not None:
            self.rows.extend(other.rows)
            self.row_groups.extend(other.row_groups)


@dataclass(frozen=True, eq=False)
class Summed:
    """A metric's (groups, k) sums, and the function from sums to its value."""

    table: Floats
    value: Value


@dataclass(frozen=True, eq=False)
class GroupedSums:
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
        named = zip(curves.items(), pairs, strict=True)
        curves = {name: replace(curve, cells=exact_cells(*pair)) for (name, curve), pair in named}
    consistency = {}
    for name, sums in state.curves.items():
        # The plain curve has hits, which are 0 or 1; a scheme has expected accuracies.
        test = consistency_of_hits if name == "ece" else consistency_of_expectations
        curve = sums.curve()  # exact cells are not aligned with the bins
        consistency[name] = test(curve.cells, len(curve.bins), seed)
    errors = _errors(state, curves, consistency, seed, method)
    estimates = {**errors, **_mean_estimates(state, seed, method), **_classwise(state)}
    sizes, row_groups = (state.n_tokens, state.groups.n_groups), tuple(state.row_groups)
    return CalibrationResult(*sizes, estimates, curves, consistency, rows, row_groups)


def grouped(state: StreamState) -> GroupedSums:
    """The sums of every metric that is a function of sums over groups."""
    curves: list[tuple[str, CurveSums, Value]] = [(n, c, ece_of) for n, c in state.curves.items()]
    curves += [(name, state.curves["ece"], error) for name, error in _OF_THE_PLAIN_CURVE.items()]
    errors = {name: Summed(sums.units.table, sums.by_unit(error)) for name, sums, error in curves}
    return GroupedSums(state.groups.names, state.scores.table[:, 0], errors | _means(state))


def to_arrays(state: StreamState) -> Arrays:
    """Everything that a state has summed up, without per-token rows."""
    arrays = {f"groups/{name}": values for name, values in state.groups.arrays().items()}
    arrays["scores"] = state.scores.table
    for name, curve in state.curves.items():
        arrays |= {f"curve/{name}/cells": curve.cells, f"curve/{name}/units": curve.units.table}
    for name, part in (("predicted", state.predicted), ("classes", state.classes)):
        if part is not None:
            arrays |= {f"{name}/{key}": values for key, values in part.arrays().items()}
    return arrays


def from_arrays(state: StreamState, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill a new state with the output of `to_arrays`, or raise ValueError."""
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
    """Arrays as the bytes of an uncompressed .npz file: a run saves its sums often."""
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
        return _interval(state, sums.units.table, error, seed, method)
    bins = sums.binned_units()[state.scores.table[:, 0] > 0]
    gaps = bins[..., ACCURACY] - bins[..., CONFIDENCE]
    interval = binned_error_interval(gaps, bins[..., COUNT].sum(axis=1))
    return interval.pooled_into(MAX_UNITS) if state.groups.pooled else interval


def _mean_estimates(state: StreamState, seed: int, method: str) -> dict[str, Estimate]:
    """Means over tokens; the log score is undefined if a reference has no probability."""
    estimates = {}
    for name, sums in _means(state).items():
        value = float(sums.table[:, 0].sum() / state.n_tokens)
        interval = _interval(state, sums.table, sums.value, seed, method)
        estimates[name] = _estimate(state, value, interval)
    if excluded := int(state.scores.table[:, _EXCLUDED].sum()):
        reason = f"{excluded} references have no probability"
        estimates["nll"] = Estimate(None, None, 0, 0, n_undefined=excluded, reason=reason)
    return estimates


def _classwise(state: StreamState) -> dict[str, Estimate]:
    errors: dict[str, float] = {}
    for sums in (state.predicted, state.classes):
        errors |= sums.errors() if sums is not None else {}
    return {name: _estimate(state, value, _NO_INTERVAL) for name, value in errors.items()}


def _interval(
    state: StreamState, table: Floats, value: Callable[[Floats], Floats], seed: int, method: str
) -> Resampled:
    interval = resample(table[state.scores.table[:, 0] > 0], value, seed, method=method)
    return interval.pooled_into(MAX_UNITS) if state.groups.pooled else interval


def _estimate(state: StreamState, value: float, resampled: Resampled) -> Estimate:
    if math.isnan(value):
        reason = "no bin holds enough tokens"
        return Estimate(None, None, 0, 0, n_undefined=state.n_tokens, reason=reason)
    counts = state.n_tokens, state.groups.n_groups
    return Estimate(value, resampled.interval, *counts, reason=resampled.reason)


def _means(state: StreamState) -> dict[str, Summed]:
    """Means over tokens: a sum and the number of tokens."""
    table = state.scores.table
    sums = {name: table[:, [column, 0]] for name, column in SCORES.items()}
    if "e_ece" in state.curves:
        totals = state.curves["e_ece"].binned_units().sum(axis=1)
        sums |= {name: totals[:, [column, COUNT]] for name, column in AGREEMENTS.items()}
    return {
        name: Summed(table, lambda rows: divide(rows[..., 0], rows[..., 1]))
        for name, table in sums.items()
    }


def _is_alike(saved: NDArray[Any] | None, fresh: NDArray[Any]) -> bool:
    """Whether saved sums have the type and the columns of new ones, and are finite."""
    if saved is None or (saved.dtype, saved.shape[1:]) != (fresh.dtype, fresh.shape[1:]):
        return False
    return bool(np.isfinite(saved).all())


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    start = f"{prefix}/"
    return {name[len(start) :]: values for name, values in arrays.items() if name.startswith(start)}
