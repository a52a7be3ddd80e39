"""Persons at the text level: changes without each of them, and intervals that cover them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aleatoric.inference.persons import METHOD, read_changes
from aleatoric.levels import base, text_scoring
from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.rng import stream
from aleatoric.runs.run import Store
from aleatoric.types import Estimate

WORDS = np.array(["a", "b", "c", "d", "e", "f"])


def text(rng: np.random.Generator, habit: int | None = None) -> str:
    """Five words; a person's habit is a word of half of them."""
    words = rng.choice(WORDS, 5)
    if habit is not None:
        words[rng.random(5) < 0.7] = WORDS[habit]
    return " ".join(words)


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def panel(folder: Path, seed: int, n_items: int, n_people: int, named: bool = True) -> TextJob:
    """The same people write for every input; their habits differ."""
    rng = stream(seed, "panel")
    habits = rng.integers(len(WORDS), size=n_people)
    folder.mkdir(exist_ok=True)
    people, model = [], []
    for i in range(n_items):
        texts = [text(rng, habit) for habit in habits]
        references: list[Any] = texts
        if named:
            references = [{"person": f"p{k}", "text": own} for k, own in enumerate(texts)]
        people.append({"id": f"i{i}", "input": "x", "references": references})
        model.append({"id": f"i{i}", "texts": [text(rng, int(rng.integers(6))) for _ in range(4)]})
    recorded = f"recorded:{lines(folder / 'model.jsonl', model)}"
    path = lines(folder / "people.jsonl", people)
    return TextJob(
        str(path), (recorded,), probes=("lexical-1",), tokeniser="whitespace", n_splits=1
    )


def estimates(store: Store) -> dict[tuple[str, str], Estimate]:
    return {(r.system, r.metric): r.estimate for r in base.results(store)}


def means(store: Store, metric: str) -> np.ndarray:
    return np.array([row.value for row in store.rows("model", f"{metric}/lexical-1")])


def test_changes_are_those_without_each_person(tmp_path: Path) -> None:
    job = panel(tmp_path / "all", 1, 3, 5)
    with run_job(job, tmp_path / "run") as store:
        saved = store.meta(text_scoring.PERSONS_KEY)
        whole = {name: means(store, name) for name in ("mean_H", "mean_C")}
        assert set(saved) == {f"{CONTROL}/lexical-1", "model/lexical-1"}
        changes = read_changes(saved["model/lexical-1"], 2)
    rows = [json.loads(line) for line in Path(job.corpus).read_text().splitlines()]
    without = []
    for k in range(5):
        kept = [
            {**r, "references": [t for j, t in enumerate(r["references"]) if j != k]} for r in rows
        ]
        folder = tmp_path / f"without{k}"
        folder.mkdir()
        path = lines(folder / "people.jsonl", kept)
        other = TextJob(
            str(path), job.models, probes=job.probes, tokeniser="whitespace", n_splits=1
        )
        with run_job(other, folder / "run") as store:
            without.append([means(store, name) for name in whole])
    naive = np.array(without).transpose(2, 0, 1)  # inputs, persons, sides
    naive = naive - naive.mean(axis=1, keepdims=True)
    assert changes[..., :2] == pytest.approx(naive, abs=1e-12)
    assert (changes[..., 2] == 1).all()


def test_intervals_cover_persons_only_where_they_are_known(tmp_path: Path) -> None:
    found = {}
    for named in (True, False):
        job = panel(tmp_path / str(named), 2, 12, 8, named)
        with run_job(job, tmp_path / f"run{named}") as store:
            found[named] = estimates(store)
            notes = base.notes(store)
            assert any("texts have persons" in note for note in notes) == named
    for metric in text_scoring.PERSON_METRICS:
        key = ("model", f"{metric}/lexical-1")
        both, groups = found[True][key], found[False][key]
        assert both.value == groups.value
        assert both.interval is not None
        assert groups.interval is not None
        assert both.interval.method.startswith(METHOD)
        widths = [e.interval.high - e.interval.low for e in (both, groups) if e.interval]
        assert widths[0] > widths[1] * 0.99
    h = found[True][CONTROL, "mean_H/lexical-1"].interval
    plain = found[False][CONTROL, "mean_H/lexical-1"].interval
    assert h is not None
    assert plain is not None
    assert h.high - h.low > 1.5 * (plain.high - plain.low)
    for metric in ("dmu_M", "dmu_C", "w1_M"):  # people against people
        key = (CONTROL, f"{metric}/lexical-1")
        assert found[True][key] == found[False][key]
    assert found[True]["model", "mean_M/lexical-1"] == found[False]["model", "mean_M/lexical-1"]


@pytest.mark.long
def test_intervals_of_a_panel_cover_the_true_value(tmp_path: Path) -> None:
    rng = stream(0, "truth")
    pairs = [(text(rng, int(a)), text(rng, int(b))) for a, b in rng.integers(6, size=(40000, 2))]
    shared = [
        sum(w in b.split() for w in a.split()) + sum(w in a.split() for w in b.split())
        for a, b in pairs
    ]
    truth = 1 - float(np.mean(shared)) / 10
    covered = {True: 0, False: 0}
    for seed in range(60):
        for named in covered:
            job = panel(tmp_path / f"{named}{seed}", seed, 15, 10, named)
            with run_job(job, tmp_path / f"run{named}{seed}") as store:
                interval = estimates(store)[CONTROL, "mean_H/lexical-1"].interval
                assert interval is not None
                covered[named] += interval.low <= truth <= interval.high
    assert covered[True] >= 51  # 95% of 60 is 57; less than 51 has a chance below 1%
    assert covered[False] < 51  # people's habits are not in it
