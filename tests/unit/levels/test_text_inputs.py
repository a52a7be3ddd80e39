"""Tests and labels of single inputs in runs: saved, exported, undefined with a reason."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aleatoric as al
from aleatoric.errors import UsageError
from aleatoric.levels.base import results, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.text_inputs import label_counts, labels_of
from aleatoric.reporting.texts import counts_of, label_tables
from aleatoric.runs.run import Store, stat_columns
from aleatoric.studies.export import item_rows, write

WORDS = np.array([f"w{i}" for i in range(30)])
Written = Mapping[str, Sequence[str]]


def lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(seed: int, n: int, words: int = 6) -> list[str]:
    drawn = np.random.default_rng(seed).choice(len(WORDS), (n, words))
    return [" ".join(own) for own in WORDS[drawn]]


def run_of(folder: Path, people: Written, model: Written, **options: Any) -> Store:
    folder.mkdir(exist_ok=True)
    rows = [{"id": i, "input": f"say {i}", "references": own} for i, own in people.items()]
    corpus = lines(folder / "people.jsonl", rows)
    recorded = lines(folder / "bot.jsonl", ({"id": i, "texts": t} for i, t in model.items()))
    options = {"probes": ("lexical-1", "lexical-2"), "tokeniser": "whitespace", **options}
    return run_job(TextJob(str(corpus), (f"recorded:{recorded}",), **options), folder / "run")


@pytest.fixture(scope="module")
def people() -> Written:
    return {f"{i}": texts(i, 6) for i in range(8)}


@pytest.fixture(scope="module")
def model() -> Written:
    return {f"{i}": texts(100 + i, 1) * 6 if i % 2 else texts(100 + i, 6) for i in range(8)}


def p_values(store: Store) -> dict[str, list[float]]:
    names = [name for name in store.stat_columns() if name.startswith("p_")]
    return {k: v.tolist() for k, v in stat_columns(store, "bot", names)[1].items()}


def test_labels_of_repeated_and_varied_texts(
    tmp_path: Path, people: Written, model: Written
) -> None:
    with run_of(tmp_path / "a", people, model) as store:
        labels = labels_of(store, "bot")
        expected = ["varies as people", "varies less"] * 4
        assert list(labels["variability/lexical-1"]) == expected
        assert list(labels["length"]) == ["as long"] * 8
        (first, _) = label_counts(store, ["bot"])
        assert (first.more, first.less, first.as_people, first.n_untested) == (0, 4, 4, 0)
        (table,) = label_tables(counts_of(store))
        assert table.rows[0][:5] == ("lexical-1", "bot", "0", "4", "4")
        # p-values are of single inputs: they are no metrics of the run.
        assert not any(result.metric.startswith("p_") for result in results(store))


def test_p_values_do_not_depend_on_order_other_inputs_or_batches(
    tmp_path: Path, people: Written, model: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_of(tmp_path / "a", people, model) as store:
        whole = p_values(store)
    assert {len(own) for own in whole.values()} == {8}
    backwards = dict(reversed(people.items()))
    monkeypatch.setattr("aleatoric.levels.text_scoring.CHUNK", 3)
    with run_of(tmp_path / "b", backwards, model) as store:
        assert {k: own[::-1] for k, own in p_values(store).items()} == whole
    with run_of(tmp_path / "c", {"5": people["5"]}, {"5": model["5"]}) as store:
        assert p_values(store) == {k: [own[5]] for k, own in whole.items()}


def test_inputs_with_few_texts_are_not_tested(tmp_path: Path) -> None:
    people = {"few": texts(1, 3), "enough": texts(2, 4), "empty": texts(3, 6)}
    model = {"few": texts(4, 3), "enough": texts(5, 3), "empty": ["a", *["b"] * 3, "c", "d"]}
    with run_of(tmp_path / "a", people, model) as store:
        found = p_values(store)
        assert [np.isnan(p) for p in found["p_M/lexical-1"]] == [True, False, False]
        # No text of the generator has two words: none of its pairs has a distance.
        assert [np.isnan(p) for p in found["p_M/lexical-2"]] == [True, False, True]
        counts = {c.probe: c for c in label_counts(store, ["bot"])}
        assert [counts[f"lexical-{n}"].n_untested for n in (1, 2)] == [1, 2]
        (table,) = label_tables(counts_of(store))
        assert [row[-1] for row in table.rows] == ["2 of 3", "1 of 3"]
        assert any("too few texts" in note for note in table.notes)


def test_lengths_that_differ_are_cut_and_labelled(tmp_path: Path) -> None:
    people = {f"{i}": texts(i, 8) for i in range(6)}
    model = {f"{i}": texts(50 + i, 8, words=18) for i in range(6)}
    with run_of(tmp_path / "a", people, model, probes=("lexical-1",)) as store:
        assert list(labels_of(store, "bot")["length"]) == ["longer"] * 6
        (counts,) = label_counts(store, ["bot"])
        assert counts.same_length
        assert counts.as_people == 6
        raw = stat_columns(store, "bot", ["p_M/lexical-1"])[1]["p_M/lexical-1"]
        assert (raw <= 0.05).all()  # of the whole texts, which share more words
        (table,) = label_tables([counts])
        assert any("cut to the same lengths for bot" in note for note in table.notes)


def test_without_permutations_nothing_is_tested(
    tmp_path: Path, people: Written, model: Written
) -> None:
    with run_of(tmp_path / "a", people, model, permutations=0) as store:
        assert not p_values(store)
        assert labels_of(store, "bot") == {}
        assert label_tables(counts_of(store)) == []


def test_items_and_export_have_labels(tmp_path: Path, people: Written, model: Written) -> None:
    store = run_of(tmp_path / "a", people, model)
    write(item_rows(store), tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    store.close()
    labels = {row["item"]: row["variability/lexical-1"] for row in rows if row["system"] == "bot"}
    assert labels["1"] == "varies less"
    assert {r["variability/lexical-1"] for r in rows if r["system"] == "control"} == {""}
    with al.open(tmp_path / "a" / "run") as run:
        expression = "`variability/lexical-1` == 'varies less' and `mean_M/lexical-2` < 0.1"
        chosen = run.items_where(expression)
        assert chosen == ["1", "3", "5", "7"]
        pytest.importorskip("pandas")
        assert run.items().query(expression)["item"].tolist() == chosen
        assert run.items_where(expression, system="bot") == chosen
        with pytest.raises(UsageError, match="known are"):
            run.items_where("mean_X < 1")
