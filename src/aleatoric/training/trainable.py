"""Which of a model's parameters train; all others stay as they are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aleatoric.errors import MissingExtraError, ModelError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.hf import HFModel

PAPER = "last-2-blocks"
_BLOCKS = re.compile(r"last-(\d+)-blocks?")


@dataclass(frozen=True, eq=False)
class Tunable:
    """A model with the parameters that train, and their values before any training."""

    lm: HFModel
    parameters: Mapping[str, Any]
    initial: Mapping[str, Tensor]

    def weights(self) -> dict[str, Tensor]:
        """Copies of the parameters as they are now."""
        return {name: own.detach().clone() for name, own in self.parameters.items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Put weights in place."""
        if weights.keys() != self.parameters.keys():
            raise ModelError("these weights belong to other parameters than those that train.")
        for name, own in self.parameters.items():
            own.data.copy_(weights[name])

    def reset(self) -> None:
        """Back to the model before training."""
        self.load(self.initial)

    def digest(self) -> str:
        """What tells this model's untrained parameters from any other's."""
        import torch

        found = hashlib.sha256()
        for name, value in sorted(self.initial.items()):
            found.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
            flat = value.cpu().contiguous().flatten()
            found.update(flat.view(torch.uint8).numpy().tobytes())
        return found.hexdigest()[:16]


def make_tunable(lm: HFModel, which: str = PAPER, rank: int = 8, seed: int = 0) -> Tunable:
    """Let the named parameters train: `last-2-blocks`, `all` or `lora`.

    A block is one layer of the transformer; the norm and the head behind the last one stay fixed.
    """
    for own in lm.model.parameters():
        own.requires_grad_(False)
    if which == "lora":
        _add_lora(lm.model, rank, seed)
    elif which == "all":
        lm.model.requires_grad_(True)
    else:
        for block in _last_blocks(lm.model, _count(which)):
            block.requires_grad_(True)
    chosen = {name: own for name, own in lm.model.named_parameters() if own.requires_grad}
    return Tunable(lm, chosen, {name: own.detach().clone() for name, own in chosen.items()})


def check_trainable(which: str) -> None:
    """Refuse what names no parameters.

    >>> check_trainable("last-2-blocks")
    """
    if which not in ("all", "lora"):
        _count(which)


def _count(which: str) -> int:
    found = _BLOCKS.fullmatch(which)
    if found is None or int(found[1]) < 1:
        raise UsageError(f"--train {which} is not known; use {PAPER}, all or lora.")
    return int(found[1])


def _last_blocks(model: Any, count: int) -> list[Any]:
    blocks = next(_stacks(model), None)
    if blocks is None:
        raise ModelError("the model's blocks cannot be told apart; use --train all or lora.")
    if count > len(blocks):
        raise UsageError(f"--train last-{count}-blocks: the model has {len(blocks)}; use fewer.")
    return list(blocks[-count:])


def _stacks(model: Any) -> Iterator[Any]:
    """Lists of modules as long as the model has layers."""
    import torch

    layers = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == layers:
            yield module


def _add_lora(model: Any, rank: int, seed: int) -> None:
    """Low-rank additions to all linear layers; they begin as nothing."""
    import torch

    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError:
        raise MissingExtraError("peft", "train") from None
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        inject_adapter_in_model(config, model)
