"""`aleatoric text` and the commands that read its runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forced_lms import saved

from aleatoric.models import gguf

HOSTILE = "<script>alert(1)</script> $x_1$ \x1b[31m & |"
PEOPLE = [
    {"id": 1, "input": "Say hello.", "references": ["Hello there.", "Hi!", "Good day.", "Hey."]},
    {"id": 2, "input": ["How?", HOSTILE], "references": [HOSTILE, "Well.", "So so.", "Fine."]},
    {"id": 3, "input": "Go.", "references": ["I go.", "No.", "Going.", "I will go."]},
]
WRITTEN = [
    {"id": 1, "texts": ["Hello.", "Hello there.", "Hi you!"]},
    {"id": 2, "texts": [HOSTILE, "Well then.", "Fine, fine."]},
    {"id": 3, "texts": ["I go.", "I go.", "I go."]},
]
FAST = ("--probe", "lexical-1", "--probe", "lexical-2", "--tokeniser", "whitespace")
NAMES = ("energy", "mean_H", "mean_M", "mean_C", "w1_M", "w1_C", "dmu_M", "dmu_C")


def lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return lines(tmp_path / "people.jsonl", PEOPLE)


@pytest.fixture
def written(tmp_path: Path) -> str:
    return f"recorded:{lines(tmp_path / 'written.jsonl', WRITTEN)}"


@pytest.fixture
def run(cli: Callable, people: Path, written: str, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    ran = cli("text", "--corpus", people, "--model", written, *FAST, "--out", folder)
    assert ran.status == 0, ran.err
    return folder


def test_json_output_without_model(cli: Callable, people: Path) -> None:
    ran = cli("text", "--corpus", people, *FAST, "--json")
    assert ran.status == 0, ran.err
    found = ran.results["control", "mean_H/lexical-1"]["estimate"]
    assert set(found["interval"]) == {"low", "high", "level", "method"}
    assert found["n_items"] == 3
    assert ran.results["control", "w1_C/lexical-2"]["estimate"]["value"] is not None


def test_json_output_with_recorded_texts(cli: Callable, people: Path, written: str) -> None:
    ran = cli("text", "--corpus", people, "--model", written, *FAST, "--json")
    assert ran.status == 0, ran.err
    for name in NAMES:
        assert ran.results["written", f"{name}/lexical-1"]["estimate"]["n_items"] == 3
    assert not any(result.get("floor") for result in ran.results.values())
    assert ran.results["written", "length_M"]["estimate"]["value"] > 0
    assert "decoder:as recorded" in ran.results["written", "w1_M/lexical-1"]["signature"]


def test_same_seed_gives_same_bytes(cli: Callable, people: Path, written: str) -> None:
    asked = ("text", "--corpus", people, "--model", written, *FAST, "--json")
    assert cli(*asked).out == cli(*asked).out


def test_tables_show_people_control_and_system(
    cli: Callable, people: Path, written: str, run: Path
) -> None:
    shown = cli("score", run, "--wide")
    assert shown.status == 0, shown.err
    for part in ("Human variability", "Closeness to people", "energy", "control", "W1(C, H)"):
        assert part in shown.out
    assert "floor" not in shown.out
    assert cli("score", run, "--format", "latex").out.count(r"\begin{tabular}") == 5
    assert "| lexical-2 | written |" in cli("score", run, "--format", "markdown").out


def test_score_output_matches_run_output(
    cli: Callable, people: Path, written: str, run: Path
) -> None:
    first = cli("text", "--corpus", people, "--model", written, *FAST, "--json")
    assert cli("score", run, "--json").out == first.out


def test_exported_columns_are_named_after_metrics(cli: Callable, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert cli("score", run, "--export", path).status == 0
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["system"] for row in rows} == {"control", "written"}
    assert all("w1_C/lexical-1" in row for row in rows)


def test_fit_study_shows_best_and_worst_inputs(cli: Callable, run: Path) -> None:
    ran = cli("score", run, "--analysis", "fit", "--json")
    assert ran.status == 0, ran.err
    table, _ = json.loads(ran.out)["tables"]
    assert [row[:2] for row in table["rows"][:3]] == [
        ["lexical-1", "worst"],
        ["lexical-1", "worst"],
        ["lexical-1", "best"],
    ]
    assert len({row[2] for row in table["rows"]}) == 3


def data_of(page: Path, name: str) -> dict[str, Any]:
    """Return the JSON data of the page under an id."""
    _, _, rest = page.read_text().partition(f'<script type="application/json" id="{name}">')
    found: dict[str, Any] = json.loads(rest.partition("</script>")[0])
    return found


def test_page_escapes_texts_and_shows_inputs(cli: Callable, run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = cli("report", run, "--html", page, "--figures", tmp_path / "figures")
    assert ran.status == 0, ran.err
    html = page.read_text()
    assert "<script>alert" not in html
    assert r"\u003cscript\u003ealert(1)" in html
    assert "\x1b" not in html
    assert "Inputs fitted worst and best" in html
    names = {path.name.partition("_")[0] for path in (tmp_path / "figures").glob("*.png")}
    assert names >= {"fig2", "fig3", "fig4", "fig5", "fig6", "fig8", "fig9", "fig10", "fig11"}


def test_page_of_one_input(cli: Callable, run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli("report", run, "--html", page, "--input", "3").status == 0
    assert [one["id"] for one in data_of(page, "contexts")["items"]] == ["3"]
    ran = cli("report", run, "--html", page, "--input", "17")
    assert (ran.status, "no input '17'" in ran.err) == (2, True)


def test_control_characters_are_escaped_on_page(cli: Callable, tmp_path: Path) -> None:
    name, backwards = "a\x1b[31m\u202eb", "\u05e9\u05dc\u05d5\u05dd"
    rows = [{**row, "id": f"{name}{row['id']}"} for row in PEOPLE]
    rows[0] = {**rows[0], "references": [backwards, "b", "c", "d"]}
    people = lines(tmp_path / f"{name}.jsonl", rows)
    own = [{"id": row["id"], "texts": ["x", name, "z"]} for row in rows]
    model = f"recorded:{lines(tmp_path / f'model{name}.jsonl', own)}"
    folder, page = tmp_path / "run", tmp_path / "page.html"
    ran = cli("text", "--corpus", people, "--model", model, *FAST, "--out", folder)
    assert ran.status == 0, ran.err
    assert cli("report", folder, "--html", page).status == 0
    html = page.read_text()
    assert not set(html) & {"\x1b", "\u202e"}
    assert r"a\x1b[31m\u202eb" in html
    assert any(backwards in one["people"] for one in data_of(page, "contexts")["items"])


def test_page_without_model(cli: Callable, people: Path, tmp_path: Path) -> None:
    folder, page = tmp_path / "run", tmp_path / "page.html"
    cli("text", "--corpus", people, *FAST, "--out", folder)
    ran = cli("report", folder, "--html", page, "--figures", tmp_path / "f", "--input", "1")
    assert ran.status == 0, ran.err
    assert "mean distance between two people" in page.read_text()


def test_live_model_run_is_resumed(cli: Callable, tmp_path: Path) -> None:
    saved("gpt2", tmp_path)
    people = lines(tmp_path / "short.jsonl", [PEOPLE[0], PEOPLE[2]])
    more = ("--samples", 3, "--max-new-tokens", 5, *FAST)
    decoders = ("--decoder", "ancestral", "--decoder", "top_k=3")
    asked = ("text", "--corpus", people, "--model", f"hf:{tmp_path / 'gpt2'}", *decoders, *more)
    ran = cli(*asked, "--out", tmp_path / "live", "--json")
    assert ran.status == 0, ran.err
    assert {s for s, _ in ran.results} == {"control", "gpt2 ancestral", "gpt2 top_k=3"}
    again = cli(*asked, "--out", tmp_path / "live", "--json")
    assert again.out == ran.out


@pytest.mark.skipif(not gguf.smollm2_is_cached(), reason="the embedded model is not cached")
def test_embedded_model_generates_texts(cli: Callable, people: Path) -> None:
    asked = ("text", "--corpus", people, "--limit", 1, "--model", "smollm2", "--chat")
    ran = cli(*asked, "--samples", 2, "--max-new-tokens", 4, *FAST, "--json")
    assert ran.status == 0, ran.err
    assert ran.results["smollm2", "mean_M/lexical-1"]["estimate"]["n_items"] == 1


def test_means_over_other_inputs_than_the_energy_are_named(cli: Callable, tmp_path: Path) -> None:
    people = {"1": ["x y", "x z", "x y z"], "2": ["x y", "x q", "q r"]}
    texts = {"1": ["x y"], "2": ["x", "x q"]}  # one text has no distance M
    corpus = [{"id": i, "input": i, "references": refs} for i, refs in people.items()]
    model = [{"id": i, "texts": own} for i, own in texts.items()]
    corpus_file, model_file = (
        lines(tmp_path / f"{name}.jsonl", rows) for name, rows in (("p", corpus), ("m", model))
    )
    asked = ("text", "--corpus", corpus_file, "--probe", "lexical-1")
    shown = cli(*asked, "--model", f"recorded:{model_file}")
    text = " ".join(shown.out.split())
    assert "than the energy (m: mean_H/lexical-1 2, mean_C/lexical-1 2): in these rows" in text
