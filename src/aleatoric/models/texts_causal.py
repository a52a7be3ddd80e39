"""Causal language models as writers: the text is what follows the input."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError
from aleatoric.models.base import Writing
from aleatoric.models.hf import end_ids, token_rows
from aleatoric.models.networks import Loaded
from aleatoric.models.probing import are_same
from aleatoric.models.prompts import chat_text, joined
from aleatoric.models.sampling import Ids
from aleatoric.models.starts import policy_of, start_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class CausalNetwork(Loaded):
    """A causal LM with its tokenizer. Special tokens end a text, as at the word level."""

    start: Ids = ()

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """End of text, and every other special token."""
        return tuple(sorted({*end_ids(self.model), *self.tokenizer.all_special_ids}))

    @property
    def conventions(self) -> Mapping[str, str]:
        """Beginning and end of a text."""
        return {"bos": policy_of(self.tokenizer, self.start), "end": "special"}

    def encode(self, turns: Sequence[str], ask: Writing) -> Ids:
        """The input in the template, or in the model's chat template with what opens an answer."""
        if ask.chat:
            # A chat template writes the beginning of text itself.
            (row,) = token_rows(self.tokenizer, [chat_text(self.tokenizer, turns, ask, self.label)])
            return tuple(row)
        text = joined(turns, ask, self.tokenizer.eos_token, is_continued=True)
        (row,) = token_rows(self.tokenizer, [text])
        return (*self.start, *row)

    def decode(self, ids: Ids) -> str:
        """The text of tokens, as they stand."""
        return decoded(self.tokenizer, ids)

    def room(self, ids: Ids) -> int:
        """What the input leaves of the window."""
        return self.window - len(ids)

    def bytes_of(self, tokens: int) -> int:
        """Keys and values of so many tokens in all layers."""
        return tokens * kv_bytes(self.model)

    def begin(self, prompts: Sequence[Ids]) -> tuple[CausalBatch, Tensor]:
        """Run prompts side by side, filled up at their beginnings."""
        from transformers import DynamicCache

        ids, mask = padded_left(prompts, self.device)
        batch = CausalBatch(self, DynamicCache(), mask[:, :0])
        return batch, batch.run(ids, mask)

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """One row by itself, without a cache."""
        import torch

        ids = torch.tensor([(*prompt, *written)], device=self.device)
        return self.forward(ids, torch.ones_like(ids), None)

    def forward(self, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """The logits after the last of `ids`; `mask` speaks of all columns up to there."""
        import torch

        given = {"input_ids": ids, "attention_mask": mask, "use_cache": cache is not None}
        given |= {} if cache is None else {"past_key_values": cache}
        if "position_ids" in self._accepted:
            given["position_ids"] = (mask.cumsum(-1) - 1).clamp_min(0)[:, -ids.shape[1] :]
        if "logits_to_keep" in self._accepted:
            given["logits_to_keep"] = 1
        with torch.inference_mode():
            found: Tensor = self.model(**given).logits[:, -1]
        return found

    @cached_property
    def _accepted(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.model.forward).parameters)


class CausalBatch:
    """Rows with their keys and values; those of an input are computed once and copied."""

    def __init__(self, network: CausalNetwork, cache: Any, mask: Tensor) -> None:
        self._network = network
        self._cache = cache
        self._mask = mask

    def run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Add tokens to all rows."""
        import torch

        self._mask = torch.cat([self._mask, mask], 1)
        return self._network.forward(ids, self._mask, self._cache)

    def advance(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Copies of `parents` with a token more."""
        if not is_all(parents, len(self._mask)):
            self._cache.batch_select_indices(parents)
            self._mask = self._mask[parents]
        return self.run(tokens[:, None], self._mask.new_ones((len(tokens), 1)))


def is_all(parents: Tensor, count: int) -> bool:
    """Whether `parents` are all rows in their order, so that nothing need be copied.

    >>> import torch
    >>> is_all(torch.tensor([0, 1]), 2), is_all(torch.tensor([0, 0]), 2)
    (True, False)
    """
    import torch

    own = torch.arange(count, device=parents.device)
    return len(parents) == count and bool((parents == own).all())


def padded_left(rows: Sequence[Ids], device: Any) -> tuple[Tensor, Tensor]:
    """Token rows as one tensor, filled at the beginning, with a mask of what is real.

    >>> [part.tolist() for part in padded_left([(5, 6), (7,)], "cpu")]
    [[[5, 6], [0, 7]], [[1, 1], [0, 1]]]
    """
    import torch

    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        mask[i, width - len(row) :] = 1
    return ids.to(device), mask.to(device)


def decoded(tokenizer: Any, ids: Ids) -> str:
    """The text of tokens without special ones and without touching its spaces."""
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    found: str = tokenizer.decode(list(ids), **options)
    return found


def kv_bytes(model: Any) -> int:
    """Bytes of the keys and values of one token in all layers, from above."""
    config = model.config.get_text_config(decoder=True)
    layers = config.num_hidden_layers
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * layers * shared * width * model.dtype.itemsize)


def causal_network(model: Any, tokenizer: Any, *, label: str, bos: str = "auto") -> CausalNetwork:
    """A loaded causal LM as a network; refuses one that cannot share what it has read."""
    start = start_tokens(tokenizer, bos, label)
    network = CausalNetwork(label, model.eval(), tokenizer, start)
    _check_sharing(network)
    return network


def _check_sharing(network: CausalNetwork) -> None:
    """A short row filled up and copied must give what it gives by itself."""
    import torch

    a, b, c = (token % network.width for token in (1, 2, 3))
    try:
        batch, _ = network.begin([(a, b, c), (b,)])
        parents = torch.tensor([1, 0, 1], device=network.device)
        found = batch.advance(parents, torch.tensor([c, c, a], device=network.device))
        wanted = [
            network.alone((b,), (c,)),
            network.alone((a, b, c), (c,)),
            network.alone((b,), (a,)),
        ]
    except (AttributeError, TypeError, RuntimeError, ValueError, IndexError) as error:
        raise UsageError(f"{network.label}: {_NO_SHARING} ({type(error).__name__}).") from error
    if not are_same(torch.cat(wanted), found):
        raise UsageError(f"{network.label}: {_NO_SHARING}.")


_NO_SHARING = (
    "it does not keep keys and values that rows of a batch can share; use a decoder-only "
    "transformer with the eager or sdpa attention"
)
