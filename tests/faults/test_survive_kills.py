"""Runs killed at random moments resume to identical bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toy_runs
from canonical_run import canonical_bytes

from aleatoric.levels import text_scoring
from aleatoric.levels.base import resume_run


@pytest.mark.parametrize(
    ("level", "kills"),
    [
        ("word", 8),
        pytest.param("word", 50, marks=pytest.mark.long),
        pytest.param("text", 30, marks=pytest.mark.long),
    ],
)
def test_run_killed_at_random_moments_resumes_to_identical_bytes(
    level: str, kills: int, tmp_path: Path
) -> None:
    command = [sys.executable, toy_runs.__file__, f"kill-{level}", str(tmp_path), str(kills), "60"]
    folders = [str(Path(toy_runs.__file__).parent), *sys.path]
    settings = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    done = subprocess.run(
        command,
        env=settings | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= kills
    assert found["alike"] == found["runs"] >= 1
    assert found["lost"] == 0
    assert found["in the middle"] >= toy_runs.HITS, "kills must hit while items are drawn"


def test_resume_after_crash_during_rescoring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with toy_runs.run("text", tmp_path, "run", 6) as store:
        expected = canonical_bytes(store)
    score, calls = text_scoring.statistics, []

    def dies(*arguments: Any) -> Any:
        calls.append(arguments)
        return score(*arguments) if len(calls) == 1 else 1 / 0

    monkeypatch.setattr(text_scoring, "statistics", dies)
    with pytest.raises(ZeroDivisionError):
        toy_runs.run("text", tmp_path, "run", 6)
    monkeypatch.undo()
    with resume_run(tmp_path / "run") as store:
        assert canonical_bytes(store) == expected
