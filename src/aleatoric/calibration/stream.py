"""Calibration of a stream of tokens of any length, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.results import (
    Arrays,
    CalibrationResult,
    GroupedSums,
    State,
    from_arrays,
    grouped,
    summarise,
    to_arrays,
)
from aleatoric.calibration.schemes import (
    EXPECTED,
    Columns,
    GroupDraws,
    Scheme,
    check_chunk,
    check_columns,
    check_groups,
    host,
)
from aleatoric.calibration.statistics import (
    Engine,
    TokenRows,
    Units,
    as_rows,
    check_units,
    join_rows,
    run,
)
from aleatoric.calibration.sums import AllClasses, CurveSums, PredictedClasses, UnitSums
from aleatoric.calibration.sums import Units as ResamplingUnits
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD

Classwise = Literal["none", "predicted", "all"]


class CalibrationStream:
    """Takes logits or log-probabilities in chunks; holds bin sums by group and scheme.

    `units` says what the values are. `classwise` adds SCE and ACE: at predicted classes (cheap), or
    at `all` classes too, Nixon's formula (reads the chunk a second time). Per-token rows are kept
    where `keep_rows` asks for them, and then the errors that choose their own bins are exact.

    >>> stream = CalibrationStream(vocabulary_size=3, units="logprobs", schemes=["ancestral"])
    >>> stream.update(np.log([[0.5, 0.25, 0.25]]), np.array([0]), group="document 1")
    >>> stream.update(np.log([[0.5, 0.25, 0.25]]), np.array([2]), group="document 2")
    >>> found = stream.result().estimates
    >>> round(found["ece"].value, 6), round(found["e_ece"].value, 6)
    (0.0, 0.0)
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        units: Units,
        schemes: Sequence[Scheme | str] = EXPECTED,
        bins: int = 15,
        classwise: Classwise = "predicted",
        keep_rows: bool = False,
        seed: int = 0,
        engine: Engine = "auto",
    ) -> None:
        _check_settings(vocabulary_size, bins, classwise)
        check_units(units)
        self._schemes = tuple(Scheme.parse(s) if isinstance(s, str) else s for s in schemes)
        self._settings = (vocabulary_size, units, self._schemes, bins, classwise, keep_rows, seed)
        self._width, self._units, self._engine, self._seed = vocabulary_size, units, engine, seed
        names = ["ece", *(scheme.metric for scheme in self._schemes)]
        self._draws = [
            GroupDraws(seed, str(s), s.samples) if s.samples else None for s in self._schemes
        ]
        self._state = State(
            groups=ResamplingUnits(),
            scores=UnitSums(6),
            curves={name: CurveSums(bins) for name in names},
            predicted=None if classwise == "none" else PredictedClasses(bins),
            classes=AllClasses(vocabulary_size, bins) if classwise == "all" else None,
            rows=[] if keep_rows else None,
            row_groups=[],
        )

    def update(self, values: Any, targets: Any, group: str | Sequence[str]) -> None:
        """Add a chunk: (tokens, vocabulary) values, a target a token, one group or one a token.

        A chunk that cannot be used is refused whole, and the stream stays as it was.
        """
        check_chunk(values, targets, self._width)
        groups = check_groups(group, len(values))
        if groups:
            columns = self._columns(values, targets, groups)
            self._add(columns, host(targets).astype(np.int64), groups)
            if self._state.classes is not None:
                self._state.classes.add(values, host(targets).astype(np.int64))

    def merge(self, other: CalibrationStream) -> None:
        """Add all that another stream of the same settings has seen.

        With sampled schemes, a group's tokens must all be in one of the two: its draws go on from
        where they stand in this stream.
        """
        if self._settings != other._settings:
            raise UsageError("streams with different settings cannot be merged.")
        self._state.merge(other._state)

    @property
    def n_tokens(self) -> int:
        """Tokens seen so far."""
        return self._state.n_tokens

    def save(self) -> Arrays:
        """All sums so far as plain arrays; per-token rows are not among them."""
        return to_arrays(self._state)

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `save` gave in a stream of the same settings.

        The draws of a sampled scheme start again: no group may come both before and after.

        >>> settings = {"vocabulary_size": 2, "units": "logprobs"}
        >>> before, after = CalibrationStream(**settings), CalibrationStream(**settings)
        >>> before.update(np.log([[0.5, 0.5]]), np.array([0]), group="1")
        >>> after.restore(before.save())
        >>> after.result().n_tokens
        1
        """
        from_arrays(self._state, saved)

    def take_rows(self) -> tuple[TokenRows, list[str]] | None:
        """The rows kept since they were last taken, with their groups; the stream forgets them."""
        if not self._state.rows:
            return None
        rows, groups = join_rows(self._state.rows), self._state.row_groups
        self._state.rows, self._state.row_groups = [], []
        return rows, groups

    def result(self, interval: str = DEFAULT_METHOD) -> CalibrationResult:
        """Every metric of what was seen so far; more may follow."""
        if not self._state.n_tokens:
            raise DataError("the stream holds no tokens: update it before asking for its result.")
        return summarise(self._state, self._seed, interval)

    def grouped(self) -> GroupedSums:
        """The sums by group of what was seen so far, to be paired with another stream's.

        >>> stream = CalibrationStream(vocabulary_size=2, units="logprobs")
        >>> stream.update(np.log([[0.5, 0.5]]), np.array([0]), group="document 1")
        >>> stream.grouped().names
        ('document 1',)
        """
        return grouped(self._state)

    def _columns(self, values: Any, targets: Any, groups: list[str]) -> Columns:
        uniforms = [None if own is None else own.numbers(groups) for own in self._draws]
        try:
            columns = run(values, targets, self._schemes, uniforms, self._engine)
            check_columns(columns, self._units, values.dtype)
        except BaseException:
            for own in self._draws:
                if own is not None:
                    own.undo()
            raise
        return columns

    def _add(self, columns: Columns, targets: NDArray[np.int64], groups: list[str]) -> None:
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
            state.rows.append(self._rows(columns, targets))
            state.row_groups.extend(groups)

    def _rows(self, columns: Columns, targets: NDArray[np.int64]) -> TokenRows:
        return as_rows(columns, targets, self._schemes)


def _scores(columns: Columns) -> NDArray[np.float64]:
    """What the plain means need: tokens, log score, excluded references, Brier, entropy, hits."""
    excluded = np.isinf(columns.nll)
    nll = np.where(excluded, 0.0, columns.nll)
    ones = np.ones_like(nll)
    return np.stack(
        [ones, nll, excluded, columns.brier, columns.entropy, columns.correct], axis=-1
    ).astype(np.float64)


def _check_settings(vocabulary_size: int, bins: int, classwise: str) -> None:
    if vocabulary_size < 1 or bins < 1:
        raise UsageError("vocabulary_size and bins must be whole numbers from 1 up.")
    if classwise not in ("none", "predicted", "all"):
        raise UsageError(f"classwise {classwise!r} is unknown; use none, predicted or all.")
