"""The demo: a simulated population whose truth is known, and models around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aleatoric.pipeline import Track, WordJob, quietly, run_word
from aleatoric.store import Store

TEMPERATURES = (0.25, 0.5, 2.0, 4.0)
CORPUS = "simulated:contexts=400,people=40"
SAMPLES = 40
NEXT_STEP = (
    "These people are simulated: the model named toy is their true distribution, so no other "
    "temperature comes nearer, and its squared distance is 0 but for noise. With real people: "
    "aleatoric word --corpus answers.jsonl --model recorded:model.jsonl --out runs/first"
)


def run_demo(out: Path, seed: int = 0, track: Track[Any] = quietly) -> Store:
    """Simulated people against the perfect model and tempered ones; returns the open run."""
    models = ("toy", *(f"toy:temperature={t:g}" for t in TEMPERATURES))
    job = WordJob(CORPUS, models, samples=SAMPLES, seed=seed)
    return run_word(job, out, track)
