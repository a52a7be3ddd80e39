"""Results cached in a run: the same bytes as fresh ones, and never those of another state."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coin_level import CoinJob
from forced_lms import TEXT
from forced_lms import saved as saved_model
from marks import sampled

from aleatoric import registry
from aleatoric.inference.bootstrap import METHODS, NO_INTERVALS
from aleatoric.levels import base
from aleatoric.levels.base import Monitor, resume_run, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.token import TokenJob
from aleatoric.levels.word import WordJob
from aleatoric.result_types import Result
from aleatoric.runs import results_cache
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.job import Job
from aleatoric.runs.results_cache import CACHE
from aleatoric.runs.run import Store

BESIDE = (f"{DATABASE}-wal", f"{DATABASE}-shm")
WORDS = WordJob(
    "simulated:contexts=60,people=6,passage=2", ("toy", "toy:temperature=2"), samples=8, n_splits=3
)


def words(folder: Path) -> Job:
    return WORDS


def tokens(folder: Path) -> Job:
    (folder / "text.txt").write_text("\n\n".join([TEXT[:60], TEXT[60:100], TEXT[30:90]]))
    return TokenJob(str(folder / "text.txt"), (f"hf:{saved_model('gpt2', folder)}",))


def texts(folder: Path, probe: str = "lexical-1") -> TextJob:
    people, model = folder / "people.jsonl", folder / "bot.jsonl"
    rows = [{"id": str(n), "group": n // 2, "input": "?"} for n in range(16)]
    given = [row | {"references": ["a b", "b c d", f"a {row['id']}", "c"]} for row in rows]
    people.write_text("".join(json.dumps(row) + "\n" for row in given))
    written = [{"id": row["id"], "texts": ["a b", "c", f"a {row['id']} d"]} for row in rows]
    model.write_text("".join(json.dumps(row) + "\n" for row in written))
    options: dict[str, Any] = {"probes": (probe,), "tokeniser": "whitespace", "n_splits": 2}
    return TextJob(str(people), (f"recorded:{model}",), **options)


def coins(folder: Path) -> Job:
    rows = [
        {"id": n, "group": n // 3, "coin": "c", "tosses": ["heads", "tails"]} for n in range(12)
    ]
    (folder / "coins.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CoinJob(str(folder / "coins.jsonl"), ("0.5", "0.9"))


@pytest.fixture(autouse=True)
def coin_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.PLUGINS["levels"], "coin", "coin_level:Coin")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_job(WORDS, path).close()
    return path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / DATABASE).write_bytes((whole / DATABASE).read_bytes())
    return tmp_path / "run"


def shown(results: list[Result]) -> str:
    """Everything about results, with every digit, and their rows."""
    return repr([(r, list(r.rows)) for r in results])


def fresh(store: Store, interval: str = "auto") -> str:
    """Results that are computed, whatever is cached."""
    level = base.level_of(store)
    names = [*level.controls, *level.model_systems(store)]
    return shown([r for name in names for r in level.system_results(store, name, interval)])


def looked_at(path: Path, interval: str = "auto") -> str:
    with Store.open(path) as store:
        return shown(base.results(store, interval))


def from_cache(path: Path, interval: str = "auto") -> str:
    """Results that may not be computed."""
    with Store.open(path) as store, pytest.MonkeyPatch.context() as patch:
        level = type(base.level_of(store))
        patch.setattr(level, "system_results", lambda *_, **__: pytest.fail("computed again"))
        return shown(base.results(store, interval))


def cached_keys(path: Path) -> list[str]:
    """What is cached for the present state of a run."""
    with Store.open(path) as store:
        state = results_cache.state_of(store, base.level_of(store).code)
        return sorted(results_cache._read(path / CACHE, state, dict))


@pytest.mark.parametrize("job", sampled([words, tokens, texts, coins], [words]))
def test_a_second_look_has_the_bytes_of_the_first(
    job: Callable[[Path], Job], tmp_path: Path
) -> None:
    run_job(job(tmp_path), tmp_path / "run").close()
    for interval in (*METHODS, NO_INTERVALS):
        first = looked_at(tmp_path / "run", interval)
        assert from_cache(tmp_path / "run", interval) == first
        with Store.open(tmp_path / "run") as store:
            assert fresh(store, interval) == first


def test_some_systems_are_cached_and_others_computed(run: Path) -> None:
    with Store.open(run) as store:
        expected = fresh(store)
        base.results(store, systems=["toy"])
        assert cached_keys(run) == ["auto toy"]
        assert shown(base.results(store)) == expected
    assert len(cached_keys(run)) == 4


def test_results_of_an_unfinished_run_are_not_cached(run: Path) -> None:
    with Store.resume(run) as store:
        store.set_meta("complete", False)
        base.results(store)
    assert cached_keys(run) == []


def test_after_a_resumption_results_are_those_of_an_uninterrupted_run(run: Path) -> None:
    expected = looked_at(run)
    with Store.resume(run) as store:  # as it was before its last answers
        store.db.execute("DELETE FROM draws WHERE system = 2 AND item > 40")
        store.set_meta(f"done {list(store.systems())[1]}", False)
        store.set_meta("complete", False)
        store.set_meta("finished models", ["toy"])
    resume_run(run).close()
    assert looked_at(run) == from_cache(run) == expected


def test_scoring_again_drops_what_is_cached(run: Path) -> None:
    expected = looked_at(run)
    assert cached_keys(run)
    with Store.open(run) as store:
        base.score(store)
    assert cached_keys(run) == []
    assert looked_at(run) == from_cache(run) == expected


def test_a_probe_that_has_changed_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = tmp_path / "changing_probe.py"
    module.write_text("def gap(a, b): return abs(len(a) - len(b))\n")
    run_job(texts(tmp_path, "changing_probe:gap"), tmp_path / "run").close()
    before = looked_at(tmp_path / "run")
    module.write_text("def gap(a, b): return 2 * abs(len(a) - len(b))\n")
    del sys.modules["changing_probe"]
    assert looked_at(tmp_path / "run") == before
    assert cli("score", tmp_path / "run", "--probe", "changing_probe:gap").status == 0
    after = looked_at(tmp_path / "run")
    assert after != before
    with Store.open(tmp_path / "run") as store:
        assert fresh(store) == after == from_cache(tmp_path / "run")


def test_another_version_computes_its_own(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at(run)
    with Store.open(run) as store:
        monkeypatch.setitem(vars(base.level_of(store)), "code", "another")
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        from_cache(run)
    assert looked_at(run) == from_cache(run)


def test_the_code_is_identified_by_its_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("1")
    monkeypatch.setattr("aleatoric.registry.__file__", str(tmp_path / "__init__.py"))
    first = registry.code_id(["numpy"])
    assert registry.code_id(["numpy"]) == first != registry.code_id([])
    (tmp_path / "a.py").write_text("2")
    assert registry.code_id(["numpy"]) != first


@pytest.mark.parametrize("moment", sampled(["_save", "_dump", "os.replace"], ["os.replace"]))
def test_a_process_that_dies_while_it_caches_leaves_nothing_wrong(
    moment: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any) -> None:
        raise SystemExit

    with Store.open(run) as store:
        expected = fresh(store)
    looked_at(run, "none")
    monkeypatch.setattr(f"aleatoric.runs.results_cache.{moment}", die)
    with pytest.raises(SystemExit):
        looked_at(run)
    monkeypatch.undo()
    assert {key.partition(" ")[0] for key in cached_keys(run)} == {"none"}
    assert looked_at(run) == from_cache(run) == expected


def test_a_process_that_dies_while_it_scores_again_has_not_scored(run: Path) -> None:
    def die(*_: Any) -> Any:
        raise SystemExit

    with Store.open(run) as store:
        base.check_scored(store, Monitor(die))  # nothing to score
        with pytest.raises(SystemExit):
            base.score(store, Monitor(die))
    scored: list[str] = []

    def track(work: Any, total: int, description: str) -> Any:
        scored.append(description)
        return work

    with Store.open(run) as store:
        base.check_scored(store, Monitor(track))
        base.check_scored(store, Monitor(track))
    assert scored == ["score"]


def test_score_scores_again_when_asked_and_prints_the_same(
    run: Path, cli: Callable[..., Any]
) -> None:
    def generation() -> int:
        with Store.open(run) as store:
            return store.stats_generation

    first = cli("score", run, "--json")
    before = generation()
    second = cli("score", run, "--json")
    assert generation() == before
    again = cli("score", run, "--json", "--again")
    assert generation() == before + 1
    assert first.out == second.out == again.out
    assert (first.status, first.err) == (second.status, second.err) == (again.status, again.err)


def test_a_reader_that_scores_apart_caches_nothing(run: Path) -> None:
    expected = looked_at(run)
    before = cached_keys(run)
    writer = Store.resume(run)
    with Store.open(run) as store:
        base.score(store)
        assert store.database == "temp"
        assert shown(base.results(store)) == expected
    writer.close()
    assert cached_keys(run) == before


def test_a_run_that_changes_meanwhile_is_not_given_old_results(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*given: Any) -> None:
        with Store.open(run) as other:
            base.score(other)
        whole_save(*given)

    whole_save = results_cache._save
    monkeypatch.setattr(results_cache, "_save", save)
    looked_at(run)
    assert cached_keys(run) == []


@pytest.mark.long
def test_several_processes_at_once_print_the_same(run: Path) -> None:
    asked = [sys.executable, "-m", "aleatoric", "score", str(run), "--json"]
    commands = [asked, asked, [*asked, "--again"], asked]
    begun = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands]
    printed = [process.communicate(timeout=120)[0] for process in begun]
    assert [process.returncode for process in begun] == [0] * 4
    assert len(set(printed)) == 1
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == printed[0]


@pytest.mark.parametrize("sealed", sampled([False, True], [True]))
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"n_items": ', '"n_items": "\\u001b'),
        ('"value": ', '"value": NaN, "x": '),
        ('"value": ', '"values": '),
        ('"protocol": {', '"protocol": {"x": 3, '),
        ('"metric": "overlap"', '"metric": "\\ud800"'),
        ("}", ""),
    ],
)
def test_a_cache_that_was_changed_is_not_used(old: str, new: str, sealed: bool, run: Path) -> None:
    expected = looked_at(run)
    _, _, text = (run / CACHE).read_text().partition("\n")
    changed = text.replace(old, new)
    assert changed != text
    digest = hashlib.sha256((changed if sealed else text).encode()).hexdigest()
    (run / CACHE).write_text(f"{digest}\n{changed}")
    assert looked_at(run) == expected
    assert from_cache(run) == expected


def test_a_cache_that_is_a_link_or_a_pipe_leads_nowhere(run: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (run / CACHE).symlink_to(precious)
    expected = looked_at(run)
    assert precious.read_text() == "mine"
    assert from_cache(run) == expected
    (run / CACHE).unlink()
    os.mkfifo(run / CACHE)
    assert looked_at(run) == from_cache(run) == expected


def test_nothing_else_is_left_in_the_directory(run: Path) -> None:
    for interval in METHODS:
        looked_at(run, interval)
    assert {path.name for path in run.iterdir()} <= {DATABASE, CACHE, *BESIDE}
    assert (run / CACHE).stat().st_mode == (run / DATABASE).stat().st_mode
