"""`aleatoric compare`, run through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aleatoric.runs.run import Store

CORPUS = "simulated:contexts=60,people=20,passage=6"


@pytest.fixture
def run(cli: Callable, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    models = ("--model", "toy", "--model", "toy:temperature=3")
    assert cli("word", "--corpus", CORPUS, *models, "--samples", 20, "--out", out).status == 0
    return out


def test_json_has_differences_p_values_letters_and_signatures(cli: Callable, run: Path) -> None:
    ran = cli("compare", run, "--metric", "tvd", "--metric", "overlap", "--json")
    found = json.loads(ran.out)
    one = found["comparisons"][0]
    assert one["difference"]["interval"]["level"] == 0.95
    assert 0 < one["p"] <= one["p_bh"] <= one["p_holm"] <= 1
    assert set(one["effect"]) == {"cohen_d", "share_lower"}
    assert "metric:tvd" in one["signatures"][0]
    assert found["families"] == {"tvd": 1, "overlap": 1}
    assert found["order"]["overlap"] == ["toy", "toy:temperature=3"]
    assert found["n_items"] == {"tvd": 60, "overlap": 60}
    assert set(found["letters"]["tvd"]) == {"toy", "toy:temperature=3"}


def test_same_seed_gives_same_bytes(cli: Callable, run: Path) -> None:
    assert cli("compare", run, "--json").out == cli("compare", run, "--json").out


@pytest.mark.parametrize("layout", ["terminal", "markdown", "latex", "csv"])
def test_paper_tables(cli: Callable, run: Path, layout: str) -> None:
    ran = cli("compare", run, "--metric", "tvd", "--format", layout)
    assert ran.status == 0
    assert ("p,p_holm,p_bh" if layout == "csv" else "p Holm") in ran.out


def test_run_without_items_raises_one_line_error(cli: Callable, tmp_path: Path) -> None:
    Store.create(tmp_path / "t", {"level": "token", "corpus": {}}).__exit__()
    ran = cli("compare", tmp_path / "t")
    assert (ran.status, ran.out) == (2, "")
    assert "has 0 system to compare" in ran.err
    assert ran.err.count("\n") == 1


def test_different_choices_are_rejected_and_named(cli: Callable, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "paper"
    cli("word", "--corpus", CORPUS, "--model", "toy", "--protocol", "paper", "--out", other)
    ran = cli("compare", run, other)
    assert (ran.status, ran.out) == (2, "")
    assert "rule (corrected v paper)" in ran.err


def test_runs_without_a_compared_system_are_refused_or_noted(
    cli: Callable, run: Path, tmp_path: Path
) -> None:
    people = tmp_path / "people"
    assert cli("word", "--corpus", "simulated:contexts=6,people=5", "--out", people).status == 0
    ran = cli("compare", run, people)
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{people}: has no model to compare; leave it out" in ran.err
    named = ("--system", "toy", "--system", "toy:temperature=3")
    ran = cli("compare", run, people, *named)
    assert ran.status == 0
    assert f"{people}: no system of this run is compared" in ran.err


def test_a_part_of_a_corpus_is_noted(cli: Callable, tmp_path: Path) -> None:
    models = ("--model", "toy", "--model", "toy:temperature=3", "--limit", 12)
    cli("word", "--corpus", CORPUS, *models, "--out", tmp_path / "part")
    note = "every number is about a part only: 12 of the 60 items of the corpus (the first 12)"
    assert f"note: {note}" in cli("compare", tmp_path / "part").err
    assert note in json.loads(cli("compare", tmp_path / "part", "--json").out)["notes"]
    cli("report", tmp_path / "part", "--html", tmp_path / "page.html")
    assert note in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("{run}", "{run}"), "is named twice"),
        (("{run}", "--alpha", "2"), "is no significance level"),
        (("{run}/nothing",), "is no run directory"),
        (("{run}", "--metric", "x"), "there is no metric 'x'"),
        (("{run}", "--metric", "tvd_excess"), "there is no metric 'tvd_excess'"),
        (("{run}", "--matched", "--metric", "ece_human"), "there is no metric 'ece_human'"),
        (("{run}", "--matched", "--system", "oracle", "--system", "toy"), "oracle is no model"),
    ],
)
def test_invalid_usage_raises_one_line_error(
    cli: Callable, run: Path, argv: tuple[str, ...], message: str
) -> None:
    ran = cli("compare", *(part.format(run=run) for part in argv))
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_matched_comparison_is_noted(cli: Callable, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "many"
    asked = ("--model", "toy", "--samples", 300, "--out", other)
    assert cli("word", "--corpus", CORPUS, *asked).status == 0
    systems = ("--system", "toy:temperature=3", "--system", f"{other}:toy")
    found = json.loads(cli("compare", run, other, *systems, "--matched", "--json").out)
    assert found["matched"]
    assert "same number of draws per item (20)" in found["notes"][0]
    assert all("n:20 matched" in own for own in found["comparisons"][0]["signatures"])
    assert {one["metric"] for one in found["comparisons"]} == {
        *("overlap", "sq_distance", "agreement_M", "tvd")
    }
    assert not any("different numbers of draws" in note for note in found["notes"])


def test_help_has_an_example(cli: Callable) -> None:
    assert "Example" in cli("compare", "--help").out


def test_distinguish_study_of_a_run(cli: Callable, run: Path) -> None:
    ran = cli("score", run, "--analysis", "distinguish", "--system", "toy", "--json")
    table, farthest = json.loads(ran.out)["tables"]
    assert [row[0] for row in table["rows"]] == ["model", "people, half v half"]
    assert len(farthest["rows"]) == 10


def test_unfinished_runs_are_noted_as_by_score(cli: Callable, run: Path) -> None:
    with Store.open(run) as store, store.exclusive(), store.transaction():
        store.set_meta("done toy", False)
    note = f"note: toy: is not finished; continue it with aleatoric resume {run}"
    for asked in (
        ("score", run),
        ("score", run, "--by", "agreement"),
        ("score", run, "--analysis", "distinguish", "--system", "toy"),
        ("compare", run),
    ):
        assert note in cli(*asked).err, asked
    page = run.parent / "page.html"
    assert cli("report", run, "--html", page).status == 0
    assert page.read_text().count("toy: is not finished") == 1
    planned = json.loads(cli("plan", run, "--system", "toy", "--se", 0.01, "--json").out)
    assert note.removeprefix("note: ") in planned["notes"]
