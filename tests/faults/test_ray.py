"""Ray gives the same bytes as one process, even if workers or nodes die.

Uses one local cluster of three nodes; the last test removes one of them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import wayward

from aleatoric.errors import ModelError
from aleatoric.levels.base import Monitor, notes, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.word import WordJob
from aleatoric.models.base import Ask
from aleatoric.runs.job import EngineOptions, Loading
from aleatoric.runs.ray_workers import ModelSource, Pool, PoolSize
from aleatoric.runs.session import Stopped, listening
from aleatoric.types import Choices, Item

ray = pytest.importorskip("ray", reason='Ray is absent: pip install "aleatoric[ray]"')

LOCAL, RAY = EngineOptions(), EngineOptions("ray", actors=2, cpus=1)
N_CONTEXTS = 300
PASSAGE = 10
Held = list[list[Any]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three nodes of one CPU each, whose workers can import this package and the toys."""
    from ray._raylet import Config
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("site")
    wayward.install(folder)
    found = [str(folder), str(Path(wayward.__file__).parent), *sys.path]
    fast = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": fast}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(found))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Nodes listen on the network and run what they are sent: nobody else may send.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.syspath_prepend(folder)
        Config.initialize("")  # Ray reads how it is to authenticate when it is imported
        nodes = Cluster(initialize_head=True, head_node_args=head)
        nodes.add_node(num_cpus=1, wait=False)
        nodes.add_node(num_cpus=1)
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cluster: Any) -> Path:
    """Folder with the fault instructions for the toy models."""
    return tmp_path_factory.mktemp("orders")


@pytest.fixture
def orders(folder: Path) -> Iterator[Path]:
    """The same folder, empty before and after each test."""
    yield folder
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Held:
    """The word-level result of one process without faults."""
    return words(folder, tmp_path_factory.mktemp("runs") / "local", LOCAL)


def words(orders: Path, out: Path, engine: EngineOptions, **more: Any) -> Held:
    corpus = f"simulated:contexts={N_CONTEXTS},people=4,passage={PASSAGE}"
    job = WordJob(corpus, (f"wayward:{orders}",), samples=20, n_splits=2, **on(engine))
    with run_job(job, out, Monitor(**more)):
        return held(out)


def on(engine: EngineOptions) -> dict[str, Any]:
    """Job options that select an engine."""
    asked = {"engine": engine.name, "address": engine.address, "actors": engine.actors}
    return asked | {"actor_cpus": engine.cpus, "actor_gpus": engine.gpus}


def held(out: Path) -> Held:
    """The full contents of a run."""
    db = sqlite3.connect(out / "run.sqlite")
    tables = ("meta", "items", "systems", "draws", "stats")
    found = [sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in tables]
    db.close()
    return found


def answered(out: Path) -> set[int]:
    """The numbers of the items that have draws."""
    db = sqlite3.connect(out / "run.sqlite")
    found = {item for (item,) in db.execute("SELECT item FROM draws")}
    db.close()
    return found


def during(acts: dict[int, Callable[[], None]]) -> Callable[..., Iterable[Any]]:
    """A progress callback that runs an action at a given item."""

    def track(work: Iterable[Any], total: int, description: str) -> Iterator[Any]:
        for place, one in enumerate(work):
            if description == "wayward" and place in acts:
                acts[place]()
            yield one

    return track


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.long
def test_killed_worker_changes_no_byte_and_prefetch_is_bounded(
    orders: Path, expected: Held, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ahead: list[int] = []

    def look() -> None:
        ahead.append(220 - len(answered(tmp_path / "run")))

    def kill() -> None:
        pids = [int(path.name.removeprefix("pid-")) for path in orders.glob("pid-*")]
        os.kill(next(pid for pid in pids if pid != os.getpid()), signal.SIGKILL)

    with caplog.at_level(logging.WARNING):
        track = during({220: look, 250: kill})
        assert words(orders, tmp_path / "run", RAY, track=track) == expected
    assert caplog.text.count("a worker was lost") == 1
    # Two parts of 32 contexts, rounded up to passages, in each actor's hands; one being made.
    assert 0 < ahead[0] <= (2 * 2 + 1) * (32 + PASSAGE)


@pytest.mark.long
def test_part_that_kills_workers_is_named_and_resumable_locally(
    orders: Path, expected: Held, tmp_path: Path
) -> None:
    (orders / "always-11:5").touch()
    with pytest.raises(ModelError, match=r"items '[\d:]+' to '[\d:]+': 3 workers were lost"):
        words(orders, tmp_path / "run", RAY)
    (orders / "always-11:5").unlink()
    assert 0 < len(answered(tmp_path / "run")) < N_CONTEXTS
    assert words(orders, tmp_path / "run", LOCAL) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    "engines",
    [(RAY, LOCAL), (LOCAL, RAY)],
    ids=["ray-first", "local-first"],
)
def test_interrupted_run_resumes_with_other_engine(
    engines: tuple[EngineOptions, EngineOptions], orders: Path, expected: Held, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        words(orders, tmp_path / "run", engines[0], track=during({270: interrupt}))
    assert 0 < len(answered(tmp_path / "run")) < N_CONTEXTS
    assert words(orders, tmp_path / "run", engines[1]) == expected


@contextmanager
def signalled_when(file: Path) -> Iterator[None]:
    """Send this process a signal as soon as a file exists, within the block."""

    def wait_and_signal() -> None:
        limit = time.monotonic() + wayward.PATIENCE
        while not file.exists() and time.monotonic() < limit and not is_over.is_set():
            time.sleep(0.01)
        if file.exists() and not is_over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    is_over = threading.Event()
    sender = threading.Thread(target=wait_and_signal)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()


@pytest.mark.long
def test_signal_during_actor_loading_stops_immediately(
    orders: Path, expected: Held, tmp_path: Path
) -> None:
    (orders / "wait").touch()
    with (
        pytest.raises(Stopped) as stopped,
        listening() as stopping,
        signalled_when(orders / "loading"),
    ):
        words(orders, tmp_path / "run", RAY, stopping=stopping)
    assert stopped.value.status == 143
    assert not answered(tmp_path / "run")
    (orders / "wait").unlink()
    assert words(orders, tmp_path / "run", LOCAL) == expected


@pytest.mark.long
def test_actors_of_closed_request_are_not_replaced(orders: Path) -> None:
    source = ModelSource("words", f"wayward:{orders}", Loading(), os.getcwd())
    pool = Pool(ray, source, PoolSize(1, 1, 0))
    items = [Item(str(n), "g", "baba", ("baba",), "baba") for n in range(60)]
    ask = Ask("ancestral", 2, 0, 0.02, Choices())
    asked = pool.answers([items[n : n + 2] for n in range(0, 60, 2)], ask)
    next(asked)
    asked.close()
    assert not pool._actors
    # Who asks again is answered by new ones.
    (answers,) = pool.answers([items[:2]], ask)
    assert len(answers.given) == 2
    pool.close()


def test_model_error_matches_local_engine(orders: Path, tmp_path: Path) -> None:
    for number in ("7:4", "7:5", "25:3"):
        (orders / f"error-{number}").touch()
    message = []
    for engine in (LOCAL, RAY):
        with pytest.raises(ModelError) as error:
            words(orders, tmp_path / engine.name, engine)
        message.append((str(error.value), error.value.status))
    assert message[0] == message[1] == ("item '7:4': this is too much; leave it out.", 1)
    assert answered(tmp_path / "local") <= answered(tmp_path / "ray")


def test_texts_and_counts_have_identical_bytes(orders: Path, tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "group": str(i // 3), "input": f"say {i}", "references": ["a b", "b", "a"]}
        for i in range(100)
    ]
    corpus = tmp_path / "people.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for engine in (LOCAL, RAY):
        job = TextJob(
            str(corpus), (f"wayward:{orders}",), ("ancestral", "top_k=2"), samples=3,
            probes=("lexical-1",), tokeniser="whitespace", n_splits=2, **on(engine),
        )  # fmt: skip
        if engine is RAY:
            (orders / "once-60").touch()
        with run_job(job, tmp_path / engine.name) as store:
            found.append((held(tmp_path / engine.name), notes(store)))
    assert found[0] == found[1]
    assert not (orders / "once-60").exists()
    assert any("cut at the longest length" in note for note in found[0][1])


@pytest.mark.long
def test_removed_node_changes_no_byte(
    cluster: Any,
    orders: Path,
    expected: Held,
    tmp_path: Path,
) -> None:
    """Must be the last test of the module: it removes a node."""
    node = next(iter(cluster.worker_nodes))

    def remove() -> None:
        cluster.remove_node(node, allow_graceful=False)

    three = EngineOptions("ray", actors=3, cpus=1)
    found = words(orders, tmp_path / "run", three, track=during({200: remove}))
    assert found == expected
    # Whether its worker had a part in hand when it went is chance; that it went is not.
    # The head node notices the loss by missed health checks, which may be after the run ends.
    limit = time.monotonic() + wayward.PATIENCE
    while n_alive_nodes() > 2 and time.monotonic() < limit:
        time.sleep(0.1)
    assert n_alive_nodes() == 2


def n_alive_nodes() -> int:
    return sum(node["Alive"] for node in ray.nodes())
