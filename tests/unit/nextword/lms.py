"""Tiny random-weight models with a real byte-level tokenizer, made in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from aleatoric.models.hf import HFModel, wrap
from aleatoric.nextword.rules import DONE, LEAD, WordState, advance, fold, normalise

TEXT = (
    "It's well-known that the cat said \"come in\" and the dog didn't. There are many things, "
    "some of them new.\nA café; naïve — “yes”, she said: the end. He said so, and so did they! "
    "Many more came in the evening; the men and the man and the woman went there then. "
) * 3


@cache
def tokenizer(size: int = 360) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        [TEXT],
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|endoftext|>", bos_token="<|endoftext|>"
    )


def tiny(kind: str, dtype: Any = torch.float64, bos: str = "none", window: int = 128) -> HFModel:
    """A two-layer model of the given architecture, with peaked next-token distributions.

    Created anew on each call: a test may train or convert its model without affecting others.
    """
    torch.manual_seed(0)
    words = tokenizer()
    ends: dict[str, Any] = {"eos_token_id": words.eos_token_id, "bos_token_id": words.eos_token_id}
    model: Any
    if kind == "gpt2":
        shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": window}
        config = GPT2Config(vocab_size=len(words), **shape, initializer_range=0.2, **ends)
        model = GPT2LMHeadModel(config)
    else:
        llama = LlamaConfig(
            vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=window,
            initializer_range=0.2, **ends,
        )  # fmt: skip
        model = LlamaForCausalLM(llama)
    return wrap(model.to(dtype), words, name=f"tiny-{kind}", bos=bos)  # type: ignore[arg-type]


def next_probs(lm: HFModel, ids: tuple[int, ...]) -> torch.Tensor:
    """Next-token probabilities by one plain forward pass without any cache."""
    with torch.no_grad():
        return lm.model(torch.tensor([ids])).logits[0, -1].softmax(-1)


@dataclass(frozen=True)
class RestrictedModel:
    """A model that never generates a bare space or partial character, so that sums are finite."""

    inner: Any
    bias: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, *arguments: Any) -> Any:
        logits, kv = self.inner.forward(*arguments)
        return logits + self.bias, kv

    @property
    def plain(self) -> Any:
        return RestrictedPass(self.inner.plain, self.bias)

    def next_probs(self, ids: tuple[int, ...]) -> Any:
        return (next_probs(self.inner, ids).log() + self.bias).softmax(-1)


@dataclass(frozen=True)
class RestrictedPass:
    """Plain passes of such a model."""

    inner: Any
    bias: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def contexts(self, *arguments: Any) -> Any:
        return ((logits + self.bias, state) for logits, state in self.inner.contexts(*arguments))

    def after(self, *arguments: Any) -> Any:
        return self.inner.after(*arguments) + self.bias

    def alone(self, *arguments: Any) -> Any:
        return self.inner.alone(*arguments) + self.bias


def without_partial_tokens(lm: HFModel) -> RestrictedModel:
    """The model without such tokens."""
    after = [advance(WordState(), piece, "condition") for piece in lm.pieces]
    barred = [state.mode == LEAD or bool(state.pending) for state in after]
    return RestrictedModel(lm, torch.where(torch.tensor(barred), -math.inf, 0.0))


def brute_force(lm: RestrictedModel, context: str, word: str) -> float:
    """The mass of one word over every segmentation and case, with one forward pass per node."""
    target, found = fold(normalise(word)), 0.0
    stack = [(lm.encode(context), WordState(), 1.0)]
    while stack:
        ids, state, mass = stack.pop()
        for token, p in enumerate(lm.next_probs(ids).tolist()):
            after = advance(state, lm.pieces[token], "condition")
            if after.mode == DONE:
                found += mass * p * (fold(after.word) == target)
            elif after.mode < DONE and p > 0 and target.startswith(fold(after.word)):
                stack.append(((*ids, token), after, mass * p))
    return found
