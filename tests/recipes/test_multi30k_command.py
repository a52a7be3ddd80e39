"""The complete recipe on a toy corpus: output files, and errors for invalid input."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from multi30k import command, subwords
from multi30k.model import Shape
from multi30k.training import Recipe

from aleatoric.studies.e_ece_paper import SCHEMES, read_rows
from aleatoric.types import SentencePair

SIZES = {"train": 60, "val": 10, "test2016": 8}


def pairs(count: int) -> list[SentencePair]:
    dogs = ["Ein Hund läuft.", "Zwei Hunde laufen."], ["A dog runs.", "Two dogs run."]
    return [SentencePair(str(n), dogs[0][n % 2], dogs[1][n % 2]) for n in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, count in SIZES.items():
        some = pairs(count)
        for side, texts in (("de", [p.source for p in some]), ("en", [p.target for p in some])):
            path = tmp_path / "data" / f"multi30k_{split}.{side}.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress("".join(f"{t}\n" for t in texts).encode()))
    return tmp_path


def settings(folder: Path, jobs: int = 1) -> command.Settings:
    recipe = Recipe(seed=5, epochs=2, max_tokens=128, warmup=10)
    shape = Shape(layers=1, width=16, heads=2, ffn=16)
    return command.Settings(
        folder / "data", folder / "out", folder / "weights", recipe, jobs, shape, merges=20
    )


@pytest.mark.usefixtures("recipe_packages")
def test_rows_and_facts_are_written(folder: Path) -> None:
    facts = command.run(settings(folder))
    assert json.loads((folder / "out" / "facts.json").read_text()) == json.loads(json.dumps(facts))
    assert facts["sizes"]["train_pairs"] == 60
    assert facts["recipe"]["seed"] + 1 == facts["uncertainty_seed"] == 6
    assert set(facts["test"]) == {"loss", "bleu", "last"}
    assert {p.name for p in (folder / "weights").iterdir()} - {"vocabulary.json"} == {
        f"{role}-{kept}.safetensors"
        for role in ("translation", "uncertainty")
        for kept in ("loss", "bleu", "last")
    }
    rows = read_rows(folder / "out" / "rows-last.npz")
    assert (
        len(rows["token"]) == facts["sizes"]["test_target_tokens"] == facts["test"]["last"]["rows"]
    )
    assert {f"p_{scheme}" for scheme in SCHEMES} <= set(rows)
    assert (rows["entropy"] != rows["uncertainty"]).all()


@pytest.mark.long
@pytest.mark.usefixtures("recipe_packages")
def test_repeated_run_and_two_processes_give_same_rows(folder: Path) -> None:
    command.run(settings(folder))
    first = {p.name: p.read_bytes() for p in (folder / "out").glob("*.npz")}
    again = replace(settings(folder, jobs=2), out=folder / "again")
    command.run(again)
    assert len(first) == 6
    assert first == {p.name: p.read_bytes() for p in (folder / "again").glob("*.npz")}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--data", "{0}/none"], r"multi30k_train\.de\.gz: there is no such file; check"),
        (["--epochs", "0"], "--epochs is a whole number from 1 up"),
        (["--label-smoothing", "1"], "--label-smoothing is from 0 up and below 1"),
        (["--limit-minutes", "0"], "--limit-minutes is above 0"),
    ],
)
def test_invalid_usage_raises_one_line_error(
    folder: Path,
    argv: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = ["--data", f"{folder}/data", "--out", f"{folder}/out"]
    monkeypatch.setattr(sys, "argv", ["x", *usual, *(part.format(folder) for part in argv)])
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert re.search(message, err)
    assert not (folder / "out").exists()


def test_missing_package_raises_one_line_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    subwords._moses.cache_clear()
    argv = ["x", "--data", f"{folder}/data", "--out", f"{folder}/out"]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "error: this needs the package sacremoses: run pip install -r "
        "recipes/multi30k/requirements.txt.\n"
    )


def test_recipe_does_not_import_the_cli() -> None:
    code = (
        "import sys; from multi30k import command, scoring, training;"
        "unwanted = {'typer', 'rich', 'pyarrow', 'sklearn', 'httpx'};"
        "print(unwanted & set(sys.modules))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "set()\n"
