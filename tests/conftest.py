"""Shared fixtures: the location of real data, and the command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aleatoric.cli import main

# Threads that wait for one another by spinning take minutes for a tiny model on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A shell that starts tests in the background has them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden numbers; tests that need it are skipped without it."""
    folder = Path(os.environ.get("ALEATORIC_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"the shared data are not at {folder}; set ALEATORIC_SHARED to their folder")
    return folder


@pytest.fixture(scope="session")
def provo(shared: Path) -> Path:
    """The folder of Provo answers and recorded systems."""
    return shared / "data" / "provo"


@pytest.fixture(scope="session")
def provo_expected(shared: Path) -> dict[str, Any]:
    """Numbers recomputed from the recordings, and the published ones."""
    found: dict[str, Any] = json.loads((shared / "golden" / "provo_expected.json").read_text())
    return found


@dataclass(frozen=True)
class Ran:
    """Output and exit status of a command."""

    status: int
    out: str
    err: str

    @property
    def results(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The JSON results by system and metric."""
        return {(r["system"], r["metric"]): r for r in json.loads(self.out)["results"]}


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `aleatoric ARGUMENTS` in this process."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr("sys.argv", ["aleatoric", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = capsys.readouterr()
        return Ran(status, out, err)

    return run
