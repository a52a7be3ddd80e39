"""The Python interface: runs, results, comparisons, plans, and one sentence for a bad call."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import aleatoric as al
from aleatoric.errors import AleatoricError
from aleatoric.models.gguf import smollm2_directory

PEOPLE = [
    {"id": str(i), "group": f"g{i % 5}", "context": f"There are {i}", "responses": counts}
    for i, counts in enumerate([{"many": 20, "some": 3}, {"was": 15, "is": 8}] * 10)
]
SAMPLES = [
    {"id": str(i), "samples": counts}
    for i, counts in enumerate([{"many": 31, "no": 12}, {"was": 4, "is": 9}] * 10)
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    for name, rows in (("people", PEOPLE), ("model", SAMPLES)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(files: Path) -> al.Run:
    recorded = f"recorded:{files / 'model.jsonl'}"
    return al.word(files / "people.jsonl", recorded, out=str(files / "run"))


def test_run_gives_what_the_command_line_prints(run: al.Run, files: Path) -> None:
    command = [sys.executable, "-m", "aleatoric", "score", str(files / "run"), "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert run.results.to_dict()["results"] == json.loads(printed)["results"]
    assert str(run.results).startswith("Word level")
    assert run.systems == ["model"]
    assert repr(run).endswith("systems: model>")
    assert str(run.results) in str(run)


def test_results_as_dataframe(run: al.Run) -> None:
    pytest.importorskip("pandas")
    frame = run.results.to_pandas()
    wanted = {(r.system, r.metric): r.estimate.value for r in run.results}
    found = {(r.system, r.metric): r.value for r in frame.itertuples()}
    assert {key: value for key, value in found.items() if value == value} == {
        key: value for key, value in wanted.items() if value is not None
    }


def test_items_average_to_the_results(run: al.Run) -> None:
    pytest.importorskip("pandas")
    items = run.items()
    assert list(items.columns[:3]) == ["system", "item", "group"]
    (result,) = [r for r in run.results if (r.system, r.metric) == ("model", "sq_distance")]
    mean = items[items["system"] == "model"]["sq_distance"].mean()
    assert mean == pytest.approx(result.estimate.value)


def test_run_without_directory_is_deleted_when_closed() -> None:
    with al.word("simulated", "toy") as run:
        path = run.path
        assert path.is_dir()
    assert not path.exists()


def test_same_call_continues_a_run(run: al.Run, files: Path) -> None:
    recorded = f"recorded:{files / 'model.jsonl'}"
    again = al.word(files / "people.jsonl", [recorded], out=files / "run")
    assert again.results == run.results
    with pytest.raises(al.UsageError, match="--seed"):
        al.word(files / "people.jsonl", recorded, out=files / "run", seed=1)


def test_options_by_the_names_of_the_command_line() -> None:
    run = al.word("simulated", "toy", samples=7, word_rule="corrected")
    assert run.manifest["samples"] == 7


def test_comparison_and_plan_as_tables(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    run = al.word("simulated", ["toy", "toy:temperature=0.5"], out=tmp_path / "run")
    compared = al.compare(run, metrics="sq_distance")
    assert compared.to_pandas().loc[0, "difference"] == compared.comparisons[0].value
    assert al.compare(tmp_path / "run", metrics=["sq_distance"]) == compared
    assert str(compared).startswith("Pairs of systems")
    plan = al.plan(run, width=0.02, system="toy")
    assert list(plan.to_pandas()["se"]) == [row.se for row in plan.rows]
    assert "<table>" in compared._repr_html_() + plan._repr_html_()


def test_report_writes_a_page_and_stays_callable(run: al.Run, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    with pytest.raises(al.UsageError, match=r"ends in \.html"):
        run.report(run.path / "run.sqlite")
    assert run.report(str(tmp_path / "a.html")) == [tmp_path / "a.html"]
    assert al.report(run, html=tmp_path / "b.html") == [tmp_path / "b.html"]
    assert (tmp_path / "b.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_token_and_text_runs(tmp_path: Path) -> None:
    texts = [{"id": str(i), "input": "x", "references": ["a b", "a c", "b c"]} for i in range(6)]
    samples = [{"id": str(i), "texts": ["a b", "a c d"]} for i in range(6)]
    for name, rows in (("people", texts), ("model", samples)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    recorded = f"recorded:{tmp_path / 'model.jsonl'}"
    run = al.text(tmp_path / "people.jsonl", recorded, probes=["lexical-1"])
    assert run.level == "text"
    (found,) = [r for r in run.results if (r.system, r.metric) == ("model", "energy/lexical-1")]
    one = al.energy(["a b", "a c", "b c"], ["a b", "a c d"])
    assert found.estimate.value == pytest.approx(one)


def test_heavy_warnings_of_a_run_are_python_warnings(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        al.word("simulated", "toy", progress=False).close()


BAD = {
    "unknown option": (lambda: al.word("simulated", "toy", sampels=3), "did you mean samples?"),
    "wrong type": (
        lambda: al.word("simulated", "toy", samples="many"),
        "samples is 'many'; give a whole number from 1 to 1e+07.",
    ),
    "out of range": (lambda: al.word("simulated", "toy", limit=0), "limit is 0; give a whole"),
    "frame as corpus": (lambda: al.word({"a": 1}, "toy"), "corpus is a dict"),  # type: ignore[arg-type]
    "empty out": (lambda: al.word("simulated", "toy", out=""), "out is ''"),
    "number as run": (lambda: al.open(3), "path is 3"),  # type: ignore[arg-type]
    "contexts": (
        lambda: al.word_probabilities("smollm2", ["a"], ["b"]),  # type: ignore[arg-type]
        "context is ['a']; give a text.",
    ),
    "decoder": (
        lambda: al.word_probabilities("smollm2", "a", ["b"], decoder=None),  # type: ignore[arg-type]
        "decoder is None; give a text",
    ),
    "number as model": (lambda: al.word_probabilities(3, "a", ["b"]), "model is 3"),  # type: ignore[arg-type]
    "two words": (lambda: al.word_probabilities("smollm2", "a", ["the cat"]), "single words"),
    "no words": (lambda: al.word_probabilities("smollm2", "a", iter(())), "words is empty"),  # type: ignore[arg-type]
    "nodes": (lambda: al.surprisal("smollm2", "the cat", nodes=0), "nodes is 0"),
    "tolerance": (lambda: al.surprisal("smollm2", "the cat", tolerance=-1), "tolerance is -1"),
    "no model": (lambda: al.load(None), "model is None"),  # type: ignore[arg-type]
    "recorded model": (lambda: al.load("recorded:x"), "recorded:x has no weights"),
    "no run": (lambda: al.open("no/such/run"), "no/such/run"),
    "nothing to compare": (al.compare, "at least one run"),
    "alpha": (lambda: al.compare("x", alpha=2), "alpha is 2"),
    "page": (lambda: al.report("x", html="run.sqlite"), "x"),
    "no target": (lambda: al.report("x"), "nothing to write"),
    "words as text": (lambda: al.word_probabilities("smollm2", "a", "mat"), "list of words"),
    "no word": (lambda: al.word_probabilities("smollm2", "a", ["..."]), "is no word"),
    "one word": (lambda: al.surprisal("smollm2", "The"), "at least two words"),
    "no text": (lambda: al.surprisal("smollm2", 3), "give a text"),  # type: ignore[arg-type]
    "no name": (lambda: al.nothing, "has no attribute 'nothing'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_call_is_one_sentence(case: str) -> None:
    call, words = BAD[case]
    with pytest.raises((AleatoricError, AttributeError)) as caught:
        call()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


def test_surprisal_agrees_with_word_probabilities() -> None:
    try:
        smollm2_directory()
    except AleatoricError as error:
        pytest.skip(str(error))
    model = al.load("smollm2")
    table = al.surprisal(model, "The cat sat for 20 minutes — on it.", nodes=30)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert [rows[word]["surprisal"] for word in ("The", "—")] == [None, None]
    words = al.word_probabilities(model, "The cat sat for", ["A", "20", "a"])
    assert [row[0] for row in words.rows] == ["A", "20", "a"]
    assert words.rows[0][1:] == words.rows[2][1:]
    _, value, low, high = words.rows[1]
    assert max(low, rows["20"]["probability_low"]) <= min(high, rows["20"]["probability_high"])
    assert 0 < rows["20"]["surprisal_low"] <= rows["20"]["surprisal"]
    assert rows["20"]["surprisal"] == pytest.approx(-math.log2(value), abs=0.05)


def test_help_fits_one_screen_and_starts_with_an_example() -> None:
    text: Any = al.__doc__
    assert len(text.splitlines()) <= 24
    assert text.splitlines()[2].startswith(">>> import aleatoric as al")
    assert max(map(len, text.splitlines())) <= 80
    listed = {name.strip(",") for name in text.replace(":", " ").split()}
    assert {*al._PUBLIC} <= listed


def test_import_is_light() -> None:
    code = "import sys, aleatoric; print({'torch', 'pandas', 'numpy'} & {*sys.modules})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_pandas_is_optional(run: al.Run, files: Path) -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        f"import aleatoric as al\nrun = al.open({str(files / 'run')!r})\n"
        "print(len(run.results))\n"
        "for call in (run.items, run.results.to_pandas):\n"
        "    try:\n        call()\n"
        "    except al.UsageError as error:\n        print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.count('run pip install "aleatoric[pandas]"') == 2


@pytest.mark.long
def test_type_checkers_know_the_public_names(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "user.py").write_text(
        "import aleatoric as al\n"
        "run = al.word(corpus='people.jsonl', model='smollm2', out='runs/first')\n"
        "reveal_type(run.results)\n"
        "reveal_type(al.open('runs/first').report('report.html'))\n"
        "reveal_type(al.overlap({'many': 20}, {'many': 310}))\n"
        "reveal_type(al.compare(run, run))\n"
        "reveal_type(al.plan(run, width=0.02))\n"
        "reveal_type(al.word_probabilities('smollm2', 'The cat sat on the', ['mat']))\n",
        encoding="utf-8",
    )
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "user.py")]
    out, err, status = api.run(options)
    shown = [line.partition("Revealed type is ")[2].strip('"') for line in out.splitlines()]
    kinds = ("Results", "Path", "float", "Compared", "RunPlan", "Table")
    assert status == 0, out + err
    assert all(kind in line for kind, line in zip(kinds, shown, strict=False))
