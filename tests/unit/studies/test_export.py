"""Exported texts and distances: every pair once, the distances of the scores, flat memory."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import aleatoric as al
from aleatoric.errors import UsageError
from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.rng import stream
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.studies import export

WORDS = ("the", "a", "cat", "dog", "sat", "ran", "=1+1")
PROBES = ("lexical-1", "lexical-2")


def lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def drawn(name: str, i: int, n: int) -> list[str]:
    rng = stream(3, name, i)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 5))) for _ in range(n)]


@pytest.fixture
def run(tmp_path: Path) -> Store:
    people = [
        {
            "id": f"i{i}",
            "group": f"g{i // 2}",
            "input": "x",
            "references": drawn("people", i, 2 + i),
        }
        for i in range(5)
    ]
    systems = {
        name: lines(
            tmp_path / f"{name}.jsonl",
            [{"id": f"i{i}", "texts": drawn(name, i, n)} for i in range(5) if i != skipped],
        )
        for name, n, skipped in (("one", 3, None), ("two", 4, 2))
    }
    models = tuple(f"recorded:{path}" for path in systems.values())
    corpus = lines(tmp_path / "people.jsonl", people)
    job = TextJob(str(corpus), models, probes=PROBES, tokeniser="whitespace", n_splits=2)
    return run_job(job, tmp_path / "run")


def test_texts_are_exported_once_each(run: Store, tmp_path: Path) -> None:
    export.write(export.text_rows(run), tmp_path / "texts.parquet")
    found = pd.read_parquet(tmp_path / "texts.parquet")
    assert list(found.columns) == ["item", "group", "side", "system", "number", "person", "text"]
    for produced in StoredTexts(run).walk():
        own = found[found.item == produced.item.id]
        assert set(own.group) == {produced.item.group}
        people = own[own.side == "people"]
        assert people.system.isna().all()
        assert tuple(people.sort_values("number").text) == produced.item.references
        for name in ("one", "two"):
            texts = own[own.system == name].sort_values("number")
            assert tuple(texts.text) == produced.systems.get(name, ())
    assert len(found) == sum(2 + i for i in range(5)) + 5 * 3 + 4 * 4


def test_pairs_are_those_of_the_scores(run: Store, tmp_path: Path) -> None:
    export.write(export.pair_rows(run), tmp_path / "pairs.parquet")
    found = pd.read_parquet(tmp_path / "pairs.parquet")
    assert not found.duplicated(["item", "probe", "kind", "system", "i", "j"]).any()
    for produced in StoredTexts(run).walk():
        n = len(produced.item.references)
        for probe in PROBES:
            own = found[(found.item == produced.item.id) & (found.probe == probe)]
            human = own[own.kind == "H"]
            assert [*zip(human.i, human.j, strict=True)] == [*combinations(range(n), 2)]
            for name in produced.systems:
                m = len(produced.systems[name])
                both = own[own.system == name]
                pairs = {k: both[both.kind == k] for k in "MC"}
                numbers = {k: [*zip(v.i, v.j, strict=True)] for k, v in pairs.items()}
                assert numbers["M"] == [*combinations(range(m), 2)]
                assert numbers["C"] == [*product(range(m), range(n))]
                (energy,) = (
                    row.value
                    for row in run.rows(name, f"energy/{probe}")
                    if row.item_id == produced.item.id
                )
                means = [v.distance.mean() for v in (pairs["C"], pairs["M"], human)]
                wanted = 2 * means[0] - means[1] - means[2]
                assert (energy is None) == bool(np.isnan(wanted))
                assert energy is None or energy == pytest.approx(wanted, abs=1e-12)
    distance = found[(found.probe == "lexical-2")].distance
    assert 0 < distance.isna().sum() < len(distance)  # one-word texts have no bigram


def test_the_numbers_of_a_pair_name_its_texts(run: Store) -> None:
    tables = (export.to_table(export.text_rows(run)), export.to_table(export.pair_rows(run)))
    texts, pairs = (table.to_pandas().fillna({"system": ""}) for table in tables)
    by_place = {(row.item, row.system, row.number): row.text.split() for row in texts.itertuples()}
    for row in pairs[pairs.probe == "lexical-1"].itertuples():
        left = by_place[row.item, row.system, row.i]
        right = by_place[row.item, row.system if row.kind == "M" else "", row.j]
        shared = sum(w in right for w in left) + sum(w in left for w in right)
        assert row.distance == pytest.approx(1 - shared / len(left + right), abs=1e-12)


def test_batches_are_bounded_and_any_size_gives_the_same_rows(
    run: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = export.to_table(export.pair_rows(run)).to_pandas()
    monkeypatch.setattr(export, "BATCH", 20)
    monkeypatch.setattr(export, "CHUNK", 2)
    _, batches = export.pair_rows(run)
    sizes = [len(batch) for batch in batches]
    most = max(len(PROBES) * 4 * 6, 20)  # one input, or 20 rows
    assert max(sizes) <= most
    keys = ["item", "probe", "kind", "system", "i", "j"]
    again = export.to_table(export.pair_rows(run)).to_pandas()
    pd.testing.assert_frame_equal(
        *(frame.sort_values(keys, ignore_index=True) for frame in (whole, again))
    )


def test_python_and_csv(run: Store, tmp_path: Path) -> None:
    export.write(export.text_rows(run), tmp_path / "texts.csv")
    found = pd.read_csv(tmp_path / "texts.csv")
    assert not found.text.str.startswith("=").any()
    run.close()
    with al.open(tmp_path / "run") as opened:
        assert len(opened.texts()) == len(found)
        assert set(opened.pairs().kind) == {"H", "M", "C"}


def test_other_levels_have_no_texts(tmp_path: Path) -> None:
    with al.word("simulated:contexts=4,people=3", "toy", tmp_path / "words", progress=False) as run:
        with pytest.raises(UsageError, match="give a run of aleatoric text"):
            run.texts()
        with pytest.raises(UsageError, match="give a run of aleatoric text"):
            run.pairs()
