"""The last digits of exact probabilities depend on batching: interruption must not change it."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from marks import sampled

from aleatoric.levels.base import Monitor, run_job

pytest.importorskip("transformers")

from canonical_run import canonical_bytes
from tuned_lms import population, save_corpus, save_lm

from aleatoric.levels.base import resume_run
from aleatoric.levels.word import WordJob
from aleatoric.nextword.live import LiveModel
from aleatoric.runs.run import Store
from aleatoric.runs.session import Stopped, listening

LENGTHS = {1: 20, 2: 9, 3: 30, 4: 20, 5: 31, 6: 17}
"""Passages of several lengths: parts of 59, 51 and 17 contexts on a processor."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> WordJob:
    folder = tmp_path_factory.mktemp("exact")
    model = save_lm(folder / "model", width=64)
    items = [
        i
        for i in population(6, 31, people=5)
        if int(i.id.split(":")[1]) < LENGTHS[int(i.group)] + 2
    ]
    corpus = save_corpus(folder / "people.jsonl", items)
    return WordJob(str(corpus), (f"hf:{model}",), device="cpu", n_splits=2)


@pytest.fixture(scope="module")
def whole(job: WordJob, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with run_job(job, tmp_path_factory.mktemp("whole") / "run") as store:
        return canonical_bytes(store)


def answered(path: Path) -> int:
    with Store.open(path) as store:
        return int(store.db.execute("SELECT count(*) FROM draws").fetchone()[0])


@pytest.mark.parametrize("saved", sampled([1, 40, 59, 70, 120], [59]))
def test_resume_after_kill_during_save_gives_identical_bytes(
    saved: int, job: WordJob, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = LiveModel.draws

    def dies(self: LiveModel, *asked: Any) -> Iterator[Any]:
        yield from islice(draws(self, *asked), saved)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LiveModel, "draws", dies)
        with pytest.raises(KeyboardInterrupt):
            run_job(job, tmp_path / "run")
    assert answered(tmp_path / "run") == saved
    with resume_run(tmp_path / "run") as store:
        assert canonical_bytes(store) == whole


@pytest.mark.parametrize("after", sampled([10, 59, 100], [59]))
def test_interrupt_waits_for_current_part(
    after: int, job: WordJob, whole: bytes, tmp_path: Path
) -> None:
    def track(work: Iterable[Any], total: int, description: str) -> Iterator[Any]:
        for place, one in enumerate(work):
            if place == after and description == "model":
                signal.raise_signal(signal.SIGINT)
            yield one

    with pytest.raises(Stopped), listening() as stopping:
        run_job(job, tmp_path / "run", Monitor(track, stopping=stopping))
    assert answered(tmp_path / "run") == {10: 59, 59: 110, 100: 110}[after]
    with resume_run(tmp_path / "run") as store:
        assert canonical_bytes(store) == whole
