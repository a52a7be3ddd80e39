"""Calibration of a stream of tokens of any length, in constant memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.kernels import naive
from aleatoric.calibration.results import CalibrationResult, GroupedSums, estimate_all, grouped
from aleatoric.calibration.statistics import (
    EXPECTED,
    Asked,
    GroupDraws,
    Scheme,
    TokenRows,
    join_rows,
)
from aleatoric.calibration.sums import N_SCORES, AllClasses, PredictedClasses, StreamState
from aleatoric.errors import DataError, UsageError, quoted
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.types import Floats

ValueUnits = Literal["logits", "logprobs"]
Engine = Literal["auto", "naive", "torch", "numba", "triton"]
Classwise = Literal["none", "predicted", "all"]
Arrays = dict[str, NDArray[Any]]
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
        check_engine(engine)
        parsed = tuple(Scheme.parse(s) if isinstance(s, str) else s for s in schemes)
        self.schemes = parsed
        self._settings = (vocabulary_size, units, parsed, bins, classwise, keep_rows, seed)
        self._width, self._units, self._engine, self._seed = vocabulary_size, units, engine, seed
        self._draws = [GroupDraws(seed, str(s), s.samples) if s.samples else None for s in parsed]
        self._state = StreamState(["ece", *(s.metric for s in parsed)], bins, keep_rows)
        if classwise != "none":
            self._state.predicted = PredictedClasses(bins)
        if classwise == "all":
            self._state.classes = AllClasses(vocabulary_size, bins)

    def update(self, values: Any, targets: Any, group: str | int | Sequence[str | int]) -> None:
        """Add a chunk: (tokens, vocabulary) values, one target per token, one or all groups.

        A group is named by a text or a number.

        A chunk that cannot be used is refused as a whole, and the stream stays unchanged.
        """
        check_chunk(values, targets, self._width)
        groups = check_groups(group, len(values))
        values = values.detach() if hasattr(values, "detach") else values
        if groups:
            columns = self._columns(values, targets, groups)
            self.add_rows(columns, groups)
            if self._state.classes is not None:
                self._state.classes.add(values, columns.target)

    def add_rows(self, rows: TokenRows, groups: Sequence[str]) -> None:
        """Add tokens whose statistics are known; what is unknown, Brier score or entropy, is NaN.

        The rows have the schemes of the stream, and class-wise sums over all classes are not kept.
        """
        state = self._state
        units = state.units.index(groups)
        np.add.at(state.units.table[:, :N_SCORES], units, _scores(rows))
        pairs = [(rows.confidence, rows.correct), *rows.expected.values()]
        for sums, (confidence, accuracy) in zip(state.curves.values(), pairs, strict=True):
            # A confidence may be unknown; the errors of its curve are not shown.
            sums.add(units, np.nan_to_num(confidence), accuracy)
        if state.predicted is not None:
            state.predicted.add(rows.predicted, rows.confidence, rows.correct)
        if state.rows is not None:
            state.rows.append(rows)
            state.row_groups.extend(groups)

    def merge(self, other: CalibrationStream) -> None:
        """Add everything that another stream with the same settings has seen.

        With sampled schemes, all tokens of a group must be in one of the two streams: its draws
        continue from their position in this stream.
        """
        if self._settings != other._settings:
            raise UsageError("streams with different settings cannot be merged.")
        state, added = self._state, other._state
        state.units.merge(added.units)
        for name, curve in state.curves.items():
            curve.cells += added.curves[name].cells
        if state.predicted is not None and added.predicted is not None:
            state.predicted.merge(added.predicted)
        if state.classes is not None and added.classes is not None:
            state.classes.merge(added.classes)
        if state.rows is not None and added.rows is not None:
            state.rows.extend(added.rows)
            state.row_groups.extend(added.row_groups)

    @property
    def n_tokens(self) -> int:
        """Tokens seen so far."""
        return self._state.n_tokens

    def save(self) -> Arrays:
        """All sums so far as plain arrays, without per-token rows."""
        state = self._state
        arrays = {f"groups/{name}": values for name, values in state.units.arrays().items()}
        arrays["scores"] = state.scores
        for name, curve in state.curves.items():
            arrays[f"curve/{name}/cells"] = curve.cells.copy()  # later updates are in place
            arrays[f"curve/{name}/units"] = curve.by_group
        for name, part in (("predicted", state.predicted), ("classes", state.classes)):
            if part is not None:
                arrays |= {f"{name}/{key}": values for key, values in part.arrays().items()}
        return arrays

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `save` returned in a stream with the same settings.

        The draws of a sampled scheme start again: no group may occur both before and after.
        Other arrays raise ValueError.
        """
        state = self._state
        for name, fresh in self.save().items():
            is_table = name == "scores" or name.startswith("curve/")
            if is_table and not _is_alike(saved.get(name), fresh):
                raise ValueError(f"the saved sums {name} have another form")
        state.units.restore(_below(saved, "groups"))
        by_unit = [saved["scores"], *(saved[f"curve/{name}/units"] for name in state.curves)]
        state.units.table = np.concatenate(by_unit, axis=1)
        for name, curve in state.curves.items():
            curve.cells = saved[f"curve/{name}/cells"].copy()
        for name, part in (("predicted", state.predicted), ("classes", state.classes)):
            if part is not None:
                part.restore(_below(saved, name))

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

    def _columns(self, values: Any, targets: Any, groups: list[str]) -> TokenRows:
        numbers = [None if draws is None else draws.numbers(groups) for draws in self._draws]
        asked = list(zip(self.schemes, numbers, strict=True))
        try:
            columns = run(values, targets, asked, self._engine)
            check_columns(columns, self._units, values.dtype)
        except BaseException:
            for draws in self._draws:
                if draws is not None:
                    draws.undo()
            raise
        return columns


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


def _is_alike(saved: NDArray[Any] | None, fresh: NDArray[Any]) -> bool:
    """Whether saved sums have the type and the columns of new ones, and are finite."""
    if saved is None or (saved.dtype, saved.shape[1:]) != (fresh.dtype, fresh.shape[1:]):
        return False
    return bool(np.isfinite(saved).all())


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    start = f"{prefix}/"
    return {n.removeprefix(start): values for n, values in arrays.items() if n.startswith(start)}


def run(values: Any, targets: Any, asked: Asked, engine: Engine) -> TokenRows:
    """The columns of a checked chunk, from the given engine or the fastest available one."""
    engine = _fastest(values) if engine == "auto" else engine
    if engine == "naive":
        numbers = host(values.double() if hasattr(values, "double") else values)
        return naive.columns(numbers, host(targets).astype(np.int64), asked)
    import torch

    from aleatoric.calibration.kernels import torch_pass, triton_pass

    kernels = {"triton": triton_pass.columns, "torch": torch_pass.columns}
    kernels["numba"] = torch_pass.compiled_columns
    logits = torch.as_tensor(values)
    # A copy: kept rows must not change with the array of the caller.
    target_ids = torch.as_tensor(targets, device=logits.device).long().clone()
    return kernels[engine](logits, target_ids, asked)


def _fastest(values: Any) -> Engine:
    device = getattr(getattr(values, "device", None), "type", "cpu")
    if device == "cuda" and values.dtype.itemsize <= 4 and find_spec("triton"):
        return "triton"
    if not find_spec("torch"):
        return "naive"
    single = device == "cpu" and values.dtype.itemsize <= 4
    return "numba" if single and find_spec("numba") else "torch"


def _scores(columns: TokenRows) -> Floats:
    """The columns of `StreamState.scores`."""
    excluded = np.isinf(columns.nll)
    nll = np.where(excluded, 0.0, columns.nll)
    # Both may be unknown; such sums are not shown.
    brier, entropy = np.nan_to_num(columns.brier), np.nan_to_num(columns.entropy)
    scores = (np.ones_like(nll), nll, excluded, brier, entropy, columns.correct)
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


def check_engine(engine: str) -> None:
    """Refuse engines that are unknown or not installed."""
    if engine not in (known := get_args(Engine)):
        raise UsageError(f"engine {engine!r} is unknown; use {', '.join(known)}.")
    if engine not in ("auto", "naive") and not find_spec(engine):
        raise UsageError(f"engine {engine!r} needs the package {engine}; install it, or use auto.")


def check_groups(group: Any, n_tokens: int) -> list[str]:
    """The name of each token's group."""
    if isinstance(group, str | int | np.integer) or not isinstance(group, Iterable):
        return [_group_name(group)] * n_tokens
    groups = list(map(_group_name, group))
    if len(groups) != n_tokens:
        raise DataError(f"{len(groups)} groups for {n_tokens} tokens; give one group, or one each.")
    return groups


def _group_name(group: Any) -> str:
    if not isinstance(group, str | int | np.integer) or "\0" in (name := str(group)):
        fix = "name the token's document or sentence by a text without NUL, or by a number"
        raise DataError(f"group {quoted(group)} is no name; {fix}.")
    return name


def check_columns(columns: TokenRows, units: str, dtype: Any) -> None:
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
