"""From the sums of a stream to estimates with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.bootstrap import DEFAULT_METHOD, Resampled, resample
from aleatoric.metrics.bins import (
    ACCURACY,
    CONFIDENCE,
    COUNT,
    N_COLUMNS,
    ece_debiased_of,
    ece_of,
)
from aleatoric.metrics.cells import exact_cells
from aleatoric.metrics.reduction import divide
from aleatoric.tokens.classes import AllClasses, PredictedClasses
from aleatoric.tokens.consistency import Consistency, error_interval, of_expectations, of_hits
from aleatoric.tokens.curves import Curve, CurveSums
from aleatoric.tokens.statistics import TokenRows, join_rows
from aleatoric.tokens.units import MAX_UNITS, Units, UnitSums
from aleatoric.types import Estimate, Floats

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
