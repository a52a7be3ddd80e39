"""Invalid input exits with status 2 and one line: file, line, problem and fix.

Every case runs the real command line. Stdout is empty, and no run is left.
"""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import bad_commands
import bad_texts
import pytest
from bad_inputs import GOOD, Case, lines
from marks import spread

from aleatoric import cli

CASES = [*bad_commands.CASES, *bad_texts.CASES]


@pytest.mark.parametrize("case", spread(CASES, 3), ids=lambda case: case.name.replace(" ", "-"))
def test_invalid_input_raises_one_line_error_and_leaves_no_files(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    for name, data in case.files.items():
        (tmp_path / name).write_bytes(data)
    case.prepare(tmp_path)
    before = contents(tmp_path)
    argv = [part.format(dir=tmp_path) for part in (*case.command, *case.argv)]
    monkeypatch.setattr(sys, "argv", ["aleatoric", *argv])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert end.value.code == 2, err
    assert out == ""
    check_message(err, case)
    assert contents(tmp_path) == before


def check_message(err: str, case: Case) -> None:
    assert err.startswith("error: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert len(err) < 800
    assert not {c for c in err[:-1] if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    assert "Traceback" not in err
    assert re.search(case.message, err), err
    if case.file:
        assert case.file in err
    if case.line is not None:
        assert f"{case.file}, line {case.line}: " in err


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_case_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 200


def test_file_name_cannot_inject_a_second_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\nerror: \x1b[31mb.jsonl"
    monkeypatch.setattr(sys, "argv", ["aleatoric", "word", "--corpus", str(path)])
    with pytest.raises(SystemExit):
        cli.main()
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_parent_folders_of_failed_run_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(GOOD, {}))
    argv = ["word", "--corpus", f"{tmp_path}/c.jsonl", "--out", f"{tmp_path}/a/b/run"]
    monkeypatch.setattr(sys, "argv", ["aleatoric", *argv])
    with pytest.raises(SystemExit):
        cli.main()
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


def test_existing_folder_is_kept_after_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(GOOD, {}))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    argv = ["word", "--corpus", f"{tmp_path}/c.jsonl", "--out", f"{tmp_path}/run"]
    monkeypatch.setattr(sys, "argv", ["aleatoric", *argv])
    with pytest.raises(SystemExit):
        cli.main()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_process_exits_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(b"[1]")
    command = [sys.executable, "-m", "aleatoric", "word", "--corpus", str(tmp_path / "c.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
