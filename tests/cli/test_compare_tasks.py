"""`aleatoric compare` and `report` on text runs of several corpora."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from task_runs import task_run

from aleatoric import api
from aleatoric.runs.run import Store


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("tasks")
    systems = {"smollm2 ancestral": 12, "smollm2 top_p=0.9": 200}
    names = {"asset": 6, "wmt14-10ref": 30, "dailydialog++": 60, "e2e_dev": 10}
    return [task_run(folder, name, people, systems) for name, people in names.items()]


def test_tables_have_tasks_as_rows_and_fit_80_columns(cli: Callable, runs: list[Path]) -> None:
    ran = cli("compare", *runs)
    assert ran.status == 0, ran.err
    assert "Human variability, mean H, by task" in ran.out
    assert "energy ↓, by task" in ran.out
    assert "people: mean_H/lexical-1 is lowest in asset" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("dailydialog++ ")]
    assert rows[0][1:4] == ["24", "4", "6"]
    assert "tests are unpaired" in ran.err
    wide = cli("compare", *runs, "--wide")
    assert "μM − μH, by task" in wide.out


def test_json_is_one_document(cli: Callable, runs: list[Path]) -> None:
    ran = cli("compare", *runs[:2], "--json", "--metric", "energy/lexical-1")
    document = json.loads(ran.out)
    assert list(document["tasks"]) == ["asset", "wmt14-10ref"]
    assert document["families"] == {"energy/lexical-1": 2}
    assert {c["system"] for c in document["comparisons"]} == set(document["values"])
    assert cli("compare", *runs[:2], "--json", "--metric", "energy/lexical-1").out == ran.out


@pytest.mark.parametrize("layout", ["markdown", "latex", "csv"])
def test_other_formats(cli: Callable, runs: list[Path], layout: str) -> None:
    ran = cli("compare", *runs[:2], "--metric", "mean_H/*", "--format", layout)
    assert ran.status == 0
    assert "task" in ran.out
    if layout == "csv":
        values = list(csv.DictReader(io.StringIO(ran.out.split("\n\n")[0])))
        assert {row["task"] for row in values} == {"asset", "wmt14-10ref"}
        assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in values)


def test_bad_usage_is_one_sentence(cli: Callable, runs: list[Path], tmp_path: Path) -> None:
    for arguments, problem in (
        (("--metric", "overlap"), "there is no metric 'overlap'"),
        (("--system", "nobody"), "no task has a system 'nobody'"),
        (("--matched",), "--matched compares one corpus only"),
    ):
        ran = cli("compare", *runs[:2], *arguments)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert problem in ran.err
    # Only levels that declare it are compared across corpora.
    words = [tmp_path / name for name in ("few", "more")]
    for n, path in enumerate(words, 3):
        corpus = f"simulated:contexts={n},people=5"
        made = cli("word", "--corpus", corpus, "--model", "toy", "--samples", 5, "--out", path)
        assert made.status == 0
    ran = cli("compare", *words)
    assert ran.status == 2
    assert "corpus" in ran.err


def test_python_compares_tasks(runs: list[Path]) -> None:
    found = api.compare(*runs[:2], metrics="mean_H/*")
    assert "Human variability" in str(found)
    assert found.to_pandas().shape[0] == 2
    assert "<table" in found._repr_html_()


def test_unfinished_task_is_noted(cli: Callable, tmp_path: Path) -> None:
    runs = [task_run(tmp_path, name, 6, {"one": 5}) for name in ("asset", "e2e_dev")]
    with Store.open(runs[0]) as store, store.exclusive(), store.transaction():
        store.set_meta("done one", False)
    ran = cli("compare", *runs, "--metric", "mean_H/lexical-1")
    assert "one: is not finished; continue it with" in ran.err
    assert "(1 test each)" in " ".join(ran.out.split())
