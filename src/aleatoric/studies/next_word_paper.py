"""Table 1 of "Predict the Next Word": printed, as published, and corrected."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from aleatoric.data.opening import sniff
from aleatoric.errors import DataError
from aleatoric.levels.base import Monitor, run_job
from aleatoric.levels.word import WordJob, results
from aleatoric.registry import Track, quietly
from aleatoric.result_types import Result, Table
from aleatoric.studies import TEXTS, notes_on

PRINTED: dict[str, dict[str, float]] = TEXTS["next_word"]["printed"]
"""Table 1 as printed; the paper's Oracle2 column is the system `oracle` here."""

METRICS = ("ece_original", "ece_human", "ece_oracle", "tvd")
PROTOCOLS = ("paper", "corrected")


@dataclass(frozen=True)
class PaperCell:
    """One cell of the published table, and our values."""

    system: str
    metric: str
    printed: float | None
    paper: Result | None
    corrected: Result | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: the corrected result, with the printed value and the paper's."""
        named = {"system": self.system, "metric": self.metric}
        corrected = self.corrected.to_dict() if self.corrected else {}
        paper = self.paper.to_dict() if self.paper else None
        return {**named, **corrected, "printed": self.printed, "paper": paper}


def reproduce(data: Path, seed: int = 0, track: Track[Any] = quietly) -> list[PaperCell]:
    """Score every recorded system of a folder under both protocols."""
    corpus, models = find_files(data)
    by_protocol: dict[str, dict[tuple[str, str], Result]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for protocol in PROTOCOLS:
            job = WordJob(str(corpus), models, protocol=protocol, seed=seed)
            with run_job(job, Path(scratch) / protocol, Monitor(track)) as store:
                by_protocol[protocol] = {(r.system, r.metric): r for r in results(store)}
    return _cells(by_protocol)


def find_files(data: Path) -> tuple[Path, tuple[str, ...]]:
    """The people's answers and the recorded systems of a folder, recognized by their contents."""
    if not os.path.isdir(data):
        fix = "name the folder that holds the recordings"
        raise DataError.at(data, None, "is not a folder", fix)
    readable = (".jsonl", ".jsonl.gz", ".csv", ".tsv")
    files = sorted(path for path in data.iterdir() if path.name.endswith(readable))
    people = [path for path in files if sniff(path) == "provo"]
    if len(people) != 1:
        problem = f"holds {len(people)} files of people's answers, not one"
        fix = "put one Provo file there, such as provo_cloze.jsonl"
        raise DataError.at(data, None, problem, fix)
    models = tuple(f"recorded:{path}" for path in files if path not in people)
    return people[0], models


def to_table(cells: Iterable[PaperCell]) -> Table:
    """The three values of every cell, and the number of items behind them."""
    n = ("n, paper", "n, corrected")
    columns = ("system", "metric", "printed", "ours, paper", n[0], "ours, corrected", n[1])
    rows, notes = tuple(map(_row, cells)), notes_on("next_word")
    return Table("Predict the Next Word, Table 1", columns, rows, notes, n)


def _cells(by_protocol: dict[str, dict[tuple[str, str], Result]]) -> list[PaperCell]:
    systems = list(dict.fromkeys(system for system, _ in by_protocol["corrected"]))
    printed = [name for name in PRINTED if name in systems]
    others = [name for name in systems if name not in PRINTED]
    return [
        PaperCell(
            *key, PRINTED.get(key[0], {}).get(key[1]), *(by_protocol[p].get(key) for p in PROTOCOLS)
        )
        for key in product((*printed, *others), METRICS)
        if key in by_protocol["corrected"]
    ]


def _row(cell: PaperCell) -> tuple[str, ...]:
    printed = "–" if cell.printed is None else f"{cell.printed:.2f}"
    return (cell.system, cell.metric, printed, *_ours(cell.paper), *_ours(cell.corrected))


def _ours(result: Result | None) -> tuple[str, str]:
    if result is None or result.estimate.value is None:
        return "–", "0"
    spread = "" if result.estimate.spread is None else f" ± {result.estimate.spread:.4f}"
    return f"{result.estimate.value:.4f}{spread}", str(result.estimate.n_items)
