"""A part of a corpus: which items it holds, and that every number says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aleatoric.data.opening import open_corpus
from aleatoric.data.selection import Selection, named_groups, select_items
from aleatoric.errors import UsageError
from aleatoric.levels.base import resume_run, run_job
from aleatoric.levels.word import WordJob
from aleatoric.runs.formats import DamagedRowError
from aleatoric.runs.run import Store

CORPUS = "simulated:contexts=40,people=3,passage=10"


def ids(**options: object) -> list[str]:
    corpus = select_items(open_corpus(CORPUS), Selection(**options))  # type: ignore[arg-type]
    found = [item.id for item in corpus.items]
    assert len(corpus.items) == len(found)
    assert [item.id for item in corpus.items] == found
    return found


def test_the_first_items() -> None:
    assert ids(limit=3) == ["1:2", "1:3", "1:4"]
    assert len(ids(limit=1000)) == 40


def test_a_sample_keeps_the_order_and_depends_on_the_seed_alone() -> None:
    everything = ids()
    sample = ids(sample=10, seed=3)
    assert len(sample) == 10
    assert [i for i in everything if i in sample] == sample == ids(sample=10, seed=3)
    assert sample != ids(sample=10, seed=4)
    assert set(ids(sample=5, seed=3)) < set(sample)
    assert sample == ids(sample=10, seed=3)
    assert ids(sample=40) == everything


def test_groups_are_selected_first() -> None:
    assert {i.partition(":")[0] for i in ids(groups="2-3")} == {"2", "3"}
    assert ids(groups="4", limit=2) == ["4:2", "4:3"]
    assert {i.partition(":")[0] for i in ids(groups="1,4", sample=20)} == {"1", "4"}


ORDER = ["1", "2", "10", "3", "a-b", "c,d", "e"]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("1-3", ["1", "2", "3"]),
        ("3 - 1, 10", ["1", "2", "10", "3"]),
        ("a-b", ["a-b"]),
        ("a-b-e", ["a-b", "c,d", "e"]),
        ("c,d", ["c,d"]),
        ("e,1", ["1", "e"]),
    ],
)
def test_groups_are_names_and_ranges(text: str, groups: list[str]) -> None:
    assert named_groups(text, ORDER) == groups


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"groups": "1-55"},
            r"no group '55'; the nearest of the 4 groups are '4', '3', '2', '1'\.",
        ),
        ({"groups": "2b"}, r"no group '2b'; the nearest of the 4 groups are '2'\."),
        ({"groups": ""}, "no group ''; the first of the 4 groups are '1', '2', '3', '4'"),
        ({"sample": 41}, "--sample 41 is more than the 40 items there are; use at most 40"),
        ({"sample": 2, "limit": 2}, "exclude each other; give one"),
    ],
)
def test_bad_selections_are_one_sentence(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ids(**options)


def signatures(store: Store) -> set[str]:
    from aleatoric.levels.base import results

    return {str(result.signature).partition("|")[0] for result in results(store, "none")}


def test_a_run_says_that_it_is_a_part_and_is_resumed_as_one(tmp_path: Path) -> None:
    job = WordJob(CORPUS, ("toy",), sample=6, groups="1-3", seed=5)
    with run_job(job, tmp_path / "run") as store:
        saved = [item.id for _, item, _ in store.walk()]
        (name,) = signatures(store)
        assert name.startswith("corpus:simulated[groups=1-3;sample=6,seed=5]#")
        assert WordJob.from_manifest(store.manifest, {}) == job
    with resume_run(tmp_path / "run") as store:
        assert [item.id for _, item, _ in store.walk()] == saved
    with pytest.raises(UsageError, match="its --sample differs"):
        run_job(WordJob(CORPUS, ("toy",), sample=7, groups="1-3", seed=5), tmp_path / "run")
    assert saved == ids(sample=6, groups="1-3", seed=5)


@pytest.mark.parametrize(
    ("options", "others", "named"),
    [
        (
            "--columns response=A",
            "--columns response=B",
            ("[columns=response=A]#", "[columns=response=B]#"),
        ),
        ("--missing NA", "", ("missing=NA]#",)),
        ("--missing NA,-9", "--missing -9,NA", ()),
        ("--sample 2 --seed 1", "--sample 2 --seed 2", ("sample=2,seed=1]#", "sample=2,seed=2]#")),
    ],
)
def test_runs_that_read_a_file_differently_are_not_compared(
    cli: Callable, tmp_path: Path, options: str, others: str, named: tuple[str, ...]
) -> None:
    path = tmp_path / "c.csv"
    path.write_text("context,A,B\n" + "".join(f"{c},x,NA\n{c},y,x\n" for c in "abcde"))
    for name, given in (("1", options), ("2", others)):
        columns = () if "--columns" in given else ("--columns", "response=A")
        command = ("word", "--corpus", path, "--model", f"toy:temperature={name}", *columns)
        assert cli(*command, *given.split(), "--out", tmp_path / name).status == 0
    ran = cli("compare", tmp_path / "1", tmp_path / "2")
    assert (ran.status == 2) == bool(named)
    assert all(part in ran.err for part in named)


def test_a_manifest_without_the_selection_is_refused() -> None:
    saved = WordJob(CORPUS).saved() | {"corpus": {"spec": CORPUS, "encoding": "utf-8"}}
    del saved["sample"]
    with pytest.raises(DamagedRowError, match="sample"):
        WordJob.from_manifest(saved, {})


def test_contexts_that_show_the_gap_are_noted(cli: Callable, tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("context,response\nHe saw a ____ ,dog\nIt,was\n")
    assert "1 of 2 contexts end in '__', which models read" in cli("word", "--corpus", path).err


def test_notes_of_a_part_count_the_part_or_name_the_whole_file(
    cli: Callable, tmp_path: Path
) -> None:
    people, model = tmp_path / "people.jsonl", tmp_path / "m.jsonl"
    rows = [{"id": c, "context": c, "responses": ["x", "y", *blank]} for c, blank in PEOPLE.items()]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draws = [{"id": c, "counts": {"New York": 3, "x": 4}} for c in PEOPLE]
    model.write_text("".join(json.dumps(row) + "\n" for row in draws))
    ran = cli("word", "--corpus", people, "--model", f"recorded:{model}", "--limit", 1, "--json")
    notes = json.loads(ran.out)["notes"]
    assert "in the whole file: 2 blank answers were dropped" in notes
    assert any("m: the word rule changed 3 of 7 words" in note for note in notes)
    assert "m: 2 rows name no item of the part of the corpus and are left out" in notes


PEOPLE: dict[str, list[str]] = {"a": [], "b": [" "], "c": [" "]}
NOTE = "every number is about a part only: 2 of the 3 items of the corpus (the first 2)"


def test_all_levels_take_a_part(cli: Callable, tmp_path: Path) -> None:
    answers = [{"context": c, "responses": ["x", "y"]} for c in "abc"]
    texts = [{"input": c, "references": ["x y", "y z"]} for c in "abc"]
    for level, rows in (("word", answers), ("text", texts)):
        path = tmp_path / f"{level}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        probe = ("--probe", "lexical-1") if level == "text" else ()
        ran = cli(level, "--corpus", path, "--limit", 2, *probe, "--json")
        document = json.loads(ran.out)
        assert NOTE in document["notes"]
        assert all("[limit=2]" in result["signature"] for result in document["results"])
