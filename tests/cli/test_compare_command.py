"""`aleatoric compare` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

CORPUS = "simulated:contexts=60,people=20,passage=6"


@pytest.fixture
def run(cli: Callable, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    models = ("--model", "toy", "--model", "toy:temperature=3")
    assert cli("word", "--corpus", CORPUS, *models, "--samples", 20, "--out", out).status == 0
    return out


def test_json_holds_differences_p_values_letters_and_signatures(cli: Callable, run: Path) -> None:
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


def test_the_same_seed_gives_the_same_bytes(cli: Callable, run: Path) -> None:
    assert cli("compare", run, "--json").out == cli("compare", run, "--json").out


@pytest.mark.parametrize("layout", ["terminal", "markdown", "latex", "csv"])
def test_tables_for_papers(cli: Callable, run: Path, layout: str) -> None:
    ran = cli("compare", run, "--metric", "tvd", "--format", layout)
    assert ran.status == 0
    assert "p Holm" in ran.out


def test_a_run_in_which_nothing_was_read_is_refused_in_one_sentence(
    cli: Callable, tmp_path: Path
) -> None:
    from aleatoric.runs.run import Store

    Store.create(tmp_path / "t", {"level": "token", "corpus": {}}).__exit__()
    ran = cli("compare", tmp_path / "t")
    assert (ran.status, ran.out) == (2, "")
    assert "has 0 system to compare" in ran.err
    assert ran.err.count("\n") == 1


def test_other_choices_are_refused_by_name(cli: Callable, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "paper"
    cli("word", "--corpus", CORPUS, "--model", "toy", "--protocol", "paper", "--out", other)
    ran = cli("compare", run, other)
    assert (ran.status, ran.out) == (2, "")
    assert "rule (corrected v paper)" in ran.err


@pytest.mark.parametrize(
    ("argv", "says"),
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
def test_mistakes_are_one_sentence(
    cli: Callable, run: Path, argv: tuple[str, ...], says: str
) -> None:
    ran = cli("compare", *(part.format(run=run) for part in argv))
    assert (ran.status, ran.out) == (2, "")
    assert says in ran.err


def test_matched_systems_say_that_they_are(cli: Callable, run: Path, tmp_path: Path) -> None:
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


def test_distinguish_is_a_study_of_a_run(cli: Callable, run: Path) -> None:
    ran = cli("score", run, "--analysis", "distinguish", "--system", "toy", "--json")
    table, farthest = json.loads(ran.out)["tables"]
    assert [row[0] for row in table["rows"]] == ["model", "people, half v half"]
    assert len(farthest["rows"]) == 10
