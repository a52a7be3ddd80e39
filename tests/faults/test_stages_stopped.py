"""Ctrl-C in every stage of a large run: the usual message and exit status, and no damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aleatoric.runs.run import Store

CORPUS = "simulated:contexts=10000,people=10"
LEVEL = "aleatoric.levels.word:Word"
STAGES = {
    "open": (LEVEL, "open"),
    "save": (LEVEL, "save_items"),
    "ask": (LEVEL, "ask"),
    "score": (LEVEL, "score"),
    "check": ("aleatoric.runs.run:Store", "check_whole"),
    "reduce": (LEVEL, "system_results"),
    "compare": ("aleatoric.studies.compare", "compare"),
    "study": ("aleatoric.reporting.words", "word_figures"),
    "show": ("aleatoric.reporting.page", "Section"),
}
"""A stage -> the function that begins it, and what it belongs to."""
ANNOUNCED = """
import pkgutil, sys
owner, name = pkgutil.resolve_name(sys.argv.pop(1)), sys.argv.pop(1)
former = getattr(owner, name)
def announced(*arguments, **named):
    print("begun", flush=True)
    return former(*arguments, **named)
setattr(owner, name, announced)
from aleatoric.cli import main
main()
"""
"""A command that says when a function is called."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run without cached intervals."""
    run = tmp_path_factory.mktemp("stages") / "run"
    pieces = [sys.executable, "-m", "aleatoric", *word(run), "--interval", "none"]
    subprocess.run(pieces, env=settings(), check=True, capture_output=True)
    return run


def word(run: Path) -> list[str]:
    asked = [
        "--corpus",
        CORPUS,
        "--model",
        "toy",
        "--model",
        "toy:temperature=2",
        "--samples",
        "20",
        "--splits",
        "5",
    ]
    return ["word", *asked, "--out", str(run)]


def settings() -> dict[str, str]:
    path = os.pathsep.join(filter(None, sys.path))
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def stopped(stage: str, *arguments: str) -> str:
    """Send Ctrl-C soon after a stage has begun; return what the command says."""
    pieces = [sys.executable, "-c", ANNOUNCED, *STAGES[stage], *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(pieces, env=settings(), stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n", process.communicate()
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    return errors


@pytest.mark.long
@pytest.mark.parametrize("stage", ["open", "save", "ask", "score"])
def test_stopping_a_run_that_is_made(stage: str, tmp_path: Path) -> None:
    said = stopped(stage, *word(tmp_path / "run"))
    resume = f"what was finished is saved: continue with aleatoric resume {tmp_path / 'run'}"
    is_kept = (tmp_path / "run").exists()
    lines = [line for line in said.splitlines() if line and not line.startswith("stopping: ")]
    assert lines == [f"stopped; {resume}" if is_kept else "stopped before the run began"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "command"),
    [
        *(("check", "score"), ("score", "score"), ("reduce", "score"), ("compare", "compare")),
        *(("study", "report"), ("show", "report")),
    ],
)
def test_stopping_a_look_at_a_finished_run(
    stage: str, command: str, finished: Path, tmp_path: Path
) -> None:
    options = {"score": ["--again"] if stage != "reduce" else [], "compare": []}
    page = tmp_path / "page.html"
    more = options.get(command, ["--html", str(page)])
    said = stopped(stage, command, str(finished), *more)
    assert said.startswith("stopped")
    assert said.count("\n") == 1
    assert not page.exists()
    assert not (finished / "run.lock").exists()
    with Store.open(finished) as store:
        assert store.has_stats()
        store.check_whole()
