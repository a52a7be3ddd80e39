"""A killed training process resumes to identical weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tuned_lms import population, save_corpus, save_lm

from aleatoric.levels.base import run_job
from aleatoric.tuning.finetuning import FinetuneJob
from aleatoric.tuning.training import CHECKPOINT, TRAINED

PATIENCE_S = 240


@pytest.mark.long
def test_resume_after_kill_during_training_gives_same_weights(tmp_path: Path) -> None:
    corpus = save_corpus(tmp_path / "people.jsonl", list(population(passages=7, length=4)))
    model = save_lm(tmp_path / "model", layers=1, dropout=0.1)
    job = FinetuneJob(
        str(corpus),
        (f"hf:{model}",),
        ("human",),
        train="all",
        batch=2,
        epochs=12,
        folds=2,
        temperatures="none",
        device="cpu",
        save_every=1,
    )
    killed = tmp_path / "killed"
    status = _run_until(killed / "training" / "human" / "fold-1" / CHECKPOINT, job, killed)
    assert status == -signal.SIGKILL
    assert not (killed / "training" / "human" / "fold-2" / TRAINED).exists()
    whole = tmp_path / "whole"
    for folder in (killed, whole):
        run_job(job, folder).db.close()
    for fold in ("fold-1", "fold-2"):
        one, other = (run / "training" / "human" / fold / TRAINED for run in (killed, whole))
        assert one.read_bytes() == other.read_bytes()


def _run_until(path: Path, job: FinetuneJob, out: Path) -> int:
    """Kill a real process as soon as it has written a checkpoint."""
    command = [
        *(sys.executable, "-m", "aleatoric", "finetune", "--corpus", job.corpus),
        *("--model", job.model, "--loss", "human", "--train", "all", "--batch", "2"),
        *("--epochs", "12", "--folds", "2", "--temperatures", "none", "--device", "cpu"),
        *("--save-every", "1", "--out", str(out)),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as process:
        limit = time.monotonic() + PATIENCE_S
        while not path.exists() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        process.kill()
        return process.wait(timeout=30)
