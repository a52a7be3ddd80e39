"""Texts that target a terminal, web page, spreadsheet or LaTeX, through every command.

Ids, groups, contexts, answers, texts and even file names are hostile. All of it must be
shown as plain characters by every command.
"""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from forced_lms import saved

MARKS = (
    "\x1b[5mblink",
    "\x1b]8;;http://example.org\x07link",
    "\x9b31m\x07\b\x7f",
    "\u202eesrever\u2066\u200b\u2028\u2029",
    "<xss-probe onprobe=1>",
    "\"'><xss-probe onprobe=1>",
    "</script></style></title><xss-probe>",
    "{{ 7*7 }}{% raw %}",
    "[red]x[/] [/] :warning: [link=http://example.org]y",
    "[z](javascript:alert(1)) ![i](x) `c` *b*",
    "=HYPERLINK(1)",
    "\\input{x} $y_1$ 50% & # ~ ^",
    "../../etc/passwd",
    "a|b\tc\nd\r\n",
)
NAME = "h\x1b[5m\u202e[red]<xss-probe>{{1}}="
EVERY = " ".join(MARKS)
STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def save(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def check_shown(ran: Any, status: int = 0) -> None:
    assert ran.status == status, ran.err
    for shown in (ran.out, ran.err):
        steering = {c for c in shown if unicodedata.category(c) in STEERING} - {"\n"}
        assert not {hex(ord(c)) for c in steering}
        assert "\a" not in shown


def check_page(page: Path) -> None:
    text = page.read_text("utf-8")
    found = Tags()
    found.feed(text)
    assert "xss-probe" not in found.tags
    assert "onprobe" not in found.attributes
    assert not {hex(ord(c)) for c in text if unicodedata.category(c) in STEERING} - {"0xa", "0x9"}
    assert "{{ 7*7 }}" in text


def check_files(folder: Path, before: set[Path]) -> None:
    """Check that no file is written outside the given folder or through a link."""
    for path in set(folder.parent.rglob("*")) - before:
        if path.name in ("run.sqlite-wal", "run.sqlite-shm", "results.json", "figures.json"):
            continue  # SQLite's own, empty: readers may not remove them; caches
        assert folder in (path, *path.parents)


AS_GIVEN = ("--choose", "answers=folded")
"""Answers stay as they are: the word rule would leave nothing hostile in them."""


@pytest.fixture
def words(tmp_path: Path) -> tuple[Path, Path]:
    people = [
        {"id": f"{i}{mark}", "group": mark, "context": mark, "original": mark,
         "responses": {mark: 3, f"b {mark}": 2, "plain": 2}}
        for i, mark in enumerate(MARKS)
    ]  # fmt: skip
    people[-1]["context"] = EVERY
    message = [{"id": row["id"], "samples": {MARKS[i - 1]: 4, "plain": 3, MARKS[i]: 2}}
            for i, row in enumerate(people)]  # fmt: skip
    return save(tmp_path / f"{NAME}.jsonl", people), save(tmp_path / f"m{NAME}.jsonl", message)


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    people = [{"id": f"{i}{mark}", "group": mark, "input": [mark, "Hi?"],
               "references": [mark, f"{mark} x", "y z", EVERY]}
              for i, mark in enumerate(MARKS[:6])]  # fmt: skip
    message = [{"id": row["id"], "texts": [EVERY, *row["references"][:2]]} for row in people]
    return save(tmp_path / f"{NAME}.jsonl", people), save(tmp_path / f"m{NAME}.jsonl", message)


def test_word_level_in_every_format(
    cli: Callable, words: tuple[Path, Path], tmp_path: Path
) -> None:
    corpus, model = words
    run = tmp_path / f"run{NAME}"
    asked = ("word", "--corpus", corpus, "--model", f"recorded:{model}", "--splits", 2)
    check_shown(cli(*asked, "--json"))  # notes quote answers that the word rule changed
    check_shown(cli(*asked, *AS_GIVEN, "--out", run))
    for layout in ("markdown", "latex", "csv"):
        ran = cli("score", run, "--format", layout)
        check_shown(ran)
        assert "<xss" not in ran.out or layout in ("latex", "csv")
    check_shown(cli("score", run, "--json"))
    both = ("--system", "oracle", "--system", f"m{NAME}")
    check_shown(cli("compare", run, *both, "--metric", "tvd"))
    check_shown(cli("plan", run, "--system", f"m{NAME}", "--se", 0.1))
    for analysis in ("replacement", "biased", "distinguish"):
        ran = cli("score", run, "--analysis", analysis)
        check_shown(ran, ran.status)


def test_word_level_page_and_figures(
    cli: Callable, words: tuple[Path, Path], tmp_path: Path
) -> None:
    corpus, model = words
    run, page = tmp_path / "run", tmp_path / "out" / "page.html"
    page.parent.mkdir()
    asked = ("--model", f"recorded:{model}", "--splits", 2, *AS_GIVEN, "--out", run)
    check_shown(cli("word", "--corpus", corpus, *asked))
    before = set(tmp_path.rglob("*"))
    check_shown(cli("report", run, "--html", page, "--figures", page.parent / "figures"))
    check_page(page)
    check_files(page.parent, before)


@pytest.mark.long
def test_text_level_page_and_figures(
    cli: Callable, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    corpus, model = texts
    run, page = tmp_path / "run", tmp_path / "out" / "page.html"
    page.parent.mkdir()
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--splits", 2)
    check_shown(
        cli("text", "--corpus", corpus, "--model", f"recorded:{model}", *probe, "--out", run)
    )
    check_shown(cli("score", run, "--json"))
    check_shown(cli("score", run, "--analysis", "fit", "--format", "markdown"))
    before = set(tmp_path.rglob("*"))
    check_shown(cli("report", run, "--html", page, "--figures", page.parent / "figures"))
    check_page(page)
    check_files(page.parent, before)


def test_token_level_documents(
    cli: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [{"id": mark, "text": f"A dog runs. {mark} Bread is made."} for mark in MARKS]
    corpus = save(tmp_path / f"{NAME}.jsonl", documents)
    saved("gpt2", tmp_path)
    capsys.readouterr()  # saving a model draws a bar
    model = (tmp_path / "gpt2").rename(tmp_path / "g[red]\u202e")
    asked = ("--classwise", "none", "--keep-rows", "--out", tmp_path / "run")
    check_shown(cli("token", "--corpus", corpus, "--model", f"hf:{model}", *asked))
    page = tmp_path / "page.html"
    check_shown(cli("report", tmp_path / "run", "--html", page))
    assert "\u202e" not in page.read_text()


@pytest.mark.parametrize("mark", [*MARKS[:4], MARKS[8], "\ud800"], ids=ascii)
def test_error_messages_quote_texts_safely(cli: Callable, tmp_path: Path, mark: str) -> None:
    corpus = save(tmp_path / f"{NAME}.jsonl", [{"context": "a", "responses": {mark: -1}, mark: 1}])
    check_shown(cli("word", "--corpus", corpus), 2)
    check_shown(cli("word", "--corpus", "simulated:contexts=1", "--model", mark), 2)
    check_shown(cli("list", mark), 2)


def test_progress_bars_on_a_terminal(
    cli: Callable, words: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    corpus, model = words
    ran = cli("word", "--corpus", corpus, "--model", f"recorded:{model}", "--splits", 2)
    assert ran.status == 0, ran.err
    assert "\x1b[" in ran.err  # bars were drawn
    for escape in ("\x1b[5m", "\x1b]8", "\x9b", "\u202e", "\a"):
        assert escape not in ran.out + ran.err
    assert "[red]" in ran.out  # shown as it stands, not taken for markup


def test_spreadsheet_cells_are_never_formulas(
    cli: Callable, words: tuple[Path, Path], tmp_path: Path
) -> None:
    corpus, model = words
    bad = model.with_name("=1+1.jsonl")
    model.rename(bad)
    asked = ("--model", f"recorded:{bad}", "--splits", 2, "--format", "csv")
    ran = cli("word", "--corpus", corpus, *asked)
    assert ran.status == 0, ran.err
    assert "'=1+1" in {row[0] for row in csv.reader(ran.out.splitlines())}
