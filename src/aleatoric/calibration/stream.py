"""Calibration of a stream of tokens of any length, in constant memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.kernels import naive
from aleatoric.calibration.results import (
    Arrays,
    CalibrationResult,
    GroupedSums,
    StreamState,
    estimate_all,
    from_arrays,
    grouped,
    to_arrays,
)
from aleatoric.calibration.schemes import EXPECTED, GroupDraws, Scheme
from aleatoric.calibration.statistics import TokenColumns, TokenRows, as_rows, join_rows
from aleatoric.calibration.sums import AllClasses, CurveSums, PredictedClasses
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.types import Floats, Ints

ValueUnits = Literal["logits", "logprobs"]
Engine = Literal["auto", "naive", "torch", "numba", "triton"]
Classwise = Literal["none", "predicted", "all"]
TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2}
"""How far Σ P may be from 1 in rows of log-probabilities; 1e-3 in other precisions."""


class CalibrationStream:
    """Takes logits or log-probabilities in chunks; keeps bin sums by group and scheme.

    `units` declares what the values are. `classwise` adds SCE and ACE: for predicted classes
    (cheap), or also for `all` classes with Nixon's formula (reads the chunk a second time).
    `keep_rows` keeps per-token rows; errors with data-dependent bins are then exact.

    >>> stream = CalibrationStream(vocabulary_size=3, units="logprobs", schemes=["ancestral"])
    >>> stream.update(np.log([[0.5, 0.25, 0.25]]), np.array([0]), group="document 1")
    >>> stream.update(np.log([[0.5, 0.25, 0.25]]), np.array([2]), group="document 2")
    >>> estimates = stream.result().estimates
    >>> round(estimates["ece"].value, 6), round(estimates["e_ece"].value, 6)
    (0.0, 0.0)
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        units: ValueUnits,
        schemes: Sequence[Scheme | str] = EXPECTED,
        bins: int = 15,
        classwise: Classwise = "predicted",
        keep_rows: bool = False,
        seed: int = 0,
        engine: Engine = "auto",
    ) -> None:
        if vocabulary_size < 1 or bins < 1:
            raise UsageError("vocabulary_size and bins must be whole numbers from 1 up.")
        if classwise not in ("none", "predicted", "all"):
            raise UsageError(f"classwise {classwise!r} is unknown; use none, predicted or all.")
        check_units(units)
        parsed = tuple(Scheme.parse(s) if isinstance(s, str) else s for s in schemes)
        self._schemes = parsed
        self._settings = (vocabulary_size, units, parsed, bins, classwise, keep_rows, seed)
        self._width, self._units, self._engine, self._seed = vocabulary_size, units, engine, seed
        self._draws = [GroupDraws(seed, str(s), s.samples) if s.samples else None for s in parsed]
        self._state = StreamState(
            {name: CurveSums(bins) for name in ("ece", *(s.metric for s in parsed))},
            None if classwise == "none" else PredictedClasses(bins),
            AllClasses(vocabulary_size, bins) if classwise == "all" else None,
            [] if keep_rows else None,
        )

    def update(self, values: Any, targets: Any, group: str | Sequence[str]) -> None:
        """Add a chunk: (tokens, vocabulary) values, one target per token, one or all groups.

        A chunk that cannot be used is refused as a whole, and the stream stays unchanged.
        """
        check_chunk(values, targets, self._width)
        groups = check_groups(group, len(values))
        if groups:
            columns = self._columns(values, targets, groups)
            self._add(columns, host(targets).astype(np.int64), groups)
            if self._state.classes is not None:
                self._state.classes.add(values, host(targets).astype(np.int64))

    def merge(self, other: CalibrationStream) -> None:
        """Add everything that another stream with the same settings has seen.

        With sampled schemes, all tokens of a group must be in one of the two streams: its draws
        continue from their position in this stream.
        """
        if self._settings != other._settings:
            raise UsageError("streams with different settings cannot be merged.")
        self._state.merge(other._state)

    @property
    def n_tokens(self) -> int:
        """Tokens seen so far."""
        return self._state.n_tokens

    def save(self) -> Arrays:
        """All sums so far as plain arrays, without per-token rows."""
        return to_arrays(self._state)

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `save` returned in a stream with the same settings.

        The draws of a sampled scheme start again: no group may occur both before and after.
        """
        from_arrays(self._state, saved)

    def take_rows(self) -> tuple[TokenRows, list[str]] | None:
        """Return and drop the rows kept since the last call, with their groups."""
        if not self._state.rows:
            return None
        rows, groups = join_rows(self._state.rows), self._state.row_groups
        self._state.rows, self._state.row_groups = [], []
        return rows, groups

    def result(self, interval: str = DEFAULT_METHOD) -> CalibrationResult:
        """Every metric of the tokens seen so far; further updates may follow."""
        if not self._state.n_tokens:
            raise DataError("the stream holds no tokens: update it before asking for its result.")
        return estimate_all(self._state, self._seed, interval)

    def grouped(self) -> GroupedSums:
        """The sums by group so far, to be paired with another stream's."""
        return grouped(self._state)

    def _columns(self, values: Any, targets: Any, groups: list[str]) -> TokenColumns:
        uniforms = [None if draws is None else draws.numbers(groups) for draws in self._draws]
        try:
            columns = run(values, targets, self._schemes, uniforms, self._engine)
            check_columns(columns, self._units, values.dtype)
        except BaseException:
            for draws in self._draws:
                if draws is not None:
                    draws.undo()
            raise
        return columns

    def _add(self, columns: TokenColumns, targets: Ints, groups: list[str]) -> None:
        state = self._state
        state.move(state.groups.admit(list(dict.fromkeys(groups))))
        units = state.groups.index(groups)
        state.scores.add(units, _scores(columns))
        pairs = [(columns.confidence, columns.correct), *columns.expected]
        for sums, (confidence, accuracy) in zip(state.curves.values(), pairs, strict=True):
            sums.add(units, confidence, accuracy)
        if state.predicted is not None:
            state.predicted.add(columns.predicted, columns.confidence, columns.correct)
        if state.rows is not None:
            state.rows.append(as_rows(columns, targets, list(map(str, self._schemes))))
            state.row_groups.extend(groups)


def run(
    values: Any,
    targets: Any,
    schemes: Sequence[Scheme],
    uniforms: Sequence[Floats | None],
    engine: Engine = "auto",
) -> TokenColumns:
    """The columns of a checked chunk, from the given engine or the fastest available one."""
    engine = _fastest(values) if engine == "auto" else engine
    if engine == "naive":
        numbers = host(values.double() if hasattr(values, "double") else values)
        return naive.columns(numbers, host(targets).astype(np.int64), schemes, uniforms)
    import torch

    from aleatoric.calibration.kernels import numba_pass, torch_pass, triton_pass

    kernels = {"triton": triton_pass, "numba": numba_pass, "torch": torch_pass}
    logits = torch.as_tensor(values)
    target_ids = torch.as_tensor(targets, device=logits.device).long()
    columns: TokenColumns = kernels[engine].columns(logits, target_ids, schemes, uniforms)
    return columns


def _fastest(values: Any) -> Engine:
    device = getattr(getattr(values, "device", None), "type", "cpu")
    if device == "cuda" and values.dtype.itemsize <= 4 and find_spec("triton"):
        return "triton"
    if not find_spec("torch"):
        return "naive"
    single = device == "cpu" and values.dtype.itemsize <= 4
    return "numba" if single and find_spec("numba") else "torch"


def _scores(columns: TokenColumns) -> Floats:
    """The columns of `UnitSums`: tokens, log score, excluded references, Brier, entropy, hits."""
    excluded = np.isinf(columns.nll)
    nll = np.where(excluded, 0.0, columns.nll)
    scores = (np.ones_like(nll), nll, excluded, columns.brier, columns.entropy, columns.correct)
    return np.stack(scores, axis=-1).astype(np.float64)


def host(numbers: Any) -> NDArray[Any]:
    """A numpy array of numbers on any device."""
    return np.asarray(numbers.cpu() if hasattr(numbers, "cpu") else numbers)


def check_units(units: str) -> None:
    """Refuse unknown units: they are declared, never guessed."""
    if units not in ("logits", "logprobs"):
        raise UsageError(f"units {units!r} are unknown; declare 'logits' or 'logprobs'.")


def check_chunk(values: Any, targets: Any, vocabulary_size: int) -> None:
    """Check types, shapes and targets: everything except the values themselves."""
    for name, array in (("values", values), ("targets", targets)):
        if not all(hasattr(array, part) for part in ("dtype", "shape", "ndim")):
            kind = type(array).__name__
            raise DataError(f"{name} must be a torch tensor or a numpy array, not {kind}.")
    if "float" not in str(values.dtype):
        raise DataError(f"values have type {values.dtype}; give floating-point numbers.")
    if "int" not in str(targets.dtype):
        raise DataError(f"targets have type {targets.dtype}; give whole numbers: token ids.")
    if values.ndim != 2 or values.shape[1] != vocabulary_size:
        raise DataError(
            f"values have shape {tuple(values.shape)}; give (tokens, {vocabulary_size}), one row "
            "per token."
        )
    if tuple(targets.shape) != (len(values),):
        raise DataError(
            f"targets have shape {tuple(targets.shape)}; give one target for each of the "
            f"{len(values)} rows of values."
        )
    numbers = host(targets)
    bad = np.flatnonzero((numbers < 0) | (numbers >= vocabulary_size))
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has target {numbers[bad[0]]}; targets go from 0 to "
            f"{vocabulary_size - 1}."
        )


def check_groups(group: str | Sequence[str], n_tokens: int) -> list[str]:
    """The group of each token."""
    if isinstance(group, str):
        return [group] * n_tokens
    groups = list(group)
    if len(groups) != n_tokens:
        raise DataError(f"{len(groups)} groups for {n_tokens} tokens; give one group, or one each.")
    if not all(isinstance(name, str) for name in groups):
        raise DataError("groups must be text: the name of the token's document or sentence.")
    return groups


def check_columns(columns: TokenColumns, units: str, dtype: Any) -> None:
    """Refuse rows that hold no distribution, or log-probabilities that do not add up to 1."""
    bad = np.flatnonzero(~np.isfinite(columns.log_normalizer) | ~np.isfinite(columns.confidence))
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has {units} with NaN or +inf, or none above -inf; "
            "give finite numbers, with -inf only for excluded tokens."
        )
    if units != "logprobs":
        return
    total = np.exp(np.minimum(columns.log_normalizer, 700.0))
    allowed = TOLERANCE.get(str(dtype).removeprefix("torch."), 1e-3)
    bad = np.flatnonzero(np.abs(total - 1) > allowed)
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has log-probabilities that add up to "
            f"{total[bad[0]]:.4g}, not 1; give natural logarithms, or declare units='logits'."
        )
