"""Token runs, parts of speech, and systems of two runs compared."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from explored_runs import explored, get, lines, until

from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.reporting.explorer.library import Library

STORY = "The ferry left at seven and nobody waved.\n\nBread is made of flour, salt and time.\n"


def test_token_run_shows_reliability_diagram(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="token runs need the hf extra")
    from forced_lms import saved

    from aleatoric.levels.token import TokenJob

    saved("gpt2", tmp_path)
    (tmp_path / "story.txt").write_text(STORY)
    job = TokenJob(str(tmp_path / "story.txt"), (f"hf:{tmp_path / 'gpt2'}",))
    run_job(job, tmp_path / "run").db.close()
    with explored(tmp_path / "run") as explorer:
        until(lambda: explorer.library.runs[0].summary)
        assert "Reliability diagram, ece" in get(explorer, "/run/0/tokens")
        assert "tokens" in get(explorer, "/run/0")
        rows = list(csv.DictReader(io.StringIO(get(explorer, "/run/0/tokens.csv"))))
        plain = [row for row in rows if row["diagram"].startswith("ece =")]
        found = explorer.library.runs[0].progress["systems"][0]
        assert sum(float(row["tokens"]) for row in plain) == found["tokens"] > 0


def test_contexts_are_filtered_by_part_of_speech(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("textblob", reason="tags need the nlp extra")
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    texts = {"1": "They saw the", "2": "They saw a dog", "3": "They saw it,"}
    rows = ({"id": i, "group": i, "context": t, "responses": {"a": 2}} for i, t in texts.items())
    people = lines(tmp_path / "people.jsonl", rows)
    run_job(WordJob(str(people), n_splits=2), tmp_path / "run").db.close()
    first = Library([tmp_path / "run"], tagger="textblob").runs[0]
    while first.work():
        pass
    assert {tag: own.tolist() for tag, own in first.tags.items()} == {
        "DET": [True, False, False],
        "NOUN": [False, True, False],
        ".": [False, False, True],
    }
    (kept,) = (tmp_path / "cache" / "view").iterdir()  # not tagged again at the next start
    assert kept.suffix == ".npy"
    untagged = Library([tmp_path / "run"]).runs[0]
    assert not untagged.work() or not untagged.tags


def test_systems_of_two_runs_are_compared(tmp_path: Path) -> None:
    corpus = "simulated:contexts=12,people=8,passage=4"
    for name, model in (("one", "toy"), ("two", "toy:temperature=4")):
        run_job(WordJob(corpus, (model,), samples=8, n_splits=2), tmp_path / name).db.close()
    other = "simulated:contexts=12,people=8,passage=4,seed=1"
    run_job(WordJob(other, ("toy",), samples=8, n_splits=2), tmp_path / "three").db.close()
    with explored(*(tmp_path / name for name in ("one", "two", "three"))) as explorer:
        page = get(explorer, "/compare?a=0:toy&b=1:toy:temperature=4&measure=sq_distance")
        assert "On 12 common contexts" in page
        assert "oracle (two)" in page
        assert "(three)" not in page  # another corpus
        shown = get(explorer, "/run/0/context?no=1&a=0:toy&b=1:toy:temperature=4")
        assert 'data-series="toy:temperature=4"' in shown
        assert get(explorer, "/").count("<tr data-run=") == 3
