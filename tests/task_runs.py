"""Runs of several tasks: corpora whose people vary more or less, and recorded systems."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.rng import stream

PROBES = ("lexical-1", "lexical-2")


def task_run(
    folder: Path,
    name: str,
    people: int,
    systems: Mapping[str, int],
    *,
    inputs: int = 24,
    probes: Sequence[str] = PROBES,
    max_length: int = 100,
) -> Path:
    """Return a run whose people and systems choose among this many words: more words vary more."""
    rng = stream(0, "task", name)
    home = folder / name
    home.mkdir(parents=True)
    corpus = [
        {"id": i, "input": f"{name} {i}", "references": _texts(rng, people)} for i in range(inputs)
    ]
    _write(home / f"{name}.jsonl", corpus)
    for system, words in systems.items():
        rows = [{"id": i, "texts": _texts(rng, words)} for i in range(inputs)]
        _write(home / f"{system}.jsonl", rows)
    models = tuple(f"recorded:{home / system}.jsonl" for system in systems)
    job = TextJob(
        str(home / f"{name}.jsonl"),
        models,
        probes=tuple(probes),
        tokeniser="whitespace",
        max_length=max_length,
        n_splits=3,
    )
    run_job(job, home / "run").close()
    return home / "run"


def _texts(rng: np.random.Generator, n_words: int) -> list[str]:
    return [" ".join(f"w{i}" for i in rng.integers(0, n_words, 6)) for _ in range(4)]


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
