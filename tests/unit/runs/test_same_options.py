"""Resuming a run requires the same options; differences are named by their option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aleatoric.errors import ArgumentError, UsageError
from aleatoric.levels.base import run_job
from aleatoric.levels.token import TokenJob
from aleatoric.runs.job import check_same_options

CORPUS = {"name": "w", "version": "1", "sha256": "ab", "spec": "w.jsonl", "encoding": "utf-8"}
SAVED: dict[str, Any] = {
    "level": "word",
    "command": "word",
    "corpus": CORPUS,
    "abstractions": [],
    "choices": {"protocol": "corrected", "bins": "closed"},
    "protocol": "corrected",
    "choose": [],
    "n_splits": 20,
    "samples": 10,
    "device": "cpu",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"abstractions": ["tvd_syn"]}, "its --metric differs"),
        ({"choices": {"protocol": "corrected", "bins": "half-open"}}, "its --choose differs"),
        ({"choices": {"bins": "x"}, "choose": ["bins=x"]}, "its --choose differs"),
        ({"choices": {"bins": "x"}, "protocol": "paper"}, "its --protocol differs"),
        ({"n_splits": 10}, "its --splits differs"),
        ({"samples": 20}, "its --samples differs"),
        ({"level": "text", "command": "text"}, "it is of aleatoric word"),
        ({"command": "finetune", "losses": ["text"]}, "it is of aleatoric word"),
        ({"corpus": CORPUS | {"spec": "v.jsonl"}}, "its --corpus differs"),
        ({"corpus": CORPUS | {"spec": "./w.jsonl", "sha256": "cd"}}, "its --corpus differs"),
        ({"corpus": CORPUS | {"spec": "./w.jsonl", "encoding": "x"}}, "its --corpus differs"),
        ({"corpus": CORPUS | {"sha256": "cd"}}, "its --corpus has changed since"),
        ({"corpus": CORPUS | {"encoding": "latin-1"}}, "its --encoding differs"),
    ],
)
def test_differing_option_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_same_options(Path("run"), SAVED, SAVED | change)
    assert str(refused.value) == f"run: holds another run ({message}); choose another --out."


def test_different_path_to_same_file_is_same_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "w.jsonl")
    for spec in ("w.jsonl", "./w.jsonl", str(tmp_path / "w.jsonl"), "link.jsonl"):
        check_same_options(
            Path("run"), SAVED, SAVED | {"corpus": CORPUS | {"spec": spec}, "device": None}
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"classwise": True}, r"classwise cannot be True \(SCE and ACE: all \(slower\), pred"),
        ({"bins": 0}, "bins cannot be 0"),
        ({"bins": 15.0}, "bins cannot be 15.0"),
        ({"schemes": "greedy"}, "schemes cannot be 'greedy'"),
    ],
)
def test_values_that_a_manifest_cannot_hold_are_refused(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    (tmp_path / "c.txt").write_text("One text.\n")
    job = TokenJob(str(tmp_path / "c.txt"), ("hf:none",), **options)
    with pytest.raises(ArgumentError, match=problem):
        run_job(job, tmp_path / "run")
    assert not (tmp_path / "run").exists()
