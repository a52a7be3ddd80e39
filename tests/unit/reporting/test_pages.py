"""Explorer pages: numbers from the store, escaped texts, runs in progress."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from explored_runs import ITEMS, LONG, SCRIPT, explored, get, lines, until

from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.word import WordJob, score_word
from aleatoric.reporting.explorer.server import Explorer
from aleatoric.runs.run import Store
from aleatoric.types import Draws, Item


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_matches_store(explorer: Explorer, words: Path) -> None:
    found = rows_of(get(explorer, "/run/0/contexts.csv?system=odd&sort=tvd&dir=desc"))
    with Store.open(words) as store:
        saved = {row.item_id: row.value for row in store.rows("odd", "tvd")}
    assert {row["id"]: float(row["tvd"]) for row in found} == saved
    assert [float(row["tvd"]) for row in found] == sorted(saved.values(), reverse=True)


def test_csv_respects_filters(explorer: Explorer) -> None:
    assert [
        r["id"] for r in rows_of(get(explorer, "/run/0/contexts.csv?group=news&sort=order"))
    ] == [
        "news:1",
        "news:2",
    ]
    found = rows_of(get(explorer, "/run/0/contexts.csv?q=MANY%20people"))
    assert [row["id"] for row in found] == ["story:3"]
    high = rows_of(get(explorer, "/run/0/contexts.csv?system=odd&of=tvd&min=0.9"))
    assert {row["id"] for row in high} == {"story:1", "news:1"}


def test_squared_distance_matches_agreements(explorer: Explorer) -> None:
    for row in rows_of(get(explorer, "/run/0/contexts.csv?system=blunt")):
        human, model, cross = (float(row[name]) for name in "HMC")
        assert float(row["sq_distance"]) == pytest.approx(human + model - 2 * cross, abs=2e-3)


@pytest.mark.parametrize(
    "path",
    [
        "/run/0",
        "/run/0/contexts",
        "/run/0/contexts?q=" + quote(SCRIPT),
        "/run/0/context?id=hostile:1",
        "/run/0/context?id=" + quote('hostile:"3"&<i>'),
        "/compare?q=%3Cscript%3E",
        "/run/1/context?id=2",
        "/run/1/contexts",
    ],
)
def test_texts_are_escaped(explorer: Explorer, path: str) -> None:
    page = get(explorer, path)
    assert "<script>document" not in page
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<b>hostile" not in page
    assert "\u202e" not in page  # a character that turns the text around is shown, not obeyed
    assert "\x07" not in page


def test_hostile_context_is_shown_literally(explorer: Explorer) -> None:
    page = html.unescape(get(explorer, "/run/0/context?id=hostile:1"))
    assert SCRIPT in page
    assert "<script>alert(1)</script>" in page  # people's answer


def test_long_context_is_shown_in_full(explorer: Explorer) -> None:
    assert LONG.strip() in get(explorer, "/run/0/context?id=hostile:2")
    assert LONG.strip() not in get(explorer, "/run/0/contexts")


def test_bars_show_human_and_model_shares(explorer: Explorer) -> None:
    page = get(explorer, "/run/0/context?id=story:1")
    assert 'data-word="many" data-series="people" data-detail="45.0%, 9 of 20"' in page
    assert 'data-word="zebra" data-series="odd" data-detail="100.0%, 40 of 40"' in page


def test_next_and_previous_follow_list_order(explorer: Explorer) -> None:
    listed = "/run/0/context?{}&system=odd&sort=order&group=story&dir=asc"
    page = get(explorer, listed.format("id=story:2"))
    assert "2 of 3" in page
    assert 'rel="prev"' in page
    assert 'rel="next"' in page
    assert "not in the list" in get(explorer, listed.format("id=news:1"))


def test_two_systems_are_compared_on_common_items(explorer: Explorer) -> None:
    found = rows_of(get(explorer, "/compare.csv?a=0:odd&b=0:close&measure=tvd"))
    assert len(found) == len(ITEMS)
    assert found[0]["id"] in ("story:1", "news:1")  # where they are furthest apart
    for row in found:
        assert float(row["difference"]) == pytest.approx(float(row["odd"]) - float(row["close"]))


def test_inputs_show_their_texts_and_distances(explorer: Explorer) -> None:
    page = html.unescape(get(explorer, "/run/1/context?id=0"))
    assert "Good day to you." in page
    assert f"{SCRIPT} 0" in page
    assert 'data-word="lexical-1" data-series="H: people"' in page
    found = rows_of(get(explorer, "/run/1/contexts.csv?probe=lexical-1"))
    assert {row["id"] for row in found} == {"0", "1", "2"}
    assert all(row["w1_C/lexical-1"] for row in found)


def test_results_appear_with_intervals(explorer: Explorer) -> None:
    until(lambda: explorer.library.runs[0].summary)
    page = get(explorer, "/run/0")
    assert 'id="systems"' in page
    assert "interval" in page
    assert "Signatures" in page


def test_csv_cells_are_protected_against_formulas(tmp_path: Path) -> None:
    with Store.create(tmp_path / "run", _manifest(tmp_path)) as store:
        store.add_items([Item("=1+1", "@g", "-cmd|' /C calc'!A0", ("a", "b"))])
    with explored(tmp_path / "run", watched=False) as explorer:
        (row,) = rows_of(get(explorer, "/run/0/contexts.csv"))
    assert row["id"] == "'=1+1"
    assert row["group"] == "'@g"
    assert row["context"].startswith("'-cmd")


def test_run_in_progress_is_updated(tmp_path: Path) -> None:
    """Items, then draws, then statistics appear without a restart; the writer is not blocked."""
    contexts = [Item(f"{i}", "g", f"context {i}", ("a", "a", "b", "c")) for i in range(5)]
    with Store.create(tmp_path / "run", _manifest(tmp_path)) as store:
        store.add_items(contexts)
        facts = {"model": "m@1", "decoder": "ancestral", "estimator": "mc", "label": "m"}
        store.add_system("m", facts)
        with explored(tmp_path / "run") as explorer:
            assert progress(explorer)["systems"][0]["done"] == 0
            assert "not scored yet" in get(explorer, "/run/0/contexts")
            store.add_draws("m", [Draws(f"{i}", {"a": 3, "b": 1}) for i in range(3)], whole=False)
            until(lambda: progress(explorer)["systems"][0]["done"] == 3)
            assert 'data-series="m"' in get(explorer, "/run/0/context?id=1")
            assert not progress(explorer)["finished"]
            store.add_draws("m", [Draws(f"{i}", {"a": 3}) for i in range(3, 5)], whole=False)
            store.set_meta("done m", True)
            score_word(store)
            until(lambda: progress(explorer)["finished"] and progress(explorer)["summary"])
            assert len(rows_of(get(explorer, "/run/0/contexts.csv?system=m"))) == 5


def progress(explorer: Explorer) -> dict[str, object]:
    return json.loads(get(explorer, "/run/0/progress.json"))


def _manifest(folder: Path) -> dict[str, object]:
    job = WordJob("simulated:contexts=3,people=4", n_splits=2)
    with run_job(job, folder / "other") as store:
        return store.manifest


def test_page_without_results_reloads_when_results_appear(words: Path) -> None:
    """Results that are ready before the first poll must still reload the page."""
    with explored(words, watched=False) as explorer:
        assert re.search(r'data-state="[\d.]+ false true"', get(explorer, "/run/0"))
        explorer.library.runs[0].work()
        assert "data-state" not in get(explorer, "/run/0")


def test_runs_with_different_probes_are_compared_by_a_common_measure(tmp_path: Path) -> None:
    people = lines(
        tmp_path / "people.jsonl",
        ({"id": i, "input": "say", "references": ["a b c", "a b", "c d e"]} for i in range(3)),
    )
    runs = {"both": ("lexical-1", "lexical-2"), "second": ("lexical-2",), "third": ("lexical-3",)}
    for name, probes in runs.items():
        written = lines(
            tmp_path / f"{name}.jsonl",
            ({"id": i, "texts": ["a b c", "b c d"]} for i in range(3)),
        )
        job = TextJob(
            str(people), (f"recorded:{written}",), probes=probes, tokeniser="whitespace", n_splits=2
        )
        run_job(job, tmp_path / name).db.close()
    with explored(*(tmp_path / name for name in runs), watched=False) as explorer:
        # A measure that only one of them has, none, and one that both have.
        for measure in ("energy/lexical-1", "", "w1_C/lexical-2"):
            page = get(explorer, f"/compare?a=0:both&b=1:second&measure={quote(measure)}")
            shown = re.findall(r'<option value="([^"]*/lexical-\d)"', page)
            assert shown
            assert all(key.endswith("/lexical-2") for key in shown)
            table = get(explorer, f"/compare.csv?a=0:both&b=1:second&measure={quote(measure)}")
            assert len(rows_of(table)) == 3
        assert "a measure in common" in get(explorer, "/compare?a=0:both&b=2:third")
        # Without a second system, one with a common measure is taken.
        assert "second v both" in html.unescape(get(explorer, "/compare?a=1:second")).replace(
            "<bdi>", ""
        ).replace("</bdi>", "")
        # The page of an item shows the systems of all runs.
        page = get(explorer, "/run/0/context?id=1")
        assert "second" in page
        assert get(explorer, "/run/1/context?id=1&a=0:both&b=1:second")


def test_runs_of_different_items_are_not_beside_each_other(tmp_path: Path) -> None:
    for name, part in (("first", {"limit": 3}), ("drawn", {"sample": 3})):
        job = WordJob("simulated:contexts=9,people=4", ("toy",), n_splits=2, samples=5, **part)
        run_job(job, tmp_path / name).db.close()
    with explored(tmp_path / "first", tmp_path / "drawn", watched=False) as explorer:
        first, drawn = explorer.library.runs
        assert explorer.library.beside(first) == [first]
        assert explorer.library.beside(drawn) == [drawn]
