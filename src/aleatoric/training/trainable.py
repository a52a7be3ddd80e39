"""Which of a model's parameters train; all others stay as they are."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from aleatoric.errors import MissingExtraError, ModelError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.hf import HFModel

PAPER = "last-2-blocks"
LORA_SCALE = 2
"""How much low-rank additions count: peft's alpha over the rank."""
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

    @cached_property
    def digest(self) -> str:
        """What tells the parameters that train, as they were before, from any other's."""
        return _digest(self.initial)

    @cached_property
    def base_digest(self) -> str:
        """What tells the parameters that stay as they are from any other's."""
        return _digest(
            {name: own for name, own in _kept(self.lm.model) if name not in self.initial}
        )


def _kept(model: Any) -> Iterator[tuple[str, Tensor]]:
    """All of a model that is written where it is saved, tied parameters once."""
    saved = model.state_dict().keys()
    for name, own in chain(model.named_parameters(), model.named_buffers()):
        if name in saved:
            yield name, own.detach()


def _digest(tensors: Mapping[str, Tensor]) -> str:
    import torch

    found = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        found.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        flat = value.cpu().contiguous().flatten()
        found.update(flat.view(torch.uint8).numpy().data)
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

    config = lora_config(rank)
    from peft import inject_adapter_in_model

    with torch.random.fork_rng(), warnings.catch_warnings():
        # GPT-2's layers keep their weights turned around: peft sees it, sets it right and says so.
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to False")
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)


def lora_config(rank: int, **more: Any) -> Any:
    """What peft must know of our additions: scale 2, no dropout, all linear layers but the head."""
    try:
        from peft import LoraConfig
    except ModuleNotFoundError:
        raise MissingExtraError("peft", "train") from None
    known: dict[str, Any] = {"r": rank, "lora_alpha": LORA_SCALE * rank, "lora_dropout": 0.0}
    return LoraConfig(**known | {"bias": "none", "target_modules": "all-linear"} | more)
