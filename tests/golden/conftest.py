"""Fixtures: runs on Provo shared by several golden tests, read and scored once per process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.runs.run import Store

SYSTEMS = ("gpt2", "bloom", "gpt2_temp05", "chatgpt_diverse")


@pytest.fixture(scope="session")
def provo_run(provo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The recorded systems on all of Provo, by the corrected protocol."""
    models = tuple(f"recorded:{provo / system}.jsonl.gz" for system in SYSTEMS)
    job = WordJob(str(provo / "provo_cloze.jsonl.gz"), models)
    with run_job(job, tmp_path_factory.mktemp("provo") / "run") as store:
        yield store
