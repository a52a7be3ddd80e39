"""Fine-tuned models beside their base: folds trained, each tested on the passages it never saw.

One run holds the base model, the base at the temperature that suited the training passages best,
and one system a loss, whose folds are pooled.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from aleatoric.data.opening import open_corpus
from aleatoric.levels.word import score_word
from aleatoric.nextword.answers import Reading, ReadItems
from aleatoric.registry import Track, quietly
from aleatoric.runs import COMPLETE, TRAINING, Store
from aleatoric.runs.engine import check_specs
from aleatoric.runs.session import Stopping, working
from aleatoric.tuning.exporting import check_export, export_weights
from aleatoric.tuning.session import (
    FinetuneJob,
    Session,
    check_steps,
    evaluated,
    folds_of,
    job_of,
    manifest_of,
    split_notes,
)
from aleatoric.types import Corpus

__all__ = [
    "FinetuneJob",
    "check_export",
    "export_weights",
    "folds_of",
    "job_of",
    "run_finetune",
]


def run_finetune(
    job: FinetuneJob,
    out: Path,
    track: Track[Any] = quietly,
    score: bool = True,
    stopping: Stopping | None = None,
) -> Store:
    """Train and evaluate every loss's folds; repeated on the same directory, it goes on.

    Where the input is bad, nothing of the run stays behind; where `stopping` is asked for, systems
    that are drawn, folds that are trained and the last checkpoint do.
    """
    stopping = stopping or Stopping()
    check_specs([job.model], "language_models")
    corpus = _read(open_corpus(job.corpus, job.encoding), job)
    folds = folds_of(job, corpus)
    check_steps(job, folds)
    store = Store.continue_or_create(out, manifest_of(job, corpus, folds))
    with working(store, _holds_work):
        if store.lacks_items:
            with store.transaction():
                store.add_items(evaluated(corpus, folds))
                store.set_meta("notes", [*corpus.notes, *split_notes(corpus, folds)])
        Session(store, job, folds, track, stopping).run()
        if score:
            score_word(store, track, stopping)
            store.set_meta(COMPLETE, True)
    return store


def _read(corpus: Corpus, job: FinetuneJob) -> Corpus:
    """The corpus with its answers read as words, for training and evaluation alike."""
    items = ReadItems(corpus.items, Reading.of(job.choices))
    read = tuple(items)
    return replace(corpus, items=read, notes=(*corpus.notes, *items.notes()))


def _holds_work(store: Store) -> bool:
    drawn = any(store.n_items_with_draws(name) for name in store.systems())
    return drawn or (store.path / TRAINING).exists()
