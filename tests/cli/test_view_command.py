"""`aleatoric view`: prints its URL, serves pages, and exits cleanly."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from explored_runs import word_run


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return word_run(tmp_path_factory.mktemp("words"))


def test_prints_url_and_exits_on_ctrl_c(words: Path) -> None:
    command = [sys.executable, "-m", "aleatoric", "view", str(words), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urlopen(address, timeout=20) as answer:
                assert b"blunt" in answer.read()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert not out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("nowhere",), "is no run directory"), ((".", "."), "is named twice")],
)
def test_invalid_run_raises_one_line_error(
    cli: Callable, arguments: tuple[str, ...], told: str
) -> None:
    ran = cli("view", *arguments, "--no-browser")
    assert ran.status == 2
    assert told in ran.err
    assert len(ran.err.strip().splitlines()) == 1
