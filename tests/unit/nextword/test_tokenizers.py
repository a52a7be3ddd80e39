"""Word probabilities with published tokenizers of twelve families, on tiny models."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import math
from functools import cache

import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import TEXT, RestrictedModel
from prompts import prompt
from published_tokenizers import WITH_BOS, WITHOUT_BOS, fetched
from transformers import LlamaConfig, LlamaForCausalLM
from word_heads import head

from aleatoric.models.hf import HFModel, wrap
from aleatoric.models.pieces import load_tokenizer
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.head import HeadSearch
from aleatoric.nextword.sampled import mc

FAMILIES = sampled([*WITH_BOS, *WITHOUT_BOS], ["llama2", "gpt2"])
TEXTS = (
    "It's 2026: the well-known café, naïve — “yes”!",
    "Straße, größer; año, niño. Привет, мир!",
    "你好，世界。こんにちは สวัสดี 🙂",
    "two  spaces\tand\na new line",
)


@cache
def tiny_model(name: str) -> HFModel:
    """A tiny Llama of random weights with a published tokenizer."""
    tokenizer = load_tokenizer(str(fetched(name)))
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
    config = LlamaConfig(vocab_size=len(tokenizer), **shape, **heads, initializer_range=0.3)
    return wrap(LlamaForCausalLM(config), tokenizer, name=name)


def over_few_tokens(lm: HFModel) -> RestrictedModel:
    """The model with only the tokens of an English text, mostly those that start a new word.

    Punctuation before a word, and pieces that continue one, are rare: otherwise long chains of
    them hold more mass than a search of some hundred tokens can follow.
    """
    bias = torch.full((len(lm.pieces),), -math.inf)
    for token in lm.continuation(TEXT[:150]):
        piece = lm.pieces[token] or b""
        bias[token] = 0.0 if piece[:1] == b" " and piece[1:].isalpha() else -6.0
    return RestrictedModel(lm, bias)


@pytest.mark.parametrize("name", FAMILIES)
def test_pieces_are_the_bytes_of_the_text(name):
    lm = tiny_model(name)
    for text in TEXTS:
        pieces = [lm.pieces[token] for token in lm.continuation(text)]
        assert None not in pieces
        # SentencePiece tokenizers put a space before a text.
        assert b"".join(pieces).decode().removeprefix(" ") == text


@pytest.mark.parametrize("name", FAMILIES)
def test_word_probabilities_sum_to_one_within_bounds(name):
    lm = over_few_tokens(tiny_model(name))
    context = "There are many"
    [found] = head(lm, [context], search=HeadSearch(tolerance=0.05, nodes=500))
    assert found.words.rest <= 0.05
    assert sum(found.words.probs) + found.words.rest == pytest.approx(1.0, abs=1e-5)
    words = found.words.support
    [asked] = exact(lm, [Question(context, words)], search=Search(0.02, 1000))
    assert sum(asked.low) <= 1 + 1e-5
    assert sum(asked.high) >= sum(found.words.probs) - 1e-5
    [draws] = mc(lm, [prompt("x", context)], samples=2000, seed=1)
    n = sum(draws.counts.values())
    assert n + draws.failed == 2000
    for word, low, high in zip(words, asked.low, asked.high, strict=True):
        slack = 4.5 * math.sqrt(max(high, 1e-4) / n)
        assert low - slack <= draws.counts.get(word, 0) / n <= high + slack
