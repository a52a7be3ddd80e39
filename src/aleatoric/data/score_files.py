"""Pair scores as the authors of "What Comes Next?" publish them, read as distances.

A file is CSV with the columns of `COLUMNS`, one row per pair of texts: the script `write_scores.py`
of their repository writes one file per pair of systems. A file of people against people has H, of a
system against itself M, and of a system against people C.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb, isqrt
from pathlib import Path
from typing import Any

import numpy as np

from aleatoric.data.files import open_binary, sha256_of
from aleatoric.errors import DataError, quoted
from aleatoric.types import Floats

COLUMNS = (
    *("task", "cand_system", "tgt_system", "score_name"),
    *("context_id", "candidate_id", "target_id", "score_value"),
)
"""The first four are text."""
SCORES = {
    **{f"lexical-{n}": f"{n}gram_overlap_yy" for n in (1, 2, 3)},
    **{f"syntactic-{n}": f"{n}gram_pos_overlap_yy" for n in (1, 2, 3)},
    "semantic": "cosine_similarity_yy",
}
"""Probe -> name of its score, a similarity: the distance is 1 minus the score."""
PEOPLE = ("human", "val", "dev", "test", "wmt14-en-de")
"""Names of people in the columns of systems: those of the data sets."""
LAST_TEXT = 10
"""The authors' notebook keeps the texts numbered 0 to 10."""


@dataclass(frozen=True)
class ScoreFile:
    """A file of scores, known by its first row."""

    path: Path
    task: str
    candidate: str
    target: str

    @property
    def part(self) -> str:
        """Which distances the file holds: H, M or C."""
        if self.candidate == self.target:
            return "H" if self.candidate in PEOPLE else "M"
        return "C"

    @property
    def sha256(self) -> str:
        """The checksum of the file."""
        return sha256_of(self.path)


def find_score_files(folder: Path) -> list[ScoreFile]:
    """Return the score files in a folder and the folders in it, in the order of their paths."""
    if not folder.is_dir():
        fix = "name the folder that holds the authors' score files"
        raise DataError.at(folder, None, "is not a folder", fix)
    paths = sorted(p for p in folder.rglob("*") if p.name.endswith((".csv", ".csv.gz")))
    if not paths:
        fix = "put the unpacked CSV files of doi.org/10.5281/zenodo.10025272 there"
        raise DataError.at(folder, None, "holds no score file (.csv or .csv.gz)", fix)
    found = [_opened(path) for path in paths]
    by_content: dict[tuple[str, str, str], Path] = {}
    for file in found:
        other = by_content.setdefault((file.task, file.candidate, file.target), file.path)
        if other != file.path:
            problem = f"compares the same systems as {other}"
            raise DataError.at(file.path, None, problem, "keep one of the two")
    return found


def _opened(path: Path) -> ScoreFile:
    task, candidate, target = _first_row(path)
    if candidate != target and target not in PEOPLE:
        problem = f"compares {quoted(candidate)} with {quoted(target)}, which are not people"
        fix = f"name people {', '.join(PEOPLE)} in tgt_system"
        raise DataError.at(path, 2, problem, fix)
    return ScoreFile(path, task, candidate, target)


def _first_row(path: Path) -> tuple[str, str, str]:
    for batch in _batches(path, block=2**16):
        if len(batch["task"]):
            task, candidate, target = (str(batch[name][0]) for name in COLUMNS[:3])
            return task, candidate, target
    raise DataError.at(path, None, "holds no row", "name a file of pair scores")


def read_distances(file: ScoreFile, probes: Collection[str]) -> dict[str, dict[int, Floats]]:
    """Return probe -> input -> distances in the order of candidates, then targets.

    Distances are NaN where the score is: two texts too short for an n-gram.
    """
    from pyarrow.compute import equal

    parts: dict[str, list[tuple[Floats, ...]]] = {}
    for batch in _batches(file.path):
        _check_one_pair(file, batch)
        kept = (batch["candidate_id"] <= LAST_TEXT) & (batch["target_id"] <= LAST_TEXT)
        for probe in (probe for probe in probes if probe in SCORES):
            named = equal(batch["score_name"], SCORES[probe]).to_numpy(zero_copy_only=False)
            if (rows := kept & named).any():
                columns = tuple(batch[name][rows] for name in COLUMNS[4:])
                parts.setdefault(probe, []).append(columns)
    return {
        probe: _by_input(file, [np.concatenate(column) for column in zip(*chunks, strict=True)])
        for probe, chunks in parts.items()
    }


def _check_one_pair(file: ScoreFile, batch: Mapping[str, Any]) -> None:
    stated = (file.task, file.candidate, file.target)
    for name, value in zip(COLUMNS[:3], stated, strict=True):
        if other := [found for found in batch[name].unique().to_pylist() if found != value]:
            problem = (
                f"{name} is {quoted(value)} in the first row and {quoted(other[0])} in another"
            )
            raise DataError.at(file.path, None, problem, "write one file per pair of systems")


def _by_input(file: ScoreFile, columns: Sequence[Floats]) -> dict[int, Floats]:
    """Return the distances of each input, in the order of its texts."""
    inputs, candidates, targets, scores = columns
    order = np.lexsort((targets, candidates, inputs))
    keys = np.column_stack([inputs, candidates, targets])[order]
    if len(keys) > 1 and (twice := (np.diff(keys, axis=0) == 0).all(axis=1)).any():
        number, left, right = keys[:-1][twice][0].astype(int).tolist()
        problem = f"context {number} has two scores of candidate {left} and target {right}"
        raise DataError.at(file.path, None, problem, "keep one of them")
    ids, starts = np.unique(keys[:, 0], return_index=True)
    distances = np.split(1.0 - scores[order], starts[1:])
    if file.part == "H":
        _check_pairs(file, ids, distances)
    return dict(zip(ids.astype(int).tolist(), distances, strict=True))


def _check_pairs(file: ScoreFile, ids: Floats, distances: Sequence[Floats]) -> None:
    for number, pairs in zip(ids, distances, strict=True):
        if comb(n_texts(len(pairs)), 2) != len(pairs):
            problem = f"context {number:g} has {len(pairs)} scores: some pairs of texts have none"
            raise DataError.at(file.path, None, problem, "give every pair of people's texts")


def n_texts(n_pairs: int) -> int:
    """Return the number of texts that have so many pairs, rounded down.

    >>> n_texts(45), n_texts(46)
    (10, 10)
    """
    return (1 + isqrt(1 + 8 * n_pairs)) // 2


def people_matrices(pairs: Floats) -> Floats:
    """Return the symmetric matrices of (inputs, pairs) distances of pairs i < j."""
    n = n_texts(pairs.shape[1])
    first, second = np.triu_indices(n, 1)
    matrices = np.zeros((len(pairs), n, n))
    matrices[:, first, second] = matrices[:, second, first] = pairs
    return matrices


def _batches(path: Path, block: int = 2**24) -> Iterator[dict[str, Any]]:
    """Yield the columns of a file, some rows at a time; those of numbers as arrays."""
    from pyarrow import ArrowInvalid, csv, float64, string

    types = dict.fromkeys(COLUMNS[:4], string()) | dict.fromkeys(COLUMNS[4:], float64())
    reading = csv.ReadOptions(block_size=block, use_threads=False)
    columns = csv.ConvertOptions(column_types=types, include_columns=list(COLUMNS))
    with open_binary(path) as source:
        try:
            for batch in csv.open_csv(source, reading, None, columns):
                read = dict(zip(COLUMNS, batch.columns, strict=True))
                numbers = {name: _numbers(read[name]) for name in COLUMNS[4:]}
                yield read | numbers
        except (ArrowInvalid, KeyError, OSError, EOFError) as error:
            raise _unreadable(path, error) from None


def _numbers(column: Any) -> Floats:
    values: Floats = column.to_numpy(zero_copy_only=False)
    return values


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())
    row = re.search(r"Row #(\d+)", reason)
    problem = f"is no file of pair scores ({reason[:160].rstrip('.')})"
    fix = f"write CSV with the columns {', '.join(COLUMNS)}"
    return DataError.at(path, int(row[1]) if row else None, problem, fix)
