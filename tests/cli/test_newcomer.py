"""The how-to pages, executed step by step.

Titled code blocks are written to files; shell commands and Python blocks are run, in page order
and in an empty folder. Only the embedded model is replaced by the toy, which needs no download.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from doc_pages import ROOT, Block, blocks

from aleatoric.data.cloze import load
from aleatoric.data.selection import TableOptions

HOW_TO = ROOT / "docs" / "how-to"
OWN_DATA = HOW_TO / "own-data.md"


@pytest.fixture
def follow(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], list[str]]:
    """Execute a page in an empty folder and return the output of its commands."""
    monkeypatch.chdir(tmp_path)

    def do(block: Block) -> list[str]:
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        if block.language == "sh":
            # The demo has tests of its own.
            return [run(words) for words in block.commands() if words[0] != "demo"]
        if block.language == "python" and not block.title and ">>>" not in block.text:
            exec(block.text, {})
        return []

    def run(words: list[str]) -> str:
        ran = cli(*["toy" if word == "smollm2" else word for word in words])
        assert ran.status == 0, (words, ran.err)
        return str(ran.out)

    return lambda page: [printed for block in blocks(page) for printed in do(block)]


def test_how_to_from_own_answers_to_report(follow: Callable) -> None:
    printed = follow(OWN_DATA)
    assert "oracle" in printed[0]
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "The ferry left the island at" in page
    assert not re.search(r"""(src|href)=["']https?://""", page)
    assert "The forecast says it will." in Path("bot.html").read_text(encoding="utf-8")
    assert Path("rows.csv").read_text().count("toy") == 6


def test_readme_commands(follow: Callable) -> None:
    follow(ROOT / "README.md")
    assert "There are" in Path("report.html").read_text(encoding="utf-8")
    assert Path("rows.parquet").exists()


def test_table_and_json_lines_give_same_results(tmp_path: Path) -> None:
    files = {block.title: block.text for block in blocks(OWN_DATA) if block.title}
    for name in ("people.csv", "people.jsonl"):
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    table, lines = (
        {item.id: item for item in load(tmp_path / name).items}
        for name in ("people.csv", "people.jsonl")
    )
    assert table["1"] == lines["1"]
    assert table["3"].context == lines["3"].context


LAYOUTS = {
    "excel.csv": TableOptions("context=Sentence,response=Answer,person=Participant"),
    "wide.csv": TableOptions("context=Sentence,response=P1:P4", "NA"),
    "qualtrics.csv": TableOptions("context=@header2,response=Q1:Q2,person=ResponseId"),
}


def test_the_layouts_on_the_page_hold_the_same_answers(tmp_path: Path) -> None:
    found = []
    for block in blocks(OWN_DATA):
        if block.title in LAYOUTS:
            path = tmp_path / block.title
            path.write_text(block.text, encoding="utf-8")
            items = load(path, "utf-8", LAYOUTS[block.title]).items
            persons = [tuple(map(str.casefold, item.persons or ())) for item in items]
            found.append([(i.context, i.responses, p) for i, p in zip(items, persons, strict=True)])
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert found[0][1] == ("Bread is made of", ("flour", "wheat", "flour"), ("p1", "p2", "p4"))


def test_mistake_in_file_is_reported_with_location(cli: Callable, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("context,response,count\nThere are,many,several\n", encoding="utf-8")
    ran = cli("word", "--corpus", people)
    assert ran.status == 2
    assert "people.csv" in ran.err
    assert "line 2" in ran.err


def test_how_to_user_defined_probe(follow: Callable, cli: Callable) -> None:
    printed = follow(HOW_TO / "probe.md")
    assert "my_probes:length" in printed[0]
    found = json.loads(cli("score", "runs/length", "--json").out)["results"]
    assert any(result["metric"] == "w1_M/my_probes:length" for result in found)


def test_how_to_own_model_python_examples() -> None:
    own, logits = [b for b in blocks(HOW_TO / "own-model.md") if b.language == "python"]
    program = own.text + (
        "from aleatoric.models.base import Ask\n"
        "from aleatoric.types import Item\n"
        "drawn = load('').draws([Item('1', 'g', 'So', ('x',))], Ask('ancestral', 9, 0))\n"
        "assert [sum(d.counts.values()) for d in drawn] == [9]\n"
    )
    for text in (program, logits.text):
        exec(text, {})
