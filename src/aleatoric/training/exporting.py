"""A fold's weights as a folder that transformers, or peft, loads by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError
from aleatoric.models.hf import quiet
from aleatoric.training.finetune import check_identity, model_identity
from aleatoric.training.recipe import Recipe
from aleatoric.training.tensors import load_tensors, save_tensors, unwritten
from aleatoric.training.trainable import Tunable, lora_config

if TYPE_CHECKING:
    from torch import Tensor

_ADAPTER = "adapter_model.safetensors"


def export_fold(model: Tunable, weights: Mapping[str, Tensor], recipe: Recipe, to: Path) -> None:
    """Write trained weights to a new folder, whole or not at all: an adapter, or a whole model.

    Low-rank additions become an adapter of peft, which names the base model; of everything else
    the whole model is written, its tokenizer beside it.
    """
    with _new_folder(to) as folder:
        model.lm.tokenizer.save_pretrained(folder)
        if recipe.train == "lora":
            _write_adapter(model, weights, recipe, folder)
        else:
            _write_model(model, weights, folder)


def _write_model(model: Tunable, weights: Mapping[str, Tensor], folder: Path) -> None:
    import transformers

    model.load(weights)
    try:
        with quiet(transformers):
            model.lm.model.save_pretrained(folder)
    finally:
        model.reset()


def _write_adapter(
    model: Tunable, weights: Mapping[str, Tensor], recipe: Recipe, folder: Path
) -> None:
    """The additions under peft's own names, and its description of them."""
    layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in weights}
    config = lora_config(
        recipe.lora_rank,
        target_modules=sorted(layers),
        task_type="CAUSAL_LM",
        base_model_name_or_path=_base_name(model.lm.model),
        revision=model.lm.revision,
        inference_mode=True,
        # Peft finds this out by itself, and warns each time.
        fan_in_fan_out=any(getattr(m, "fan_in_fan_out", False) for m in model.lm.model.modules()),
    )
    config.save_pretrained(folder)
    named = {f"base_model.model.{name.replace('.default.', '.')}": w for name, w in weights.items()}
    save_tensors(folder / _ADAPTER, named)


def _base_name(model: Any) -> str:
    """The name on the hub, or the directory as seen from anywhere."""
    name = str(model.name_or_path)
    return str(Path(name).resolve()) if Path(name).exists() else name


@contextmanager
def _new_folder(to: Path) -> Iterator[Path]:
    """A folder that is there when all is written; what is there before stays untouched."""
    if to.exists():
        raise UsageError(f"{to}: is there already; choose another folder to export to.")
    from safetensors import SafetensorError

    beside = to.with_name(f".{to.name}.part")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        os.replace(beside, to)
    except (OSError, SafetensorError) as error:
        raise unwritten(to, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_weights(path: Path, model: Tunable) -> dict[str, Tensor]:
    """The weights that training kept, where they belong to this model."""
    saved = load_tensors(path)
    check_identity(path, saved, model_identity(model))
    return saved.tensors
