"""Encoder-decoder models (Marian, T5, BART, ...) as writers: the text answers the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aleatoric.models.base import Writing
from aleatoric.models.forced_causal import padded
from aleatoric.models.hf import decoder_start, end_ids
from aleatoric.models.networks import Loaded
from aleatoric.models.prompts import chat_text, joined
from aleatoric.models.sampling import Ids
from aleatoric.models.texts_causal import decoded, is_all, kv_bytes

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Seq2SeqNetwork(Loaded):
    """An encoder-decoder with its tokenizer.

    The padding token is no outcome: it is never a target in training, and some converted
    checkpoints give it a logit without meaning.
    """

    start: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """End of text; other special tokens (a language, a mark) are part of it and not shown."""
        own = self.tokenizer.eos_token_id
        return tuple(sorted({*end_ids(self.model), *([] if own is None else [own])}))

    @property
    def conventions(self) -> Mapping[str, str]:
        """End of a text, and what is never drawn."""
        return {"end": "eos", "pad": "never"}

    def encode(self, turns: Sequence[str], ask: Writing) -> Ids:
        """The input with the special tokens that the tokenizer puts around it."""
        if ask.chat:
            text = chat_text(self.tokenizer, turns, ask, self.label)
        else:
            text = joined(turns, ask, self.tokenizer.eos_token, is_continued=False)
        return tuple(self.tokenizer(text)["input_ids"])

    def decode(self, ids: Ids) -> str:
        """The text of tokens, as they stand."""
        return decoded(self.tokenizer, ids)

    def room(self, ids: Ids) -> int:
        """The decoder's own window, if the encoder's holds the input."""
        return self.window - 1 if len(ids) <= self.window else 0

    def bytes_of(self, tokens: int) -> int:
        """Keys and values of both sides."""
        return tokens * kv_bytes(self.model)

    def begin(self, prompts: Sequence[Ids]) -> tuple[Seq2SeqBatch, Tensor]:
        """Run the encoder on inputs side by side, and the decoder's first token."""
        import torch
        from transformers import DynamicCache, EncoderDecoderCache

        ids, mask = padded(prompts, self.device, self.tokenizer.pad_token_id or 0)
        with torch.inference_mode():
            states = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        batch = Seq2SeqBatch(self, cache, states, mask)
        return batch, batch.run(torch.full_like(ids[:, :1], self.start))

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """One row by itself, without a cache."""
        import torch

        ids = torch.tensor([prompt], device=self.device)
        given = torch.tensor([(self.start, *written)], device=self.device)
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            out = self.model(
                input_ids=ids, attention_mask=mask, decoder_input_ids=given, use_cache=False
            )
            return self._possible(out.logits[:, -1])

    def forward(self, tokens: Tensor, states: Any, mask: Tensor, cache: Any) -> Tensor:
        """The logits after one more token of the decoder."""
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        with torch.inference_mode():
            out = self.model(
                encoder_outputs=BaseModelOutput(states),
                attention_mask=mask,
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            return self._possible(out.logits[:, -1])

    def _possible(self, logits: Tensor) -> Tensor:
        """Logits without the padding token."""
        pad = self.tokenizer.pad_token_id
        if pad is not None and pad not in self.ends:
            logits[:, pad] = -float("inf")
        return logits


class Seq2SeqBatch:
    """Rows of the decoder with their inputs; each input is encoded once."""

    def __init__(self, network: Seq2SeqNetwork, cache: Any, states: Tensor, mask: Tensor) -> None:
        self._network = network
        self._cache = cache
        self._states = states
        self._mask = mask

    def run(self, tokens: Tensor) -> Tensor:
        """Add a token to all rows."""
        return self._network.forward(tokens, self._states, self._mask, self._cache)

    def advance(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Copies of `parents` with a token more."""
        if not is_all(parents, len(self._mask)):
            self._cache.batch_select_indices(parents)
            self._states, self._mask = self._states[parents], self._mask[parents]
        return self.run(tokens[:, None])


def seq2seq_network(model: Any, tokenizer: Any, *, label: str) -> Seq2SeqNetwork:
    """A loaded encoder-decoder as a network."""
    return Seq2SeqNetwork(label, model.eval(), tokenizer, decoder_start(model, label))
