"""The main commands, run through the command line."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from aleatoric.cli import _ended_by_sigterm, lazy_commands
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.registry import called
from aleatoric.runs.run import Store
from aleatoric.runs.tables import COMPLETE

PEOPLE = [
    {
        "id": "1",
        "group": "a",
        "context": "There",
        "responses": {"are": 3, "is": 1},
        "original": "Are",
    },
    {"id": "2", "group": "b", "context": "It", "responses": ["is", "was"], "original": "is,"},
]
MODEL = [
    {"id": "1", "samples": {"Are": 1, "are": 2, "is": 1}},
    {"id": "2", "texts": [" is\nnot", "was", "..."]},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    people, model = tmp_path / "people.jsonl", tmp_path / "model.jsonl"
    people.write_text("".join(json.dumps(row) + "\n" for row in PEOPLE))
    model.write_text("".join(json.dumps(row) + "\n" for row in MODEL))
    return people, model


def test_word_command_json_output(cli: Callable, files: tuple[Path, Path]) -> None:
    ran = cli("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--json")
    assert ran.status == 0
    tvd = ran.results["model", "tvd"]
    assert tvd["estimate"]["value"] == 0
    assert tvd["estimate"]["n_items"] == 2
    assert tvd["estimate"]["interval"] is None
    assert tvd["estimate"]["reason"].startswith("the value is the same whichever group is left out")
    entropy = ran.results["model", "entropy_human"]["estimate"]
    assert set(entropy["interval"]) == {"low", "high", "level", "method"}
    assert entropy["reason"] is None
    assert "corpus:people#" in tvd["signature"]
    assert ran.results["model", "ece_original"]["estimate"]["n_undefined"] == 0


@pytest.mark.parametrize(
    ("method", "named"),
    [("percentile", "group bootstrap, percentile"), ("t", "Student's t, jackknife over groups")],
)
def test_interval_method_can_be_selected(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path, method: str, named: str
) -> None:
    run = tmp_path / "run"
    asked = ("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--out", run)
    first = cli(*asked, "--interval", method, "--json").results["model", "entropy_human"]
    assert first["estimate"]["interval"]["method"].startswith(named)
    again = cli("score", run, "--interval", method, "--json").results["model", "entropy_human"]
    assert again["estimate"] == first["estimate"]


def test_unknown_interval_is_rejected_before_the_run(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path
) -> None:
    ran = cli("word", "--corpus", files[0], "--out", tmp_path / "run", "--interval", "normal")
    assert ran.status == 2
    assert "percentile" in ran.err
    assert not (tmp_path / "run").exists()


def test_paper_protocol_rule_joins_words(cli: Callable, files: tuple[Path, Path]) -> None:
    asked = ("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--json")
    ran = cli(*asked, "--protocol", "paper")
    assert ran.results["model", "tvd"]["estimate"]["value"] == pytest.approx(0.25)
    mixed = cli(*asked, "--protocol", "paper", "--choose", "rule=corrected")
    assert mixed.results["model", "tvd"]["estimate"]["value"] == 0
    assert "rule=corrected" in mixed.results["model", "tvd"]["signature"]


def test_failed_draws_can_count_as_outcome(cli: Callable, files: tuple[Path, Path]) -> None:
    asked = ("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--json")
    ran = cli(*asked, "--choose", "failed=outcome")
    assert ran.results["model", "tvd"]["estimate"]["value"] == pytest.approx(1 / 6)


def test_saved_runs_are_scored_and_exported(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path
) -> None:
    run, rows = tmp_path / "run", tmp_path / "rows.parquet"
    cli("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--out", run)
    ran = cli("score", run, "--export", rows, "--export", tmp_path / "rows.csv", "--json")
    assert ran.results["model", "tvd"]["estimate"]["n_items"] == 2
    table = parquet.read_table(rows).to_pylist()
    assert {row["system"] for row in table} == {"human", "oracle", "model"}
    assert (
        (tmp_path / "rows.csv")
        .read_text()
        .startswith('"system","item","group","row","sq_distance"')
    )


def test_no_exported_text_is_a_formula(cli: Callable, tmp_path: Path) -> None:
    people, model, run = tmp_path / "p.jsonl", tmp_path / "=m.jsonl", tmp_path / "run"
    item = {"id": "=1+1", "group": "@g", "context": "a", "responses": {"x": 2, "y": 1}}
    people.write_text(json.dumps(item) + "\n")
    model.write_text(json.dumps({"id": "=1+1", "samples": {"x": 2, "z": 3}}) + "\n")
    cli("word", "--corpus", people, "--model", f"recorded:{model}", "--out", run)
    cli("score", run, "--export", tmp_path / "rows.csv", "--export", tmp_path / "rows.parquet")
    with (tmp_path / "rows.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["system"].endswith("=m"))
    assert (row["system"], row["item"], row["group"]) == ("'=m", "'=1+1", "'@g")
    rows = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    saved = next(row for row in rows if row["system"] == "=m")
    assert (saved["item"], saved["group"]) == ("=1+1", "@g")
    assert float(row["sq_distance"]) == saved["sq_distance"]


def test_recordings_with_one_file_name_are_named_after_their_folders(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path
) -> None:
    specs = []
    for folder in "ab":
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "model.jsonl"
        path.write_text(files[1].read_text() + "\n" * (folder == "b"))
        specs += ["--model", f"recorded:{path}"]
    ran = cli("word", "--corpus", files[0], *specs, "--json")
    assert {name for name, _ in ran.results} == {"human", "oracle", "a/model", "b/model"}
    verdict = cli("word", "--corpus", files[0], *specs).out
    assert "a/model and b/model have the same overlap" in " ".join(verdict.split())


def test_latex_tables_are_separated(cli: Callable, tmp_path: Path) -> None:
    corpus = ("--corpus", "simulated:contexts=20,people=9,passage=2", "--samples", "9")
    cli("word", *corpus, "--model", "toy", "--model", "toy:temperature=2", "--out", tmp_path / "r")
    shown = cli("compare", tmp_path / "r", "--format", "latex").out
    assert "\\end{tabular}\n\n\\begin{tabular}" in shown


@pytest.mark.parametrize("tied", [True, False])
def test_ties_for_the_most_frequent_answer_are_noted(
    cli: Callable, tmp_path: Path, tied: bool
) -> None:
    rows = [{"id": str(i), "context": f"{i}", "responses": ["x", "y"]} for i in range(12)]
    rows = [row if tied else row | {"responses": ["x", "x", "Y"]} for row in rows]
    people = tmp_path / "p.jsonl"
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    notes = cli("word", "--corpus", people).err
    assert ("in 12 of 12 contexts, several words tie" in " ".join(notes.split())) == tied


@pytest.mark.parametrize("layout", ["markdown", "latex", "csv", "terminal"])
def test_paper_tables(cli: Callable, files: tuple[Path, Path], layout: str) -> None:
    ran = cli("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--format", layout)
    assert ran.status == 0
    assert "model" in ran.out
    assert ("tvd,tvd_low,tvd_high" if layout == "csv" else "TVD") in ran.out


def test_hostile_names_cannot_control_terminal(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path
) -> None:
    hostile = tmp_path / "\x1b[31mred[bold].jsonl"
    hostile.write_text(files[1].read_text())
    ran = cli(
        "word", "--corpus", files[0], "--model", f"recorded:{hostile}", "--out", tmp_path / "r"
    )
    assert ran.status == 0
    assert "\x1b" not in ran.out + ran.err
    assert "[bold]" in ran.out


def test_missing_items_are_counted_and_noted(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path
) -> None:
    part = tmp_path / "part.jsonl"
    part.write_text(
        json.dumps(MODEL[0]) + "\n" + json.dumps({"id": "7", "samples": {"x": 1}}) + "\n"
    )
    ran = cli("word", "--corpus", files[0], "--model", f"recorded:{part}", "--json")
    assert ran.results["part", "tvd"]["estimate"]["n_missing"] == 1
    notes = json.loads(ran.out)["notes"]
    assert "part: 1 of 2 items have no row and are left out" in notes
    assert "part: 1 rows name no item of the corpus and are left out" in notes


def test_toy_demo_writes_a_page(cli: Callable, tmp_path: Path) -> None:
    ran = cli("demo", "--toy", "--out", tmp_path / "demo", "--json")
    found = {s: r["estimate"]["value"] for (s, m), r in ran.results.items() if m == "tvd"}
    models = [name for name in found if name.startswith("toy")]
    assert min(models, key=lambda name: found[name]) == "toy"
    assert "simulated" in ran.err
    assert "<html" in (tmp_path / "demo" / "report.html").read_text()


def test_page_escapes_hostile_texts(cli: Callable, tmp_path: Path) -> None:
    people, model = tmp_path / "people.jsonl", tmp_path / "m.jsonl"
    hostile = "<script>alert(1)</script>"
    people.write_text(json.dumps({"context": hostile * 900, "responses": [hostile]}) + "\n")
    model.write_text(json.dumps({"id": 1, "samples": {hostile: 2}}) + "\n")
    cli("word", "--corpus", people, "--model", f"recorded:{model}", "--out", tmp_path / "run")
    assert cli("report", tmp_path / "run", "--html", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert r"\u003cscript\u003ealert(1)" in page


def test_help_has_examples(cli: Callable) -> None:
    for command in ("word", "token", "score", "list", "demo", "report"):
        assert "Example" in cli(command, "--help").out


def test_importing_package_and_cli_does_not_import_torch() -> None:
    program = (
        "import sys, aleatoric.cli, aleatoric.levels.word, aleatoric.reporting.page;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--batch-tokens", 64), "--batch-tokens is no option of aleatoric word"),
        (("--actors", 2), "--actors is for a cluster; add --engine ray"),
        (("--engine", "spark"), "there is no engine 'spark'"),
        (("--salvage", "elsewhere", "--device", "cpu"), "give it no other option"),
        (("--salvage", "elsewhere", "--interval", "t"), "give it no other option"),
        (("--salvage", "elsewhere", "--format", "csv"), "give it no other option"),
    ],
)
def test_inapplicable_resume_options_are_rejected_in_any_run_state(
    options: tuple[Any, ...],
    message: str,
    complete: bool,
    tmp_path: Path,
    cli: Callable[..., Any],
) -> None:
    run_job(WordJob("simulated:contexts=3,people=3", ("toy",), samples=3), tmp_path / "r").close()
    with Store.resume(tmp_path / "r") as store:
        store.set_meta(COMPLETE, complete)
    ran = cli("resume", tmp_path / "r", *options)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ["x.html", "x.csv", "x.parquet"])
@pytest.mark.parametrize("how", ["folder", "Ctrl-C", "SIGTERM"])
def test_interrupted_export_leaves_no_partial_file(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    run_job(WordJob("simulated:contexts=3,people=3", ("toy",), samples=3), tmp_path / "r").close()
    out = tmp_path / "out" / name
    out.parent.mkdir()

    def interrupted(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT if how == "Ctrl-C" else signal.SIGTERM)

    if how == "folder":
        (out / "full").mkdir(parents=True)
    else:
        former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        monkeypatch.setattr(Path, "replace", interrupted)
    asked = (
        ("report", tmp_path / "r", "--html")
        if name == "x.html"
        else ("score", tmp_path / "r", "--export")
    )
    ran = cli(*asked, out)
    monkeypatch.undo()
    if how != "folder":
        signal.signal(signal.SIGTERM, former)
    assert ran.status == {"folder": 2, "Ctrl-C": 130, "SIGTERM": 143}[how]
    assert [path.name for path in out.parent.iterdir()] == ([name] if how == "folder" else [])


def test_cli_starts_without_heavy_imports() -> None:
    program = (
        "import sys, aleatoric.cli\n"
        "heavy = {'torch', 'scipy', 'pandas', 'matplotlib', 'numpy', 'httpx', 'asyncio'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr


def test_the_list_of_commands_has_the_first_line_of_the_help_of_each() -> None:
    for name, command in lazy_commands().items():
        assert command.short_help == command.help.partition("\n")[0], name


def test_partial_log_probabilities_are_noted(cli: Callable, files: tuple[Path, Path]) -> None:
    rows = [{"id": "1", "logprobs": {"are": -4.6}}, {"id": "2", "logprobs": {"is": 0.0}}]
    files[1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = cli("word", "--corpus", files[0], "--model", f"recorded:{files[1]}", "--json")
    note = "of 1 of 2 contexts cover only part of the probability (1% on average)"
    assert any(note in text for text in json.loads(ran.out)["notes"])


def test_codes_for_missing_answers_are_noted(cli: Callable, tmp_path: Path) -> None:
    table = tmp_path / "survey.csv"
    table.write_text("context,response\nHe said,NA\nHe said,NA\nHe said,yes\nShe,null\nShe,none\n")
    notes = json.loads(cli("word", "--corpus", table, "--json").out)["notes"]
    assert any("3 answers are 'NA', 'null' and count as words" in note for note in notes)
    table.write_text("context,response\nHe said,NA\nHe said,yes\n")
    assert (
        "1 answer is 'NA' and counts as a word; if it stands for"
        in cli("word", "--corpus", table).err
    )


def test_decoders_are_rejected_if_all_models_are_recorded(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path
) -> None:
    asked = ("--corpus", files[0], "--model", f"recorded:{files[1]}", "--out", tmp_path / "run")
    ran = cli("word", *asked, "--decoder", "temperature=0.5")
    assert ran.status == 2
    assert "--decoder temperature=0.5 cannot change answers that are recorded" in ran.err
    assert not (tmp_path / "run").exists()


def test_run_interrupted_before_first_answer_is_reported(
    cli: Callable, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("aleatoric.levels.word.Word.ask", stop)
    # A killed process has no time to remove what it wrote.
    monkeypatch.setattr("aleatoric.levels.base.Level.holds_work", lambda level, store: True)
    models = ("toy", f"recorded:{files[1]}")
    with pytest.raises(KeyboardInterrupt):
        run_job(WordJob(str(files[0]), models), tmp_path / "run")
    monkeypatch.undo()
    ran = cli("score", tmp_path / "run")
    for model in models:
        assert f"{model}: is not finished; continue it with" in ran.err


def test_sigterm_in_a_function_of_the_user_ends_the_command() -> None:
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as ended, _ended_by_sigterm():
            called(lambda text: os.kill(os.getpid(), signal.SIGTERM), "mine:score", "score", "a")
    finally:
        signal.signal(signal.SIGTERM, former)
    assert ended.value.code == 143
