"""Participants through a whole run: saved with the items, used in intervals and notes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from canonical_run import canonical_bytes

from aleatoric.inference.persons import METHOD, METRICS
from aleatoric.levels import base
from aleatoric.levels import word as pipeline
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob, results
from aleatoric.nextword.answers import Reading, ReadItems
from aleatoric.reporting.views import view_of
from aleatoric.result_types import Result
from aleatoric.runs.run import Store
from aleatoric.studies.compare import compare
from aleatoric.types import Choices, Item

WORDS = ("sea", "harbour", "island", "night")
GROUPS, CONTEXTS, PERSONS = 6, 4, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of the same answers, with and without participants, and two recorded models."""
    folder = tmp_path_factory.mktemp("persons")
    rng = np.random.default_rng(0)
    habits = rng.dirichlet(np.full(len(WORDS), 0.3), PERSONS)
    rows, plain, models = [], [], ([], [])
    for number in range(GROUPS * CONTEXTS):
        given = [str(rng.choice(WORDS, p=own)) for own in habits]
        given[0] = "..." if number == 3 else given[0]  # holds no word
        row = {"id": number, "group": number // CONTEXTS, "context": f"Context {number} the"}
        answers = [{"person": f"p{i}", "answer": word} for i, word in enumerate(given)]
        rows.append({**row, "responses": answers})
        plain.append({**row, "responses": given})
        for own, weights in zip(models, ([0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]), strict=True):
            counts = dict(zip(WORDS, rng.multinomial(20, weights).tolist(), strict=True))
            own.append({"id": number, "samples": counts})
    named = {"persons": rows, "plain": plain, "one": models[0], "two": models[1]}
    for name, found in named.items():
        lines = "".join(json.dumps(row) + "\n" for row in found)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


def run_of(folder: Path, name: str) -> Store:
    models = tuple(f"recorded:{folder / model}.jsonl" for model in ("one", "two"))
    return run_job(WordJob(str(folder / f"{name}.jsonl"), models), folder / f"run-{name}")


@pytest.fixture(scope="module")
def with_persons(folder: Path) -> Store:
    return run_of(folder, "persons")


@pytest.fixture(scope="module")
def without(folder: Path) -> Store:
    return run_of(folder, "plain")


def by_name(store: Store, interval: str = "auto") -> dict[tuple[str, str], Result]:
    return {(r.system, r.metric): r for r in results(store, interval)}


def test_participants_are_saved_with_answers_that_contain_a_word(with_persons: Store) -> None:
    items = [item for _, item, _ in with_persons.walk()]
    assert items[0].persons == tuple(f"p{i}" for i in range(PERSONS))
    assert items[3].persons == items[0].persons[1:]
    assert all(len(item.persons or ()) == len(item.responses) for item in items)


def test_word_rule_drops_participant_with_answer() -> None:
    item = Item("1", "1", "The", ("sea.", "???", "Night"), persons=("a", "b", "c"))
    [found] = ReadItems([item], Reading.of(Choices()))
    assert (found.responses, found.persons) == (("sea", "Night"), ("a", "c"))
    [found] = ReadItems([replace(item, persons=None)], Reading.of(Choices()))
    assert found.persons is None


def test_participants_widen_intervals_but_keep_values(with_persons: Store, without: Store) -> None:
    found, plain = by_name(with_persons), by_name(without)
    assert found.keys() == plain.keys()
    for (system, metric), own in found.items():
        other = plain[system, metric].estimate
        assert own.estimate.value == other.value
        interval = own.estimate.interval
        if metric in METRICS and system != "oracle" and interval is not None:
            assert interval.method.startswith(METHOD)
            assert other.interval is not None
            width = interval.high - interval.low
            assert width >= 0.9 * (other.interval.high - other.interval.low), (system, metric)
        else:
            assert interval == other.interval
    gap = found["human", "agreement_H"].estimate.interval
    group_gap = plain["human", "agreement_H"].estimate.interval
    assert gap is not None
    assert group_gap is not None
    assert gap.high - gap.low > 1.2 * (group_gap.high - group_gap.low)


def test_explicit_bootstrap_resamples_groups(with_persons: Store, without: Store) -> None:
    found, plain = (by_name(own, "percentile") for own in (with_persons, without))
    assert {k: r.estimate for k, r in found.items()} == {k: r.estimate for k, r in plain.items()}


def test_notes_name_sources_of_variation_in_intervals(with_persons: Store, without: Store) -> None:
    assert any("cover people as well as groups" in note for note in base.notes(with_persons))
    assert not any("persons" in note for note in base.notes(without))
    assert any("not about other people" in note for note in compare([with_persons]).notes)
    assert not any("persons" in note for note in compare([without]).notes)


def test_table_names_interval_method(with_persons: Store, without: Store) -> None:
    tables = (view_of("word").tables(results(own))[0] for own in (with_persons, without))
    notes, plain = ("\n".join(table.notes) for table in tables)
    assert METHOD in notes
    assert METHOD not in plain


def test_rescoring_saves_same_participant_data(with_persons: Store) -> None:
    before = [own.estimate for own in results(with_persons)]
    pipeline.score_word(with_persons)
    assert [own.estimate for own in results(with_persons)] == before


def test_no_participant_data_is_saved_without_participants(without: Store) -> None:
    saved = [json.loads(line) for line in canonical_bytes(without).splitlines()]
    answers = [json.loads(columns[-1]) for kind, *columns in saved if kind == "item"]
    assert all(isinstance(word, str) for own in answers for word in own)
    keys = [key for (key,) in without.db.execute("SELECT key FROM meta")]
    assert not [key for key in keys if "person" in key]
