"""The run directory: written completely or not at all, and readable without corpus or model."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aleatoric.errors import DataError, UsageError
from aleatoric.levels.base import notes, results, run_job, score
from aleatoric.levels.text import TextJob
from aleatoric.levels.word import WordJob, score_word
from aleatoric.runs.formats import DATABASE, StatRow
from aleatoric.runs.run import Store, stat_columns
from aleatoric.runs.tables import PAGE
from aleatoric.types import Categorical, Draws, Exact, Item

ITEMS = [Item("1:2", "1", "There", ("are", "is")), Item("1:3", "1", "There are", ("two",), "now")]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", {"level": "word", "seed": 0})


def test_items_and_draws_round_trip(store: Store) -> None:
    store.add_items(ITEMS)
    store.add_system("m", {"model": "x"})
    drawn = [Draws("1:2", {"The": 2, "the": 1}, 1), Draws("1:2", {}, 0, 1, ("raw text",))]
    joined = store.add_draws("m", [*drawn, Draws("9:9", {"a": 1})])
    assert (joined.matched, joined.unmatched, joined.repeated) == (2, 1, 1)
    walked = [(item, systems) for _, item, systems in store.walk()]
    assert walked == [(ITEMS[0], {"m": drawn}), (ITEMS[1], {})]


def test_failed_import_leaves_no_files(store: Store) -> None:
    def broken() -> object:
        yield ITEMS[0]
        raise DataError("broken")

    with pytest.raises(DataError):
        store.add_items(broken())  # type: ignore[arg-type]
    assert store.n_items == 0


def test_discard_removes_only_files_of_the_run(store: Store) -> None:
    (store.path / "mine.txt").write_text("keep")
    store.discard()
    assert [p.name for p in store.path.iterdir()] == ["mine.txt"]


def test_journal_is_write_ahead(store: Store) -> None:
    with sqlite3.connect(store.path / DATABASE) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_invalid_run_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no run directory"):
        Store.open(tmp_path)
    (tmp_path / DATABASE).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(DataError, match="damaged"):
        Store.open(tmp_path)


def test_different_job_in_same_directory_names_the_option(tmp_path: Path) -> None:
    job = WordJob("simulated:contexts=5", ("toy",), samples=5)
    run_job(job, tmp_path / "run").__exit__()
    with pytest.raises(UsageError, match="its --seed differs"):
        run_job(WordJob("simulated:contexts=5", ("toy",), samples=5, seed=1), tmp_path / "run")


def test_results_do_not_need_corpus_or_model(tmp_path: Path) -> None:
    corpus = tmp_path / "people.jsonl"
    corpus.write_text('{"context": "a", "responses": ["x", "y"]}\n')
    recorded = tmp_path / "m.jsonl"
    recorded.write_text('{"id": 1, "samples": {"x": 3}}\n')
    job = WordJob(str(corpus), (f"recorded:{recorded}",))
    run_job(job, tmp_path / "run").__exit__()
    corpus.unlink()
    recorded.unlink()
    with Store.open(tmp_path / "run") as store:
        found = {(r.system, r.metric): r.estimate.value for r in results(store)}
    assert found["m", "tvd"] == 0.5


def test_statistics_can_have_any_name(store: Store) -> None:
    hostile = "tvd REAL); DROP TABLE items; --"
    store.add_items([Item("1", "g", "a", ("x",))])
    store.add_system("m", {})
    store.write_stats(
        ["tvd", hostile, "w1_M/lexical-1"],
        [StatRow(1, "m", 0, {"tvd": 0.5, hostile: 0.25, "w1_M/lexical-1": float("nan")}, {})],
    )
    assert store.n_items == 1
    assert [row.value for row in store.rows("m", hostile)] == [0.25]
    assert [row.value for row in store.rows("m", "w1_M/lexical-1")] == [None]
    (page,) = store.stat_pages("m")
    assert page.values["tvd"].tolist() == [[0.5]]
    assert store.stat_columns()[-1] == "w1_M/lexical-1"
    with pytest.raises(UsageError, match="no statistic"):
        list(store.rows("m", "stat_1"))


@pytest.mark.long
def test_statistics_are_stored_compactly(tmp_path: Path) -> None:
    """Rows of 20 splits once took a page of the database each: 5 kB per item."""
    job = WordJob("simulated:contexts=300,people=20", ("toy",), samples=40)
    with run_job(job, tmp_path / "run") as store:
        score_word(store)
        query = "SELECT sum(length(payload)) FROM stats"
        (n_bytes,) = store.db.execute(query).fetchone()
        (n_pages,) = store.db.execute("PRAGMA page_count").fetchone()
    assert n_bytes < 1000 * 300
    assert 4096 * n_pages < 2500 * 300  # two generations of statistics at once, while replaced


def test_invalid_second_model_leaves_no_run(tmp_path: Path) -> None:
    people, good, bad = (tmp_path / f"{name}.jsonl" for name in ("people", "good", "bad"))
    people.write_text('{"context": "a", "responses": ["x", "y"]}\n')
    good.write_text('{"id": 1, "samples": {"x": 3}}\n')
    bad.write_text('{"id": 1, "samples": {"x": -3}}\n')
    job = WordJob(str(people), (f"recorded:{good}", f"recorded:{bad}"))
    with pytest.raises(DataError, match="too small"):
        run_job(job, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resume_completes_run_without_final_step(tmp_path: Path) -> None:
    """All draws are saved, but the run was killed before it was marked as finished."""
    job = WordJob("simulated:contexts=5", ("toy",), samples=5)
    with run_job(job, tmp_path / "run") as store:
        store.set_meta("done toy", False)
    with run_job(job, tmp_path / "run") as store:
        found = {(r.system, r.metric): r.estimate for r in results(store)}
    assert found["toy", "tvd"].n_items == 5


def test_page_without_splits_is_undefined_in_every_split(tmp_path: Path) -> None:
    """Thousands of items with one answer, then one with two: pages of both kinds."""
    people = tmp_path / "people.jsonl"
    alone, two = {"context": "a", "responses": ["x"]}, {"context": "a", "responses": ["x", "y"]}
    people.write_text("".join(json.dumps(row) + "\n" for row in [alone] * 2100 + [two]))
    with run_job(WordJob(str(people)), tmp_path / "run") as store:
        found = {(r.system, r.metric): r.estimate for r in results(store)}
    assert (found["oracle", "tvd"].n_items, found["oracle", "tvd"].n_undefined) == (1, 2100)
    assert found["human", "ece_oracle"].n_items == 1


def test_number_of_groups_is_reported_before_pooling(tmp_path: Path) -> None:
    people = tmp_path / "people.jsonl"
    rows = [{"context": "a", "responses": ["x", "y", "x"][: 2 + i % 2]} for i in range(1500)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with run_job(WordJob(str(people)), tmp_path / "run") as store:
        estimate = next(r.estimate for r in results(store) if r.metric == "ece_human")
    assert estimate.n_groups == 1500
    assert estimate.interval is not None
    assert "pooled into 1000 units" in estimate.interval.method


def test_failed_draws_are_reported(tmp_path: Path) -> None:
    people, model = tmp_path / "people.jsonl", tmp_path / "m.jsonl"
    people.write_text('{"context": "a", "responses": ["x", "y"], "original": "..."}\n')
    model.write_text('{"id": 1, "texts": ["...", " x", "!"]}\n')
    with run_job(WordJob(str(people), (f"recorded:{model}",)), tmp_path / "run") as store:
        assert "m: 2 of 3 draws held no word and are rejected" in notes(store)
        found = {(r.system, r.metric): r.estimate for r in results(store)}
    # A word of punctuation alone can never be answered: undefined, not wrong.
    assert found["m", "ece_original"].n_undefined == 1


@pytest.mark.parametrize(
    ("shares", "note"),
    [
        ((0.004, 0.015), None),
        ((0.0, 0.03), "probability 0.015 on average and up to 0.030 after a context"),
        ((*[0.0] * 20, 0.12), "probability 0.006 on average and up to 0.120 after a context"),
    ],
)
def test_probability_of_no_word_is_exported_and_noted(
    tmp_path: Path, shares: tuple[float, ...], note: str | None
) -> None:
    people = tmp_path / "people.jsonl"
    people.write_text('{"context": "a", "responses": ["x", "y"]}\n' * (len(shares) + 1))
    words = Categorical(("x",), (1.0,), 0.0, None)
    with run_job(WordJob(str(people)), tmp_path / "run") as store:
        about = {"model": "m", "decoder": "ancestral", "estimator": "exact", "label": "m"}
        store.add_system("m", about)
        rows = [Draws(f"{i}", {}, exact=Exact(words, {}, True, x)) for i, x in enumerate(shares, 1)]
        store.add_draws("m", [*rows, Draws(f"{len(rows) + 1}", {}, failed=1)], False)
        score_word(store)
        found = stat_columns(store, "m", ["failed"])[1]["failed"]
        assert found.tolist() == [*shares, 1.0]
        said = [text for text in notes(store) if text.startswith("m: texts")]
        assert said == ([f"m: texts without a word have {note}, and are rejected"] if note else [])
        assert "m: no word can follow 1 contexts, which are left out" in notes(store)


def test_scoring_requirements_are_checked_before_sampling(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tvd_syn or tvd_sem"):
        run_job(WordJob("simulated:contexts=5", ("toy",), abstractions=("x",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("replaced_by", [PAGE // 2, 2 * PAGE + 7])
def test_statistics_can_be_read_while_being_replaced(store: Store, replaced_by: int) -> None:
    def scored(n_items: int, value: float) -> None:
        rows = (StatRow(no, "m", 0, {"tvd": value}, {}) for no in range(1, n_items + 1))
        store.write_stats(["tvd"], rows)

    store.add_items(Item(str(no), "g", "a", ("b",)) for no in range(2 * PAGE + 7))
    store.add_system("m", {})
    scored(PAGE + 5, 0.25)
    with Store.open(store.path) as reader:
        pages, rows = reader.stat_pages("m"), reader.stat_rows()
        first, _ = next(pages), next(rows)
        scored(replaced_by, 0.5)
        values = [v for page in (first, *pages) for v in page.values["tvd"].ravel().tolist()]
        assert values == [0.25] * (PAGE + 5)
        assert len([*rows]) == PAGE + 4
        assert not reader.db.in_transaction
        assert sum(len(page.groups) for page in reader.stat_pages("m")) == replaced_by


def test_sqlite_json_functions_read_manifest_items_and_draws(tmp_path: Path) -> None:
    job = WordJob("simulated:contexts=3", ("toy",), samples=5, seed=7)
    with run_job(job, tmp_path / "run") as store:
        first, systems = next((item, systems) for _, item, systems in store.walk())
    with closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as plain:

        def value(query: str) -> object:
            return plain.execute(query).fetchone()[0]

        assert value("SELECT json_extract(value, '$.seed') FROM meta WHERE key = 'manifest'") == 7
        answer = value("SELECT json_extract(responses, '$[1]') FROM items ORDER BY no")
        assert answer == first.responses[1]
        counts = value("SELECT json_extract(payload, '$.counts') FROM draws ORDER BY item")
        assert json.loads(str(counts)) == systems["toy"][0].counts
        assert value("SELECT json_extract(facts, '$.estimator') FROM systems") == "mc"
        for table, column in (("meta", "value"), ("items", "responses"), ("draws", "payload")):
            assert value(f"SELECT min(json_valid({column})) FROM {table}") == 1


def test_infinite_bound_is_stored_as_valid_json(store: Store) -> None:
    store.add_items(ITEMS)
    store.add_system("m", {"model": "x"})
    bounds = {"log_loss": (math.inf, None), "tvd": (0.25, 0.5)}
    exact = Exact(Categorical(("a",), (0.5,), 0.5), bounds, True, 0.0)
    store.add_draws("m", [Draws("1:2", {}, exact=exact)])
    assert next(store.walk_system("m"))[1][0].exact == exact
    assert store.db.execute("SELECT json_valid(payload) FROM draws").fetchone() == (1,)


def test_manifest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, written = tmp_path / "texts.jsonl", tmp_path / "written.jsonl"
    rows = [{"id": str(n), "input": "Hello?", "references": ["a b", "b c d"]} for n in (1, 2)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"id": str(n), "texts": ["a b", "c"]} for n in (1, 2)]
    written.write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = (f"recorded:{written}",)
    job = TextJob(str(texts), models, probes=("lexical-1",), tokeniser="whitespace")
    run_job(job, tmp_path / "run").close()
    reads = []
    read = Store.meta

    def counted(self: Store, key: str) -> object:
        reads.append(key)
        return read(self, key)

    monkeypatch.setattr(Store, "meta", counted)
    with Store.open(tmp_path / "run") as store:
        score(store)
        assert results(store)
        assert notes(store)
    assert reads.count("manifest") == 1
