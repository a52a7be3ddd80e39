"""Ctrl-C and SIGTERM, once and twice: finished items are saved, and the run can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import toy_runs
from canonical_run import canonical_bytes
from faulty_server import serving
from forced_lms import TEXT
from forced_lms import saved as saved_model

from aleatoric.levels.base import Monitor, resume_run, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.token import TokenJob
from aleatoric.levels.word import WordJob
from aleatoric.runs.run import Store
from aleatoric.runs.session import Stopped, Stopping, listening


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the toy models for one test."""
    from aleatoric import registry

    for kind, name, where in (
        ("models", "slow", "toy_runs:load_words"),
        ("models", "signalling", "toy_runs:load_signalling"),
        ("text_models", "toy", "toy_runs:load"),
    ):
        monkeypatch.setitem(registry.PLUGINS[kind], name, where)


def canonical(path: Path) -> bytes:
    with Store.open(path) as store:
        return canonical_bytes(store)


def answered(path: Path) -> int:
    with Store.open(path) as store:
        return int(store.db.execute("SELECT count(*) FROM draws").fetchone()[0])


def signalled(number: int, after: int, what: str, stopping: Stopping) -> Monitor:
    """A progress display that sends this process a signal after a number of items."""

    def track(work: Iterable[Any], total: int, description: str) -> Iterator[Any]:
        for place, one in enumerate(work):
            if place == after and what == description:
                signal.raise_signal(number)
            yield one

    return Monitor(track, stopping=stopping)


def word_job(model: str = "slow:1,0") -> WordJob:
    return WordJob("simulated:contexts=12,people=5", (model,), samples=5, n_splits=2)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_first_signal_finishes_current_item(number: int, status: int, tmp_path: Path) -> None:
    run_job(word_job(), tmp_path / "whole").close()
    with pytest.raises(Stopped) as stopped, listening() as stopping:
        run_job(word_job(), tmp_path / "run", signalled(number, 4, "toy", stopping))
    assert stopped.value.status == status
    # The item that was taken when the signal came is the last.
    assert answered(tmp_path / "run") == 5
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(tmp_path / "whole")


def test_second_signal_stops_immediately_and_run_is_consistent(tmp_path: Path) -> None:
    run_job(word_job(), tmp_path / "whole").close()

    def twice(work: Iterable[Any], total: int, description: str) -> Iterator[Any]:
        for place, one in enumerate(work):
            if place == 4 and description == "toy":
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGINT)
            yield one

    with pytest.raises(Stopped) as stopped, listening() as stopping:
        run_job(word_job(), tmp_path / "run", Monitor(twice, stopping=stopping))
    assert stopped.value.status == 143
    assert answered(tmp_path / "run") == 4
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_between_items_stops_immediately(number: int) -> None:
    def results() -> None:
        signal.raise_signal(number)
        pytest.fail("they are worked out to their end")

    with pytest.raises(Stopped) as stopped, listening():
        results()
    assert stopped.value.status == 128 + number


@pytest.mark.parametrize("what", ["read simulated", "score"])
def test_resume_after_signal_during_reading_or_scoring(what: str, tmp_path: Path) -> None:
    run_job(word_job(), tmp_path / "whole").close()
    with pytest.raises(Stopped), listening() as stopping:
        run_job(
            word_job(),
            tmp_path / "run",
            signalled(signal.SIGINT, 3, what, stopping),
        )
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(tmp_path / "whole")


def test_signal_during_model_loading_prints_resume_command(
    tmp_path: Path, cli: Callable[..., Any]
) -> None:
    asked = ("word", "--corpus", "simulated:contexts=12,people=5", "--samples", 5)
    ran = cli(*asked, "--model", "signalling:15", "--out", tmp_path / "run")
    assert ran.status == 143
    assert ran.err == (
        f"stopped; what was finished is saved: continue with aleatoric resume {tmp_path / 'run'}\n"
    )


def test_signal_handlers_are_restored_after_the_run() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with listening():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_interrupt_while_scoring_keeps_draws_and_no_partial_statistics(tmp_path: Path) -> None:
    run_job(word_job(), tmp_path / "whole").close()
    with pytest.raises(Stopped), listening() as stopping:
        run_job(
            word_job(),
            tmp_path / "run",
            signalled(signal.SIGINT, 3, "score", stopping),
        )
    with Store.open(tmp_path / "run") as store:
        assert not store.has_stats()
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(tmp_path / "whole")


def text_job(folder: Path, model: str = "toy:0") -> TextJob:
    corpus = str(toy_runs.people_of_texts(folder, 9))
    plain: dict[str, Any] = {"probes": ("lexical-1",), "tokeniser": "whitespace", "n_splits": 2}
    return TextJob(corpus, (model,), samples=3, **plain)


def test_text_run_is_interrupted_and_resumed(tmp_path: Path) -> None:
    run_job(text_job(tmp_path), tmp_path / "whole").close()
    with pytest.raises(Stopped), listening() as stopping:
        run_job(text_job(tmp_path), tmp_path / "run", signalled(2, 3, "toy", stopping))
    assert answered(tmp_path / "run") == 4
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(tmp_path / "whole")


def test_server_model_is_interrupted_with_requests_in_flight(tmp_path: Path) -> None:
    with serving() as server:
        server.text = lambda number, body: f" word{body['seed'] % 5} is"
        job = word_job(f"openai:m@{server.url}?concurrency=3&n=1")
        run_job(job, tmp_path / "whole").close()
        expected, server.asked[:] = len(server.asked), []
        with pytest.raises(Stopped), listening() as stopping:
            run_job(job, tmp_path / "run", signalled(signal.SIGINT, 7, "m", stopping))
        # What was asked for before the stop is all answered, paid for and saved.
        assert len(server.asked) == 5 * answered(tmp_path / "run")
        assert 8 <= answered(tmp_path / "run") < 12
        resume_run(tmp_path / "run").close()
        seeds = [body["seed"] for body in server.asked]
    assert len(seeds) == len(set(seeds)) == expected
    with Store.open(tmp_path / "run") as store, Store.open(tmp_path / "whole") as whole:
        drawn = [{d.item_id: d for _, [d] in run.walk_system("m")} for run in (store, whole)]
    assert drawn[0] == drawn[1]


def test_token_run_is_interrupted_between_parts_and_resumed(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n\n".join([TEXT[:60], TEXT[60:100], TEXT[30:90]]))
    job = TokenJob(
        str(tmp_path / "text.txt"),
        (f"hf:{saved_model('gpt2', tmp_path)}",),
        ("ancestral,samples=2",),
        batch_tokens=2,
        keep_rows=True,
    )
    run_job(job, tmp_path / "whole").close()

    for _ in range(2):
        with pytest.raises(Stopped) as stopped, listening() as stopping:
            run_job(job, tmp_path / "run", Monitor(meter=signalling_meter, stopping=stopping))
        assert stopped.value.status == 143
    resume_run(tmp_path / "run").close()
    assert canonical(tmp_path / "run") == canonical(tmp_path / "whole")


@contextmanager
def signalling_meter(description: str, total: int) -> Iterator[Callable[[int, int], None]]:
    left = [signal.SIGTERM]

    def advance(items: int, tokens: int) -> None:
        if tokens and left:
            signal.raise_signal(left.pop())

    yield advance


def command(*arguments: object) -> list[str]:
    return [sys.executable, toy_runs.__file__, "aleatoric", *map(str, arguments)]


def settings() -> dict[str, str]:
    folders = [str(Path(toy_runs.__file__).parent), *filter(None, sys.path)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}


def test_printed_resume_command_works(tmp_path: Path) -> None:
    run = tmp_path / "a run"
    asked = ("word", "--corpus", "simulated:contexts=200,people=5", "--samples", 5)
    pieces = command(*asked, "--model", "slow:1,0.02", "--splits", 2, "--out", run)
    pipe = subprocess.PIPE
    with subprocess.Popen(pieces, env=settings(), stderr=pipe, stdout=pipe, text=True) as process:
        wait_for(lambda: (run / "run.sqlite").exists() and answered(run) > 3, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"continue with aleatoric resume '{run}'" in err
    assert "Traceback" not in err
    assert not out
    before = answered(run)
    assert 3 < before < 200
    # The same run again, by its manifest alone; a second writer meanwhile is refused.
    with subprocess.Popen(
        command("resume", run, "--json"), env=settings(), stderr=pipe, stdout=pipe, text=True
    ) as process:
        wait_for(lambda: answered(run) > before, process)
        with pytest.raises(Exception, match=f"being written by process {process.pid} since"):
            Store.resume(run)
        with Store.open(run) as store:  # a reader goes on, and sees whole items
            from aleatoric.levels import base

            base.score(store)
            counts = {r.estimate.n_items for r in base.results(store) if r.metric == "tvd"}
            assert max(counts) <= 200
            assert all(len(own) == 1 for _, own in store.walk_system("toy"))
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert not (run / "run.lock").exists()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 60
    while True:
        try:
            if condition():
                return
        except Exception as error:
            if "before it began" not in str(error):
                raise
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < limit
        time.sleep(0.02)
