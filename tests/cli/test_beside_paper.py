"""Runs beside the printed numbers: `--beside paper`, and `reproduce production --run`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("spacy")
Cli = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two corpora of one text each, and recorded texts of a generator."""
    rows = [
        {"id": n, "input": f"Sentence {n}.", "references": [f"the {w} {n}" for w in "abcd"]}
        for n in range(5)
    ]
    texts = [{"id": n, "texts": ["the same", "the other", f"one {n}"]} for n in range(5)]
    (tmp_path / "data").mkdir()
    for name, listed in (
        ("data/asset_valid.jsonl", rows),
        ("own.jsonl", rows),
        ("bot.jsonl", texts),
    ):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in listed))
    return tmp_path


def _text(folder: Path, corpus: str = "data/asset_valid.jsonl") -> tuple[object, ...]:
    model = f"recorded:{folder / 'bot.jsonl'}"
    return ("text", "--corpus", folder / corpus, "--model", model, "--probe", "lexical-1")


def test_text_beside_paper(cli: Cli, folder: Path) -> None:
    ran = cli(*_text(folder), "--out", folder / "run", "--beside", "paper")
    assert ran.status == 0, ran.err
    assert "Table 2, Simplification (asset): mean W1(M, H)" in ran.out
    assert "0.217127" in ran.out  # typical_02 of Table 2
    assert "run: 5 inputs of asset_valid, protocol corrected" in " ".join(ran.out.split())
    document = json.loads(cli("score", folder / "run", "--beside", "paper", "--json").out)
    values = {r["metric"]: r["estimate"]["value"] for r in document["results"]}
    rows = [row for row in document["beside"] if row["system"] == "bot"]
    assert [row["table"] for row in rows] == [2, 3, 4, 5]
    for row, metric in zip(rows, ("w1_M", "dmu_M", "w1_C", "dmu_C"), strict=True):
        assert row["corrected"] == values[f"{metric}/lexical-1"]
        assert row["printed"] is None
    printed = [row["printed"] for row in document["beside"] if row["table"] == 3]
    assert -0.214236 in printed
    as_csv = cli("score", folder / "run", "--beside", "paper", "--format", "csv")
    assert as_csv.status == 0
    assert "0.217127" in as_csv.out


def test_reproduce_production_with_runs(cli: Cli, folder: Path) -> None:
    assert cli(*_text(folder), "--out", folder / "run").status == 0
    argv = ("--data", folder / "data", "--protocol", "corrected", "--probe", "lexical-1")
    ran = cli("reproduce", "production", *argv, "--run", folder / "run", "--json")
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    own = {(r["table"], r["system"]): r for r in document["rows"] if r["source"] == "run"}
    assert {system for _, system in own} == {"bot", "control (run)"}
    assert own[2, "bot"]["corrected"] is not None
    assert document["notes"][0].startswith("run: 5 inputs of asset_valid")
    shown = cli("reproduce", "production", *argv, "--run", folder / "run")
    assert shown.status == 0
    assert "control (run)" in shown.out


def test_other_corpora_and_runs_are_rejected_before_the_work(cli: Cli, folder: Path) -> None:
    ran = cli(*_text(folder, "own.jsonl"), "--out", folder / "run", "--beside", "paper")
    assert (ran.status, ran.out) == (2, "")
    assert "the paper has no numbers for the corpus 'own'; use one of asset," in ran.err
    assert not (folder / "run").exists()
    ran = cli(*_text(folder), "--beside", "mine")
    assert "--beside mine is not known; use --beside paper." in ran.err
    assert cli(*_text(folder, "own.jsonl"), "--out", folder / "run").status == 0
    for argv in (
        ("score", folder / "run", "--beside", "paper"),
        ("reproduce", "production", "--data", folder / "data", "--run", folder / "run"),
    ):
        ran = cli(*argv)
        assert (ran.status, ran.out) == (2, "")
        assert "run: the paper has no numbers for the corpus 'own'" in ran.err
    ran = cli("score", folder / "run", "--beside", "paper", "--analysis", "fit")
    assert ran.status == 2
    assert "give it without --by and --analysis" in ran.err
