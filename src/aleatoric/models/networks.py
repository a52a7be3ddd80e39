"""What causal models and encoder-decoders that write texts have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aleatoric.models.hf import window_of


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model of transformers with its tokenizer."""

    label: str
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)

    @property
    def device(self) -> Any:
        """Where the model is."""
        return self.model.device

    @property
    def dtype(self) -> str:
        """The precision of its weights."""
        return str(self.model.dtype).removeprefix("torch.")

    @cached_property
    def width(self) -> int:
        """The width of its logits."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @cached_property
    def window(self) -> int:
        """The longest sequence it takes; of an encoder-decoder, on either side."""
        return window_of(self.model.config)
