"""Output streams with limited encodings, and closed output streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from marks import sampled

COMMAND = (sys.executable, "-m", "aleatoric")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "run"
    people = path.parent / "people.jsonl"
    rows = [{"id": "é→1", "context": "Il pleut", "responses": ["été", "naïf", "été"]}]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    subprocess.run([*COMMAND, "word", "--corpus", people, "--out", path], check=True)
    return path


@pytest.mark.parametrize("encoding", sampled(["ascii", "latin-1", "cp1252", "utf-8"], ["ascii"]))
def test_tables_are_printed_in_any_encoding(run: Path, encoding: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    asked = [*COMMAND, "score", run]
    ran = subprocess.run(asked, env=env, capture_output=True, check=True)
    lines = ran.stdout.decode(encoding).splitlines()
    assert any("TVD" in line for line in lines)
    if encoding != "utf-8":
        widths = {len(line) for line in lines if "|" in line}
        assert len(widths) == 1  # columns are columns
        assert "\\u" not in ran.stdout.decode(encoding)
    json.loads(subprocess.run([*asked, "--json"], env=env, capture_output=True, check=True).stdout)


def test_closed_stdout_does_not_fail(run: Path) -> None:
    asked = f"{sys.executable} -m aleatoric score {run}"
    ran = subprocess.run(f"{asked} >&-", shell=True, capture_output=True, text=True, check=False)
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False)
    assert subprocess.run(f"{asked} >&- 2>&-", shell=True, check=False).returncode == 0


INTERRUPTED = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "aleatoric.cli.options":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from aleatoric.__main__ import main
main()
"""


def test_ctrl_c_during_import() -> None:
    asked = [sys.executable, "-c", INTERRUPTED]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "stopped.\n")
