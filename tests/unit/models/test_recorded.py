"""Recorded draws: matching rows to items, notes on unmatched rows, and raw texts."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aleatoric import cli
from aleatoric.data.files import stem
from aleatoric.errors import DataError
from aleatoric.levels import word
from aleatoric.levels.base import notes, run_job
from aleatoric.models import recorded
from aleatoric.models.base import Ask
from aleatoric.runs.run import Store
from aleatoric.runs.session import label_of
from aleatoric.types import Draws

ASK = Ask("as recorded", 1000, 0)
PEOPLE = [
    {"passage": 1, "position": 2, "context": "There", "original": "are", "human": {"are": 2}},
    {"passage": 1, "position": 3, "context": "There are", "human": {"now": 1, "many": 3}},
    {"passage": 2, "position": 2, "context": "It", "human": {"is": 2, "was": 2}},
]


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read(path: Path, *rows: dict[str, Any]) -> list[Draws]:
    model = recorded.load(str(write(path, *rows)))
    return list(model.draws((), ASK))


@contextmanager
def run(folder: Path, *rows: dict[str, Any], choices: tuple[str, ...] = ()) -> Iterator[Store]:
    corpus = write(folder / "people.jsonl", *PEOPLE)
    model = write(folder / "model.jsonl", *rows)
    job = word.WordJob(str(corpus), (f"recorded:{model}",), choose=choices, n_splits=2)
    with run_job(job, folder / "run") as store:
        yield store


def tvd(store: Store) -> tuple[float | None, int, int]:
    """The model's expected TVD, the items behind it, and the items it has no row for."""
    found = next(r for r in word.results(store) if (r.system, r.metric) == ("model", "tvd"))
    return found.estimate.value, found.estimate.n_items, found.estimate.n_missing


def about_model(store: Store) -> list[str]:
    return [note for note in notes(store) if note.startswith("model:")]


def test_rows_match_items_by_id_or_by_passage_and_position(tmp_path: Path) -> None:
    draws = read(
        tmp_path / "m.jsonl",
        {"id": "1:2", "samples": {"are": 1}},
        {"id": 7, "samples": {"are": 1}},
        {"passage": 1, "position": 3, "samples": {"are": 1}},
        {"passage": "a", "position": "b", "samples": {"are": 1}},
        {"id": "mine", "passage": 1, "position": 3, "samples": {"are": 1}},
    )
    assert [d.item_id for d in draws] == ["1:2", "7", "1:3", "a:b", "mine"]


def test_rows_by_id_and_by_position_are_pooled(tmp_path: Path) -> None:
    by_id = {"id": "1:2", "samples": {"are": 1}}
    by_place = {"passage": 1, "position": 2, "samples": {"is": 3}}
    with run(tmp_path, by_id, by_place) as store:
        [(item, draws)] = store.walk_system("model")
        assert item.id == "1:2"
        assert [(d.row, dict(d.counts)) for d in draws] == [(0, {"are": 1}), (1, {"is": 3})]


@pytest.mark.parametrize("name", ["samples", "counts"])
def test_samples_and_counts_fields_are_equivalent(tmp_path: Path, name: str) -> None:
    [draws] = read(tmp_path / "m.jsonl", {"id": "1:2", name: {"a": 2, "b": 0}, "failed": 3})
    assert draws == Draws("1:2", {"a": 2}, failed=3)


@pytest.mark.parametrize("name", ["samples", "texts"])
def test_raw_text_field_aliases_are_equivalent(tmp_path: Path, name: str) -> None:
    [draws] = read(tmp_path / "m.jsonl", {"id": "1:2", name: [" a dog", "", "\n"]})
    assert draws == Draws("1:2", {}, texts=(" a dog", "", "\n"))


def test_log_probabilities_are_not_renormalised(tmp_path: Path) -> None:
    [draws] = read(tmp_path / "m.jsonl", {"id": "1:2", "logprobs": {"a": -1, "b": -2}})
    assert draws.logprobs == {"a": -1.0, "b": -2.0}


def test_probabilities_that_sum_to_more_than_1_are_rejected(tmp_path: Path) -> None:
    message = "m.jsonl, line 1: the probabilities of item '1:2' sum to 1.36788, more than 1"
    with pytest.raises(DataError, match=message):
        read(tmp_path / "m.jsonl", {"id": "1:2", "logprobs": {"a": -1, "b": 0}})
    assert read(tmp_path / "m.jsonl", {"id": "1:2", "logprobs": {"a": 0, "b": -20}})


@pytest.mark.parametrize("number", [-9999.0, -12345])
def test_placeholders_of_servers_are_no_log_probabilities(tmp_path: Path, number: float) -> None:
    message = f"m.jsonl, line 1: {number:g} of 'b' is what servers write .*; leave this word out"
    with pytest.raises(DataError, match=message):
        read(tmp_path / "m.jsonl", {"id": "1:2", "logprobs": {"a": -1, "b": number}})


def test_items_without_any_draw_are_noted(tmp_path: Path) -> None:
    rows = [{"id": "1:3", "samples": {}}, {"id": "1:2", "texts": []}, {"id": "1:2", "samples": {}}]
    filled = {"id": "1:2", "samples": {"are": 1}}
    cases = {
        "no": (rows, "1 of 3 items have no row and 2 of 3 items have a row without any draw"),
        "late": ([*rows, filled], "1 of 3 items have no row and 1 of 3 items have a row without"),
        "early": ([filled, *rows], "1 of 3 items have no row and 1 of 3 items have a row without"),
        "failed": ([rows[0] | {"failed": 1}], "2 of 3 items have no row and are left out"),
    }
    for name, (given, note) in cases.items():
        (tmp_path / name).mkdir()
        with run(tmp_path / name, *given) as store:
            assert [said for said in about_model(store) if said.startswith(f"model: {note}")]


def test_recording_is_named_after_file_and_identified_by_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "gpt2.v1.jsonl", {"id": "1", "samples": {"a": 1}})
    packed = tmp_path / "gpt2.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    one, other = recorded.load(str(path)), recorded.load(str(packed))
    assert (one.label, other.label, one.estimator) == ("gpt2.v1", "gpt2", "recorded")
    assert one.version != other.version
    assert list(one.draws((), ASK)) == list(other.draws((), ASK))


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ("turk.wrong.jsonl turk.perfect.jsonl turk.jsonl", "turk.wrong turk.perfect turk"),
        ("a/gpt2.jsonl b/gpt2.jsonl.gz", "a/gpt2 b/gpt2"),
        ("a/gpt2.jsonl a/gpt2.json", "gpt2.jsonl gpt2.json"),
        ("a/x/gpt2.jsonl b/x/gpt2.jsonl", "a/x/gpt2.jsonl b/x/gpt2.jsonl"),
        ("a.jsonl?system=s b.jsonl?system=s b.jsonl?system=t", "a/s b/s t"),
        ("a/human.jsonl a/toy.jsonl", "a/human a/toy"),
    ],
)
def test_label_of_recording_does_not_depend_on_order(names: str, labels: str) -> None:
    specs = [f"recorded:{name}" for name in names.split()]
    for order in ([*specs, "toy"], ["toy", *reversed(specs)]):
        found = [label_of(_short(spec), spec, order, ("human",)) for spec in specs]
        assert found == labels.split()
    assert label_of("toy", "toy", specs, ("human",)) == "toy"


def _short(spec: str) -> str:
    path, _, system = spec.removeprefix("recorded:").partition("?system=")
    return system or stem(Path(path))


def test_unmatched_rows_and_items_are_counted(tmp_path: Path) -> None:
    stranger = {"id": "9:9", "samples": {"x": 1}}
    with run(tmp_path, {"id": "1:2", "samples": {"are": 2}}, stranger, stranger) as store:
        assert tvd(store) == (0.0, 1, 2)
        assert about_model(store) == [
            "model: 2 of 3 items have no row and are left out",
            "model: 2 rows name no item of the corpus and are left out",
        ]


def test_complete_recording_has_no_notes(tmp_path: Path) -> None:
    rows = [{**who, "samples": who["human"]} for who in PEOPLE]
    with run(tmp_path, *rows) as store:
        assert tvd(store) == (0.0, 3, 0)
        assert about_model(store) == []


REPEATED = [
    {"id": "1:2", "samples": {"are": 1}},
    {"id": "1:2", "samples": {"is": 1}},
    {"id": "1:2", "samples": {"is": 2}},
]


def test_repeated_rows_are_pooled_per_item(tmp_path: Path) -> None:
    with run(tmp_path, *REPEATED) as store:
        assert tvd(store) == (pytest.approx(0.75), 1, 2)
        assert "model: 2 rows repeat an item and count as further samples" in about_model(store)


def test_repeated_rows_can_count_as_separate_items(tmp_path: Path) -> None:
    with run(tmp_path, *REPEATED, choices=("repeats=separate",)) as store:
        assert tvd(store) == (pytest.approx(2 / 3), 3, 2)
        assert "model: 2 rows repeat an item and count as items of their own" in about_model(store)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ((), 0.5),  # are, is; the text without a word is rejected
        (("rule=paper",), 1.0),  # arethey, isnt
        (("lead=condition",), 0.0),  # are; the quoted one does not follow at once
        (("failed=outcome",), 2 / 3),  # are, is, no word
    ],
)
def test_raw_texts_are_read_with_chosen_word_rule(
    tmp_path: Path, choices: tuple[str, ...], expected: float
) -> None:
    row = {"id": "1:2", "texts": [" are\nthey", ' "is-', "?!"]}
    if "rule=paper" in choices:
        row = {"id": "1:2", "texts": [" are\nthey", " isn't", "?!"]}
    with run(tmp_path, row, choices=choices) as store:
        assert tvd(store)[0] == pytest.approx(expected)


def test_item_without_any_drawn_word_is_undefined_and_counted(tmp_path: Path) -> None:
    empty = [{"id": "1:2", "texts": ["..."]}, {"id": "1:3", "samples": {}, "failed": 4}]
    good = {"id": "2:2", "samples": {"is": 1, "was": 1}}
    with run(tmp_path, *empty, {"id": "1:3", "samples": {}}, good) as store:
        found = next(r for r in word.results(store) if (r.system, r.metric) == ("model", "tvd"))
        assert (found.estimate.value, found.estimate.n_undefined) == (0.0, 2)


def test_json_output_reports_missing_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write(tmp_path / "people.jsonl", *PEOPLE)
    model = write(tmp_path / "model.jsonl", *REPEATED, {"id": "x", "samples": {"a": 1}})
    argv = ["aleatoric", "word", "--corpus", str(corpus), "--model", f"recorded:{model}"]
    monkeypatch.setattr(sys, "argv", [*argv, "--splits", "2", "--json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    found = json.loads(capsys.readouterr().out)
    assert len(found["notes"]) == 3
    of_model = [r for r in found["results"] if (r["system"], r["metric"]) == ("model", "tvd")]
    assert [r["estimate"]["n_missing"] for r in of_model] == [2]


def test_recorded_table_is_rejected_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "model.csv"
    path.write_text("id,word\n1,a\n")
    with pytest.raises(DataError, match="one JSON object per line, because tables are not read"):
        list(recorded.load(str(path)).draws((), ASK))
