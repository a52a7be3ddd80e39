"""Encoder-decoder models (Marian, T5, BART, ...) on sentence pairs, the reference as prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aleatoric.errors import DataError
from aleatoric.models.base import Reads, Strip
from aleatoric.models.forced_causal import padded
from aleatoric.models.hf import decoder_start, window_of
from aleatoric.types import SentencePair

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Seq2SeqForced:
    """An encoder-decoder that reads a source and is given its translation, token by token.

    The end of a sentence counts, other special tokens of the target (a language's name, BART's
    beginning) do not.
    """

    label: str
    version: str
    window: int
    start: int
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    reads: Reads = "pairs"

    @property
    def vocabulary_size(self) -> int:
        """The width of its logits."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def conventions(self) -> Mapping[str, str]:
        """Which special tokens are scored."""
        return {"eos": "scored", "special": "not-scored"}

    def strips(self, items: Sequence[SentencePair]) -> list[list[Strip]]:
        """One strip a sentence pair."""
        sources = self.tokenizer([item.source for item in items])["input_ids"]
        targets = self.tokenizer(text_target=[item.target for item in items])["input_ids"]
        return [
            [self._strip(item.id, tuple(source), tuple(target))]
            for item, source, target in zip(items, sources, targets, strict=True)
        ]

    def logits(self, strips: Sequence[Strip]) -> Tensor:
        """What the model expects after each given target token."""
        import torch

        filler = self.tokenizer.pad_token_id or 0
        source, source_mask = padded([s.source for s in strips], self.model.device, filler)
        given, given_mask = padded([s.given for s in strips], self.model.device, filler)
        with torch.inference_mode():
            found: Tensor = self.model(
                input_ids=source,
                attention_mask=source_mask,
                decoder_input_ids=given,
                decoder_attention_mask=given_mask,
                use_cache=False,
            ).logits
        return found

    def _strip(self, group: str, source: tuple[int, ...], target: tuple[int, ...]) -> Strip:
        longest = max(len(source), len(target))
        if longest > self.window:
            raise DataError(
                f"sentence {group} has {longest} tokens, and {self.label} reads {self.window}; "
                "cut it into shorter ones in both files."
            )
        skipped = set(self.tokenizer.all_special_ids) - {self.tokenizer.eos_token_id}
        # A word that the vocabulary lacks is still a reference token.
        skipped.discard(self.tokenizer.unk_token_id)
        scored = tuple(i for i, token in enumerate(target) if token not in skipped)
        return Strip(group, (self.start, *target[:-1]), target, scored, 0, source)


def seq2seq_forced(model: Any, tokenizer: Any, *, label: str, version: str) -> Seq2SeqForced:
    """A loaded encoder-decoder as a reader of sentence pairs."""
    start = decoder_start(model, label)
    return Seq2SeqForced(label, version, window_of(model.config), start, model, tokenizer)
