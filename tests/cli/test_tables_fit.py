"""Every command prints tables that fit 80 columns, with no number cut; formats of data agree."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from e_ece_rows import save_rows
from forced_lms import saved
from marks import sampled
from provo_layout import rows as provo_rows
from provo_layout import table as provo_table
from rich.cells import cell_len
from tuned_lms import population, save_corpus, save_lm

from aleatoric.cli import app, printing
from aleatoric.data.opening import open_corpus
from aleatoric.reporting.tables import to_text
from aleatoric.result_types import Table

CORPUS = "simulated:contexts=60,people=20,passage=6"
WORDS = ("--corpus", CORPUS, "--model", "toy", "--model", "toy:temperature=2.75", "--samples", "40")
STORY = "The ferry left at seven.\n\nWhen the lights went out he read.\n\nA dog runs.\n"
TUNED = (
    *("--train", "all", "--rate", "0.02", "--epochs", "2", "--batch", "2", "--folds", "2"),
    *("--temperatures", "0.7,1", "--device", "cpu"),
)
WITHOUT_TABLES = {
    "fetch": "downloads files, and says so on stderr",
    "report": "writes files, and says so on stderr",
    "view": "prints an address, and serves until it is stopped",
}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|\.\d+")


def commands(command: Any = None, name: str = "") -> Iterator[str]:
    """Yield the names of all commands of the command line."""
    command = command or typer.main.get_command(app)
    if not hasattr(command, "commands"):
        yield name
    for key, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{name} {key}".strip())


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read: corpora, recordings and tiny models."""
    folder = tmp_path_factory.mktemp("tables")
    people = [
        {"id": i, "input": f"Say {i}.", "references": [f"Hello {i}", "Hi", f"Good {w}", "a b c"]}
        for i, w in enumerate("abcdefghijkl")
    ]
    (folder / "texts").mkdir()
    lines(folder / "texts" / "people.jsonl", people)
    for name in ("bot", "a-generator-with-a-long-name-of-its-own-0.75"):
        texts = [{"id": i, "texts": [f"Hello {i}", "Hi you", name[i % 3]]} for i in range(12)]
        lines(folder / f"{name}.jsonl", texts)
    (folder / "story.txt").write_text(STORY)
    (folder / "norms").mkdir()
    norms = provo_table(provo_rows(open_corpus("simulated:contexts=24,people=8,passage=6").items))
    (folder / "norms" / "norms.csv").write_bytes(norms)
    save_rows(folder)
    return folder


def _texts(folder: Path, out: Path) -> list[object]:
    recordings = sorted(folder.glob("*bot.jsonl")) + sorted(folder.glob("a-*.jsonl"))
    models = [word for path in recordings for word in ("--model", f"recorded:{path}")]
    probes = ["--probe", "lexical-1", "--probe", "lexical-2", "--tokeniser", "whitespace"]
    return ["text", "--corpus", folder / "texts" / "people.jsonl", *models, *probes, "--out", out]


def _token(folder: Path, out: Path) -> list[object]:
    model = folder / "gpt2"
    if not model.exists():
        saved("gpt2", folder)
    return ["token", "--corpus", folder / "story.txt", "--model", f"hf:{model}", "--out", out]


def _finetune(folder: Path, out: Path) -> list[object]:
    save_lm(folder / "model", layers=1, width=16)
    save_corpus(folder / "answers.jsonl", list(population(passages=9, length=5)))
    data = ("--corpus", folder / "answers.jsonl", "--model", f"hf:{folder / 'model'}")
    return ["finetune", *data, *TUNED, "--loss", "human", "--out", out]


def _finetune_text(folder: Path, out: Path) -> list[object]:
    data = ("--corpus", folder / "texts" / "people.jsonl", "--model", f"hf:{saved('gpt2', folder)}")
    quick = ("--epochs", "1", "--samples", "2", "--max-new-tokens", "3", "--held-out", "0.5")
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--entropy")
    return ["finetune-text", *data, *quick, *probe, "--out", out]


def _word(_: Path, out: Path) -> list[object]:
    return ["word", *WORDS, "--out", out]


Arguments = list[object]
CASES: dict[str, Callable[[Path, Path], list[Arguments]]] = {
    "demo": lambda folder, out: [["demo", "--toy", "--out", out]],
    "list": lambda folder, out: [["list"], ["list", "metrics"]],
    "reproduce next-word": lambda folder, out: [
        ["reproduce", "next-word", "--data", folder / "norms"]
    ],
    "reproduce e-ece": lambda folder, out: [
        [
            *("reproduce", "e-ece", "--data", folder / "data"),
            *("--rows", folder / "out" / "rows-last.npz"),
        ]
    ],
    "reproduce production": lambda folder, out: [
        ["reproduce", "production", "--data", folder / "texts", "--probe", "lexical-1", "--pairs"]
    ],
    "word": lambda folder, out: [_word(folder, out)],
    "token": lambda folder, out: [_token(folder, out)],
    "text": lambda folder, out: [_texts(folder, out)],
    "finetune": lambda folder, out: [_finetune(folder, out)],
    "finetune-text": lambda folder, out: [
        _finetune_text(folder, out),
        ["score", out, "--analysis", "entropy", "--system", "gpt2 tuned"],
    ],
    "resume": lambda folder, out: [_word(folder, out), ["resume", out]],
    "score": lambda folder, out: [
        _word(folder, out),
        ["score", out],
        ["score", out, "--by", "agreement"],
        *(
            ["score", out, "--analysis", name, "--system", "toy"]
            for name in ("replacement", "distinguish", "learning-curve")
        ),
    ],
    "compare": lambda folder, out: [_word(folder, out), ["compare", out]],
    "plan": lambda folder, out: [
        _word(folder, out),
        ["plan", out, "--system", "toy", "--se", "0.01"],
        ["plan", "--cost", "--parameters", "70B", "--device", "h200", "--dtype", "bfloat16"],
    ],
}
"""Command -> the command lines that are tried, given a folder of data and a place for a run."""


def test_no_command_is_forgotten() -> None:
    assert {*CASES, *WITHOUT_TABLES} == {*commands()}, "add the new command to CASES"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    """The tables that a command prints."""
    seen: list[Table] = []
    print_tables = printing._print_tables

    def watched(tables: Sequence[Table], wide: bool) -> None:
        seen.extend(tables)
        print_tables(tables, wide)

    monkeypatch.setattr(printing, "_print_tables", watched)
    return seen


def numbers(*texts: object) -> set[str]:
    return {number for text in texts for number in NUMBER.findall(str(text))}


def check_fits(table: Table, width: int) -> None:
    """Refuse a table with a line that is too long, or with a number that is not in its cells."""
    given = numbers(table.title, *table.columns, *table.notes, *sum(table.rows, ()))
    for wide in (False, True):
        shown = to_text(table, width, wide)
        assert max(map(cell_len, shown.splitlines())) <= width, shown
        assert numbers(shown) <= given, f"{sorted(numbers(shown) - given)} in\n{shown}"
        assert "…" not in shown
    assert numbers(*sum(table.rows, ())) <= numbers(shown), shown
    left_out = [name for name in table.columns if name.split()[0] not in to_text(table, width)]
    assert not left_out, "a column is neither shown nor named"


@pytest.mark.parametrize(
    "command", sampled(CASES, ["list", "reproduce next-word", "word", "text", "compare"])
)
def test_tables_fit_80_columns_and_no_number_is_cut(
    cli: Callable, printed: list[Table], folder: Path, tmp_path: Path, command: str
) -> None:
    for arguments in CASES[command](folder, tmp_path / "run"):
        printed.clear()
        ran = cli(*arguments)
        assert ran.status == 0, ran.err
        assert printed, "no table was printed"
        assert [line for line in ran.out.splitlines() if cell_len(line) > 80] == []
        for table in printed:
            check_fits(table, 80)
            check_fits(replace(table, rows=(*table.rows, *_with_long_names(table))), 80)


def _with_long_names(table: Table) -> list[tuple[Any, ...]]:
    """Return a row whose name is long."""
    long = "openai:a-model-with-a-long-name@http://localhost:8000/v1 temperature=0.75,top_p=0.9"
    return [(long, *row[1:]) for row in table.rows[:1]]


@pytest.fixture
def run(cli: Callable, folder: Path, tmp_path: Path) -> Path:
    assert cli(*_word(folder, tmp_path / "run")).status == 0
    return tmp_path / "run"


def test_csv_and_json_hold_the_numbers_of_the_document(cli: Callable, run: Path) -> None:
    document = cli("score", run, "--json").results
    text = cli("score", run, "--format", "csv").out
    rows = {row["system"]: row for row in csv.DictReader(io.StringIO(text))}
    listed = {row["system"]: row for row in json.loads(cli("score", run, "--format", "json").out)}
    leading = ["system", "n_items", "n_groups", "overlap", "overlap_low", "overlap_high"]
    assert list(rows["toy"])[:6] == leading
    for (system, metric), result in document.items():
        estimate = result["estimate"]
        ends = estimate["interval"] or {}
        expected = (estimate["value"], ends.get("low"), ends.get("high"))
        for ending, value in zip(("", "_low", "_high"), expected, strict=True):
            assert listed[system][metric + ending] == value
            assert rows[system][metric + ending] == ("" if value is None else str(value))


def test_csv_of_a_comparison_has_one_number_per_cell(cli: Callable, run: Path) -> None:
    document = json.loads(cli("compare", run, "--json").out)
    rows = list(csv.DictReader(io.StringIO(cli("compare", run, "--format", "csv").out)))
    assert [row["metric"] for row in rows] == [c["metric"] for c in document["comparisons"]]
    for row, expected in zip(rows, document["comparisons"], strict=True):
        assert float(row["difference_low"]) == expected["difference"]["interval"]["low"]
        assert float(row["p_holm"]) == expected["p_holm"]
        assert float(row["first_value"]) == document["values"][row["metric"]]["toy"]


@pytest.mark.parametrize("analysis", ["replacement", "learning-curve", "distinguish"])
def test_csv_of_an_analysis_has_one_number_per_cell(
    cli: Callable, run: Path, analysis: str
) -> None:
    argv = ("score", run, "--analysis", analysis, "--system", "toy", "--format", "csv")
    first = cli(*argv).out.split("\n\n")[0]
    for row in csv.DictReader(io.StringIO(first)):
        for name, cell in list(row.items())[1:]:
            assert cell == "" or isinstance(float(cell.strip("*")), float), (name, cell)


def test_the_terminal_shows_leading_metrics_and_wide_all(cli: Callable, run: Path) -> None:
    first, wide = cli("compare", run).out, cli("compare", run, "--wide").out
    assert "sq_distance" in first
    assert "agreement_M" not in first
    assert "agreement_M" in wide
    assert "toy has the highest overlap: " in first
    assert "ECE human" in cli("score", run, "--wide").out
    assert "More with --wide or --format csv" in cli("score", run).out


def test_a_pipe_has_80_columns_unless_columns_says_otherwise(
    cli: Callable, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(cell_len, cli("score", run, "--wide").out.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(cell_len, cli("score", run).out.splitlines())) <= 50
    monkeypatch.setenv("COLUMNS", "200")
    assert max(map(cell_len, cli("score", run, "--wide").out.splitlines())) > 100


@pytest.fixture
def uneven(cli: Callable, tmp_path: Path) -> Path:
    """A run whose items have one, three and five answers."""
    people, model, run = tmp_path / "p.jsonl", tmp_path / "m.jsonl", tmp_path / "uneven"
    answers = {"a": "x", "b": "xyx", "c": "xyxzx"}
    rows = [{"id": c, "context": c, "responses": list(text)} for c, text in answers.items()]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draws = [{"id": c, "counts": {"x": 3, "q": 2}} for c in answers]
    model.write_text("".join(json.dumps(row) + "\n" for row in draws))
    cli("word", "--corpus", people, "--model", f"recorded:{model}", "--out", run)
    return run


def test_columns_with_other_numbers_of_items_are_named(cli: Callable, uneven: Path) -> None:
    out = " ".join(cli("score", uneven, "--wide").out.split())
    assert "other numbers (TVD: oracle 2, m 3; ECE human: human 3, oracle 2, m 3;" in out
    assert "for the oracle four people" in out
    assert "Items that lack them (human 1, oracle 2, m 1) count at most in TVD and ECE" in out


def test_formats_count_the_same_items(cli: Callable, uneven: Path) -> None:
    found = re.findall(r"^(human|oracle|m) .* (\d+)$", cli("score", uneven).out, re.MULTILINE)
    rows = csv.DictReader(io.StringIO(cli("score", uneven, "--format", "csv").out))
    counted = {row["system"]: row["n_items"] for row in rows}
    assert dict(found) == counted == {"human": "2", "oracle": "1", "m": "2"}


def test_no_range_of_tvd_if_its_ends_are_over_different_items(cli: Callable, uneven: Path) -> None:
    results = cli("score", uneven, "--json").results
    tvd, debiased = (results["m", name]["estimate"] for name in ("tvd", "tvd_debiased"))
    assert (tvd["n_items"], debiased["n_items"]) == (3, 2)
    row = next(line for line in cli("score", uneven).out.splitlines() if line.startswith("m "))
    assert f" {tvd['value']:.3f} " in row
    assert "–" not in row


def test_a_column_that_is_left_out_is_not_explained(
    cli: Callable, uneven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "D²: squared distance" in cli("score", uneven).out
    monkeypatch.setenv("COLUMNS", "40")
    out = cli("score", uneven).out
    assert "D²: squared" not in out
    assert "overlap: 1 for" in out


def test_one_line_says_what_wide_shows(cli: Callable, tmp_path: Path) -> None:
    rows = [{"input": c, "references": ["x y", "y z"], "id": c} for c in "abc"]
    texts = [{"id": c, "texts": ["x y z", "z y"]} for c in "abc"]
    for name, written in (("people", rows), ("m", texts)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in written))
    corpus = ("--corpus", tmp_path / "people.jsonl", "--probe", "lexical-1")
    out = cli("text", *corpus, "--model", f"recorded:{tmp_path / 'm.jsonl'}").out
    assert out.count("More with --wide") == 1
    assert "differences of means; the column" in " ".join(out.split())
