"""Export of fine-tuned weights for transformers and peft, fold by fold."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError
from aleatoric.hub import quiet
from aleatoric.levels.base import level_of
from aleatoric.runs.disk import command
from aleatoric.runs.engine import open_model
from aleatoric.runs.run import Store
from aleatoric.tuning import training
from aleatoric.tuning.recipe import (
    SPLITS,
    VALIDATION,
    FinetuneJob,
    fold_folder,
    read_assignment,
)
from aleatoric.tuning.training import TRAINED, Tunable

if TYPE_CHECKING:
    from torch import Tensor

_ADAPTER = "adapter_model.safetensors"


def export_weights(
    run: Path, to: Path, device: str | None = None, trust_remote_code: bool = False
) -> Iterator[Path]:
    """Write the folds of every loss to `to`/LOSS/fold-N; yield each folder when it is written.

    With `--train lora` folders are adapters of peft, otherwise whole models of transformers. A base
    model other than the one that was trained is refused.
    """
    with Store.open(run) as store:
        manifest = store.manifest
        level = level_of(store)
        if not issubclass(level.job_type, FinetuneJob):
            problem = "holds no fine-tuned weights; name a run of aleatoric finetune"
            raise UsageError(f"{run}: {problem}.")
    changes = {"device": device or manifest["device"], "trust_remote_code": trust_remote_code}
    job: Any = level.job_type.from_manifest(manifest, changes)
    folds = sorted({fold for fold in manifest["assignment"].values() if fold != VALIDATION})
    places = [(loss, number) for loss in job.losses for number in folds]
    _check_trained(run, places)
    _check_free(to, places)
    return _exported(run, to, job, places)


def open_tunable(job: FinetuneJob) -> Tunable:
    """Open the base model of a run, with the parameters that train."""
    live: Any = open_model(job.model, job.loading)
    return training.make_tunable(live.lm, job.train, job.lora_rank, job.seed)


def check_export(job: FinetuneJob, to: Path) -> None:
    """Refuse a folder that the weights of a job could not be written to, before it is trained."""
    numbers = list(range(1, job.folds + 1))
    if job.split not in SPLITS:
        assigned = read_assignment(Path(job.split)).values()
        numbers = sorted({fold for fold in assigned if isinstance(fold, int)})
    _check_free(to, [(loss, number) for loss in job.losses for number in numbers])


def _check_trained(run: Path, places: Sequence[tuple[str, int]]) -> None:
    for loss, number in places:
        if not (fold_folder(run, loss, number) / TRAINED).exists():
            problem = f"fold {number} of {loss} is not trained yet"
            raise UsageError(f"{run}: {problem}; continue with {command(run)}.")


def _check_free(to: Path, places: Sequence[tuple[str, int]]) -> None:
    try:
        folders = [to / loss / f"fold-{number}" for loss, number in places]
        existing = [folder for folder in folders if folder.exists()]
        parent = next(folder for folder in (to, *to.absolute().parents) if folder.exists())
    except OSError as error:  # a name too long, or no permission
        reason = error.strerror
        raise UsageError(f"{to}: cannot be written ({reason}); choose another folder.") from None
    if existing:
        raise UsageError(f"{existing[0]}: is there; choose another folder.")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise UsageError(f"{parent}: nothing can be written there; choose another folder.")


def _exported(
    run: Path, to: Path, job: FinetuneJob, places: list[tuple[str, int]]
) -> Iterator[Path]:
    model: Tunable = open_tunable(job)
    for loss, number in places:
        path = fold_folder(run, loss, number) / TRAINED
        saved = training.load_tensors(path)
        training.check_identity(path, saved, training.model_identity(model))
        folder = to / loss / f"fold-{number}"
        with _new_folder(folder) as unfinished:
            model.lm.tokenizer.save_pretrained(unfinished)
            if job.train == "lora":
                _write_adapter(model, saved.tensors, job.lora_rank, unfinished)
            else:
                _write_model(model, saved.tensors, unfinished)
        yield folder


@contextmanager
def save_model(model: Tunable, weights: Mapping[str, Tensor], folder: Path) -> Iterator[Path]:
    """Save a trained model with its tokenizer as a whole model; the caller may add files to it."""
    with _new_folder(folder) as unfinished:
        model.lm.tokenizer.save_pretrained(unfinished)
        _write_model(model, weights, unfinished)
        yield unfinished


def _merged(network: Any) -> dict[str, Tensor]:
    """Return the weights of a model with its low-rank matrices added to the layers they are of."""
    state = {
        name.replace(".base_layer.", "."): value
        for name, value in network.state_dict().items()
        if ".lora_" not in name
    }
    for name, module in network.named_modules():
        if hasattr(module, "get_delta_weight"):
            state[f"{name}.weight"] = state[f"{name}.weight"] + module.get_delta_weight("default")
    return state


def _write_model(model: Tunable, weights: Mapping[str, Tensor], folder: Path) -> None:
    import transformers

    model.load(weights)
    try:
        with quiet(transformers):
            network = model.lm.model
            is_lora = any(".lora_" in name for name in weights)
            network.save_pretrained(folder, state_dict=_merged(network) if is_lora else None)
    finally:
        model.reset()


def _write_adapter(model: Tunable, weights: Mapping[str, Tensor], rank: int, folder: Path) -> None:
    layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in weights}
    name = str(model.lm.model.name_or_path)  # on the hub, or a folder
    config = training.lora_config(
        rank,
        target_modules=sorted(layers),
        task_type="CAUSAL_LM",
        base_model_name_or_path=str(Path(name).resolve()) if Path(name).exists() else name,
        revision=model.lm.revision,
        inference_mode=True,
        # Otherwise peft detects this itself, and warns each time.
        fan_in_fan_out=any(getattr(m, "fan_in_fan_out", False) for m in model.lm.model.modules()),
    )
    config.save_pretrained(folder)
    tensors = {f"base_model.model.{key.replace('.default.', '.')}": w for key, w in weights.items()}
    training.save_tensors(folder / _ADAPTER, tensors)


@contextmanager
def _new_folder(to: Path) -> Iterator[Path]:
    """Write a folder whole or not at all."""
    from safetensors import SafetensorError

    beside = to.with_name(f".{to.name}.part")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        os.replace(beside, to)
    except (OSError, SafetensorError) as error:
        raise training.unwritten(to, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
