"""The weights of a fine-tuning run for transformers and peft, fold by fold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aleatoric.errors import UsageError
from aleatoric.finetuning.jobs import FinetuneJob, job_of
from aleatoric.finetuning.session import fold_folder, open_tunable
from aleatoric.levels import FINETUNE
from aleatoric.store import Store
from aleatoric.store.faults import command
from aleatoric.training.folds import SPLITS, VALIDATION, read_assignment

if TYPE_CHECKING:
    from aleatoric.training.trainable import Tunable


def export_weights(
    run: Path, to: Path, device: str | None = None, trust_remote_code: bool = False
) -> Iterator[Path]:
    """Write every loss's folds to `to`/LOSS/fold-N; yields each folder when it is there.

    Folders of `--train lora` are adapters of peft, all others whole models of transformers. The
    weights are refused where the base model is not the one that they were trained from.
    """
    with Store.open(run) as store:
        manifest = store.manifest
    if manifest.get("command") != FINETUNE:
        raise UsageError(f"{run}: holds no fine-tuned weights; name a run of aleatoric finetune.")
    job = job_of(manifest, device, trust_remote_code)
    folds = sorted({fold for fold in manifest["split"].values() if fold != VALIDATION})
    places = [(loss, number) for loss in job.losses for number in folds]
    _check_trained(run, places)
    _check_free(to, places)
    return _exported(run, to, job, places)


def check_export(job: FinetuneJob, to: Path) -> None:
    """Refuse a folder that the weights of a job could not be written to, before it is trained."""
    numbers = list(range(1, job.folds + 1))
    if job.split not in SPLITS:
        by_hand = read_assignment(Path(job.split)).values()
        numbers = sorted({fold for fold in by_hand if isinstance(fold, int)})
    _check_free(to, [(loss, number) for loss in job.losses for number in numbers])


def _check_free(to: Path, places: Sequence[tuple[str, int]]) -> None:
    """Refuse what would be overwritten, and where nothing can be written."""
    try:
        taken = [own for own in (to / loss / f"fold-{n}" for loss, n in places) if own.exists()]
        there = next(folder for folder in (to, *to.absolute().parents) if folder.exists())
    except OSError as error:  # a name too long, or a folder that is closed to us
        reason = error.strerror
        raise UsageError(f"{to}: cannot be written ({reason}); choose another folder.") from None
    if taken:
        raise UsageError(f"{taken[0]}: is there; choose another folder.")
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"{there}: nothing can be written there; choose another folder.")


def _check_trained(run: Path, places: Sequence[tuple[str, int]]) -> None:
    """Refuse, before any model is loaded, what is not trained yet."""
    from aleatoric.training.finetune import TRAINED

    for loss, number in places:
        if not (fold_folder(run, loss, number) / TRAINED).exists():
            problem = f"fold {number} of {loss} is not trained yet"
            raise UsageError(f"{run}: {problem}; continue with {command(run)}.")


def _exported(
    run: Path, to: Path, job: FinetuneJob, places: list[tuple[str, int]]
) -> Iterator[Path]:
    from aleatoric.training.exporting import export_fold, read_weights
    from aleatoric.training.finetune import TRAINED

    model: Tunable = open_tunable(job)
    for loss, number in places:
        weights = read_weights(fold_folder(run, loss, number) / TRAINED, model)
        folder = to / loss / f"fold-{number}"
        export_fold(model, weights, job.recipe_of(loss), folder)
        yield folder
