"""Recorded log-probabilities of reference tokens: JSON lines or Parquet, one row per token.

A row has `id` (its document or sentence), `position`, `target` (the reference token) and
`logprobs`: natural log-probabilities of the whole vocabulary; or, with `ids`, of those tokens, the
most likely ones. If the target is not among `ids`, `target_logprob` is its log-probability;
elsewhere it may be left out, and must not contradict `logprobs`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aleatoric.data import files
from aleatoric.data.files import Place, Rows
from aleatoric.errors import DataError, counted, quoted
from aleatoric.models.base import Forcing, Reads, Strip
from aleatoric.models.recorded import PLACEHOLDER
from aleatoric.types import Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-3
"""How far probabilities may be from a sum of 1."""
_ROUNDING = 1e-6
_LONGEST = 512
"""Tokens of a strip: a document's vectors are read in parts."""


class TopRow(NamedTuple):
    """The most likely tokens at one position, with their log-probabilities and the target's."""

    ids: Ints
    logprobs: Floats
    target_logprob: float


@dataclass(frozen=True, eq=False)
class RecordedForced:
    """The rows of one file; `tops` is empty if they hold the whole vocabulary."""

    path: Path
    version: str
    vocabulary_size: int
    rows_of: Mapping[str, list[int]] = field(repr=False)
    """Document -> its rows, in the order of positions."""
    positions: list[int] = field(repr=False)
    targets: list[int] = field(repr=False)
    vectors: Any = field(repr=False)
    tops: Sequence[TopRow] = field(default=(), repr=False)
    reads: Reads = "rows"

    @property
    def label(self) -> str:
        """The file's name without its endings."""
        return files.stem(self.path)

    @property
    def conventions(self) -> Mapping[str, str]:
        """What the rows hold."""
        return {"rows": "most-likely" if self.tops else "whole-vocabulary"}

    def strips(self, items: Sequence[Any]) -> list[list[Strip]]:
        """Return the consecutive rows of each item; `given` are the numbers of rows."""
        return [list(self._strips(item.id)) for item in items]

    def _strips(self, group: str) -> Iterator[Strip]:
        if group not in self.rows_of:
            fix = "record its tokens, or drop it from the corpus"
            raise DataError.at(self.path, None, f"has no row with the id {quoted(group)}", fix)
        rows = self.rows_of[group]
        steps = enumerate(pairwise(self.positions[row] for row in rows), start=1)
        gaps = [place for place, (before, after) in steps if after != before + 1]
        for first, stop in pairwise([0, *gaps, len(rows)]):
            for start in range(first, stop, _LONGEST):
                part = tuple(rows[start : min(start + _LONGEST, stop)])
                wanted = tuple(self.targets[row] for row in part)
                scored = tuple(range(len(part)))
                yield Strip(group, part, wanted, scored, self.positions[part[0]])

    def unused_notes(self, documents: Collection[str]) -> Iterator[str]:
        """Yield notes on rows of other documents, and on positions that have no row."""
        others = [rows for group, rows in self.rows_of.items() if group not in documents]
        if others:
            count = counted(sum(map(len, others)), "row")
            yield f"{self.path.name}: ignored {count} of documents that this run does not read"
        read = [rows for group, rows in self.rows_of.items() if group in documents]
        spans = (self.positions[rows[-1]] - self.positions[rows[0]] + 1 for rows in read)
        if n_missing := sum(spans) - sum(map(len, read)):
            count = counted(n_missing, "position", "is", "are")
            yield f"{self.path.name}: {count} not scored, without a row between recorded ones"

    def logits(self, strips: Sequence[Strip]) -> Tensor:
        """Return the recorded log-probabilities of strips, padded at the end."""
        import torch

        width = max(len(strip.given) for strip in strips)
        values = torch.zeros((len(strips), width, self.vocabulary_size))
        for i, strip in enumerate(strips):
            values[i, : len(strip.given)] = torch.from_numpy(self.vectors[list(strip.given)])
        return values


class _Row(NamedTuple):
    """A checked row; `width` is the size of the vocabulary as far as it is known."""

    place: Place
    group: str
    position: int
    target: int
    width: int
    top: TopRow | None


def load(argument: str, forcing: Forcing | None = None) -> RecordedForced:
    """Read and check the rows of `recorded:FILE`; vectors are copied to a temporary file."""
    path = Path(argument)
    version = files.sha256_of(path)[:12]
    copied = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the model)
    rows: list[_Row] = []
    for place, fields in _rows(path):
        rows.append(_checked(fields, place, copied))
        _check_form(rows[-1], rows[0])
    if not rows:
        raise DataError.at(path, None, "holds no row", "record at least one token")
    width, vectors = max(row.width for row in rows), None
    tops = [row.top for row in rows if row.top is not None]
    if not tops:
        copied.flush()
        vectors = np.memmap(copied, dtype=np.float32, mode="r+", shape=(len(rows), width))
    positions, targets = [row.position for row in rows], [row.target for row in rows]
    return RecordedForced(path, version, width, _joined(rows), positions, targets, vectors, tops)


def _joined(rows: Sequence[_Row]) -> dict[str, list[int]]:
    """Return the numbers of each document's rows, in the order of positions."""
    rows_of: dict[str, dict[int, int]] = {}
    for number, row in enumerate(rows):
        if rows_of.setdefault(row.group, {}).setdefault(row.position, number) != number:
            problem = f"position {row.position} of {quoted(row.group)} occurs twice"
            raise DataError.at(*row.place, problem, "record every token once")
    return {group: [places[p] for p in sorted(places)] for group, places in rows_of.items()}


def _checked(row: Mapping[str, Any], place: Place, copied: IO[bytes]) -> _Row:
    """Check one row, and copy its vector if it holds the whole vocabulary."""
    group = files.key_of(files.required(row, "id", place), "id", place)
    position, target = (
        files.count_of(files.required(row, name, place), name, place, 0)
        for name in ("position", "target")
    )
    values = _numbers(files.required(row, "logprobs", place), place)
    if "ids" in row:
        top = _top_row(row, values, target, place)
        return _Row(place, group, position, target, 1 + max(target, int(top.ids.max())), top)
    if target >= len(values):
        problem = f"target {target} is not in a vocabulary of {len(values)}"
        raise DataError.at(*place, problem, "give the number of the reference token, from 0")
    _check_sum(values, 1 - TOLERANCE, place)
    _check_target(row, values[target], place)
    copied.write(values.astype(np.float32).tobytes())
    return _Row(place, group, position, target, len(values), None)


def _check_form(row: _Row, first: _Row) -> None:
    """Refuse a row that is not of the form of the first one."""
    if (row.top is None) != (first.top is None):
        problem, fix = "some rows have ids and others have not", "record all rows in one form"
        raise DataError.at(*row.place, problem, fix)
    if row.top is None and row.width != first.width:
        problem = f"logprobs has {row.width} numbers, and the first row has {first.width}"
        raise DataError.at(*row.place, problem, "give one number per token of the vocabulary")


def _rows(path: Path) -> Rows:
    """Yield the rows of a file; those of Parquet have numbers in place of lines."""
    with files.open_binary(path) as file:
        is_parquet = file.peek(4)[:4] == b"PAR1"
    if not is_parquet:
        yield from files.read_json_lines(path)
        return
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        for batch in ParquetFile(path).iter_batches(64):
            for row in batch.to_pylist():
                number += 1
                yield (path, number), {k: v for k, v in row.items() if v is not None}
    except (ArrowException, OSError) as error:
        problem = f"cannot be read as Parquet ({type(error).__name__})"
        raise DataError.at(path, None, problem, "write it again, or use JSON lines") from None


def _numbers(value: Any, place: Place) -> Floats:
    """Return checked log-probabilities: a list of numbers up to 0."""
    try:
        values = np.asarray(value if isinstance(value, list) else None)
    except ValueError:  # lists of several lengths
        values = np.asarray(None)
    if values.ndim != 1 or values.dtype.kind not in "fi" or not len(values):
        raise DataError.at(*place, "logprobs is no list of numbers", "write it as [-0.1, -2.5]")
    bad = np.flatnonzero(~(values <= _ROUNDING))
    if len(bad):
        problem = f"logprobs holds {values[bad[0]]:.6g}, which is no log-probability"
        raise DataError.at(*place, problem, "give natural logarithms of probabilities, at most 0")
    if ((values <= PLACEHOLDER) & np.isfinite(values)).any():
        low = values[np.isfinite(values)].min()
        problem = f"{low:.6g} is what servers write for a log-probability that they do not return"
        fix = "record the real one (in Parquet, -inf is probability 0), or leave this row out"
        raise DataError.at(*place, problem, fix)
    return np.minimum(values.astype(np.float64), 0.0)


def _check_sum(values: Floats, least: float, place: Place) -> None:
    total = float(np.exp(values).sum())
    if not least <= total <= 1 + TOLERANCE:
        fix = "give natural logarithms of probabilities"
        if least:
            fix += ", or name the tokens in ids if there are others"
        raise DataError.at(*place, f"the probabilities of logprobs sum to {total:.4g}", fix)


def _top_row(row: Mapping[str, Any], values: Floats, target: int, place: Place) -> TopRow:
    """Check a row with the most likely tokens; they are sorted, the most likely first."""
    if not isinstance(row["ids"], list) or len(row["ids"]) != len(values):
        raise DataError.at(*place, "ids and logprobs differ in length", "give one id per number")
    ids = np.array([files.count_of(token, "ids", place, 0) for token in row["ids"]], np.int64)
    if len(set(ids.tolist())) < len(ids):
        raise DataError.at(*place, "ids names a token twice", "name every token once")
    if target in ids:
        known = values[ids == target]
        _check_target(row, known[0], place)
    else:
        known = _target_logprob(row, values, target, place)
    _check_sum(values if target in ids else np.append(values, known), 0.0, place)
    order = np.lexsort((ids, -values))
    return TopRow(ids[order], values[order], float(known[0]))


def _check_target(row: Mapping[str, Any], known: float, place: Place) -> None:
    """Refuse a `target_logprob` that contradicts the target's number in `logprobs`."""
    if row.get("target_logprob") is None:
        return
    (given,) = _numbers([row["target_logprob"]], place)
    if not np.isclose(given, known, rtol=TOLERANCE, atol=TOLERANCE):
        problem = f"target_logprob is {given:.6g}, and logprobs has {known:.6g} for the target"
        raise DataError.at(*place, problem, "correct one of them, or leave target_logprob out")


def _target_logprob(row: Mapping[str, Any], values: Floats, target: int, place: Place) -> Floats:
    if "target_logprob" not in row:
        problem = f"the target {target} is not among ids, and target_logprob is not given"
        raise DataError.at(*place, problem, "add target_logprob")
    known = _numbers([row["target_logprob"]], place)
    if known[0] > values.min() + _ROUNDING:
        problem = "target_logprob is above the smallest of logprobs"
        raise DataError.at(*place, problem, "list the most likely tokens")
    return known
