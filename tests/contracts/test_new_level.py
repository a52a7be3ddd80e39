"""A new level needs one file and one registration line; everything else works with it."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from coin_level import CoinJob
from explored_runs import explored, get, lines, until

from aleatoric import registry
from aleatoric.levels.base import find_level, level_of, resume_run, run_job, score
from aleatoric.reporting.page import command_of, make_report
from aleatoric.reporting.views import View, view_of_run
from aleatoric.runs.run import Store
from aleatoric.studies.compare import compare
from aleatoric.studies.export import item_rows, write

TESTS = Path(__file__).resolve().parent.parent
REGISTERED = (
    "import sys; from aleatoric import registry; "
    "registry.PLUGINS['levels']['coin'] = 'coin_level:Coin'; "
    "from aleatoric.cli import main; main()"
)
"""The command line of a Python that has the level registered."""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.PLUGINS["levels"], "coin", "coin_level:Coin")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = (
        {
            "id": f"{mint}:{i}",
            "group": f"mint {mint}",
            "coin": f"<b>Coin</b> {i} of mint {mint}",
            "tosses": ["heads"] * (4 + i) + ["tails"] * (6 - i),
        }
        for mint in range(12)
        for i in range(4)
    )
    return lines(tmp_path_factory.mktemp("coins") / "coins.jsonl", rows)


@pytest.fixture
def run(people: Path, tmp_path: Path) -> Iterator[Store]:
    with run_job(CoinJob(str(people), ("0.5", "0.95")), tmp_path / "run") as store:
        yield store


def test_level_runs_scores_and_resumes(run: Store) -> None:
    assert level_of(run) is find_level("coin")
    first = {(r.system, r.metric): r.estimate for r in level_of(run).results(run)}
    assert first["coin-0.5", "overlap"].value > first["coin-0.95", "overlap"].value
    assert first["coin-0.5", "tvd"].interval is not None
    run.close()
    with resume_run(run.path) as again:
        again.release()
        score(again)
        assert {(r.system, r.metric): r.estimate for r in level_of(again).results(again)} == first


def test_resume_with_different_options_is_rejected(run: Store, people: Path) -> None:
    run.close()
    with pytest.raises(Exception, match="its --tosses differs"):
        run_job(CoinJob(str(people), ("0.5", "0.95"), tosses=30), run.path)


def test_systems_are_compared_within_and_between_runs(
    run: Store, people: Path, tmp_path: Path
) -> None:
    found = compare([run])
    assert set(found.values) == {"overlap", "sq_distance", "tvd"}
    assert found.order["overlap"] == ("coin-0.5", "coin-0.95")
    assert found.letters["overlap"] == {"coin-0.5": "a", "coin-0.95": "b"}
    with run_job(CoinJob(str(people), ("0.3",)), tmp_path / "other") as other:
        both = compare([run, other], metrics=["overlap"])
    assert set(both.values["overlap"]) == {"coin-0.5", "coin-0.95", "coin-0.3"}


def test_level_is_reported(run: Store, tmp_path: Path) -> None:
    assert type(view_of_run(run)) is View
    files = list(make_report([run], tmp_path / "page.html", tmp_path / "figures"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Coin: coins" in page
    assert "Of 2 systems, coin-0.5 has the highest overlap" in page
    assert 'data-figure="leading"' in page
    assert "<b>Coin</b>" not in page
    assert "coins have two sides" in page
    _, _, rest = page.partition('<script type="application/json" id="contexts">')
    items = json.loads(rest.partition("</script>")[0])
    assert len(items["items"]) == 48
    assert items["words"] == ["tails", "heads"]
    assert [one["key"] for one in items["measures"]] == ["sq_distance", "tvd"]
    assert page.count("Items least like people, coin-") == 2
    assert {"leading.pdf", "table_coin.md", "table_coin.tex"} <= {file.name for file in files}


def test_level_is_shown_in_explorer(run: Store) -> None:
    run.close()
    with explored(run.path) as explorer:
        until(lambda: explorer.library.runs[0].summary)
        overview = get(explorer, "/run/0")
        assert "Coin: coins" in overview
        assert "coin-0.95" in overview
        listed = get(explorer, "/run/0/contexts?system=coin-0.95&sort=tvd&dir=desc")
        assert "&lt;b&gt;Coin&lt;/b&gt; 0 of mint" in listed
        rows = list(csv.DictReader(io.StringIO(get(explorer, "/run/0/contexts.csv?sort=order"))))
        assert len(rows) == 48
        assert float(rows[0]["tvd"]) >= 0
        item = get(explorer, "/run/0/context?id=0:0")
        assert 'data-word="heads" data-series="people" data-detail="40.0%, 4 of 10"' in item
        assert 'data-series="coin-0.95"' in item
        both = get(explorer, "/compare?a=0:coin-0.5&b=0:coin-0.95&measure=sq_distance")
        assert "On 48 common items" in both


def test_level_rows_are_exported(run: Store, tmp_path: Path) -> None:
    write(item_rows(run), tmp_path / "rows.csv")
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert len(rows) == 96
    assert {"system", "item", "group", "overlap", "tvd"} - set(rows[0]) == {"overlap"}


def test_command_line_includes_level(people: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    out = tmp_path / "run"
    options = ["--corpus", people, "--model", "0.5", "--model", "0.9", "--tosses", "30"]
    ran = aleatoric("coin", *options, "--out", out, "--json")
    assert ran.returncode == 0, ran.stderr
    results = json.loads(ran.stdout)["results"]
    assert {result["system"] for result in results} == {"coin-0.5", "coin-0.9"}
    assert "toss as people do" in aleatoric("coin", "--help").stdout
    assert cli("score", out).status == 0
    assert cli("score", out, "--json").results.keys() == {
        (result["system"], result["metric"]) for result in results
    }
    assert cli("compare", out, "--json").status == 0
    assert cli("resume", out).status == 0
    assert cli("report", out, "--html", tmp_path / "page.html").status == 0
    with Store.open(out) as store:
        _, *words = shlex.split(command_of(store, "coin-0.9"))
    assert words[words.index("--tosses") + 1] == "30"
    again = json.loads(aleatoric(*words).stdout)["results"]
    assert again == [result for result in results if result["system"] == "coin-0.9"]


def aleatoric(*arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", REGISTERED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120"},
        timeout=120,
    )
