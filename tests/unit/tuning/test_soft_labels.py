"""The soft-label loss matches the exact estimator, and its gradient finite differences."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lms import tiny

from aleatoric.errors import ModelError
from aleatoric.models.hf import HFModel
from aleatoric.nextword.exact import Search, exact
from aleatoric.nextword.trace import trace
from aleatoric.nextword.vocabulary import Vocabulary
from aleatoric.tuning.losses import (
    WordTree,
    human_losses,
    question_of,
    tree_logits,
    word_probabilities,
    word_tree,
)
from aleatoric.types import Item

ITEMS = [
    Item("1:2", "1", "It's well-known that the", ("cat", "dog", "man", "men", "Cat", "well-known")),
    Item("1:3", "1", "It's well-known that the cat", ("said", "didn't", "is", "zebra", "café")),
]
WIDE = Search(tolerance=0.3, nodes=60)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_word_probabilities_lie_within_exact_bounds(kind: str) -> None:
    lm = tiny(kind)
    vocabulary = Vocabulary(lm.pieces)
    tree = word_tree(lm, ITEMS, vocabulary, WIDE)
    found = word_probabilities(tree_logits(lm.model, tree), tree).tolist()
    asked = exact(lm, [question_of(item) for item in ITEMS], search=WIDE)
    low = [value for one in asked for value in one.low]
    high = [value for one in asked for value in one.high]
    assert len(found) == len(low)
    assert all(a - 1e-12 <= q <= b + 1e-12 for a, q, b in zip(low, found, high, strict=True))
    assert all(q > 0 for q in found), "every word's usual tokens are followed, however unlikely"


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_token_sequences_are_counted_once(kind: str) -> None:
    lm = tiny(kind)
    vocabulary = Vocabulary(lm.pieces)
    found = trace(lm, [question_of(item) for item in ITEMS], vocabulary, WIDE)
    nodes = [*zip(found.parents.tolist(), found.tokens.tolist(), strict=True)]
    steps = [*zip(found.step_rows.tolist(), found.step_tokens.tolist(), strict=True)]
    ended = [
        (row, token)
        for row, table in zip(found.end_rows.tolist(), found.end_tables.tolist(), strict=True)
        for token in vocabulary.numbered(table).ends.tolist()
    ]
    counted = [*nodes, *steps, *ended]
    assert len(set(counted)) == len(counted)
    assert (found.parents < len(ITEMS) + np.arange(len(found.parents))).all()


class OutOfMemoryOnce:
    """A model that runs out of memory once, on the first call."""

    def __init__(self, lm: HFModel) -> None:
        self._lm, self._is_full = lm, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def forward(self, *arguments: Any) -> Any:
        if self._is_full:
            self._is_full = False
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self._lm.forward(*arguments)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_out_of_memory_builds_same_tree_in_parts(kind: str) -> None:
    lm = tiny(kind)
    vocabulary = Vocabulary(lm.pieces)
    apart = [
        Item("1:9", "1", "Many more came", ("in", "there", "then")),
        Item("1:8", "1", "He said so, and", ("so", "they", "did", "café")),
    ]
    items = [*ITEMS, *apart]
    found = {}
    for name, own in (("whole", lm), ("parts", OutOfMemoryOnce(lm))):
        tree = word_tree(own, items, vocabulary, WIDE)
        probabilities = word_probabilities(tree_logits(lm.model, tree), tree)
        losses = human_losses(lm.model, tree)
        order = losses.argsort()
        found[name] = (losses[order], probabilities.sort().values, tree.weights.sort().values)
    for whole, parts in zip(found["whole"], found["parts"], strict=True):
        assert torch.allclose(whole, parts, rtol=1e-9, atol=1e-12)


def test_out_of_memory_for_one_passage_is_reported() -> None:
    lm = tiny("gpt2")
    with pytest.raises(ModelError, match="out of memory with one passage at a time"):
        word_tree(OutOfMemoryOnce(lm), ITEMS[:1], Vocabulary(lm.pieces), WIDE)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31))
def test_probabilities_of_words_never_sum_to_more_than_one(seed: int) -> None:
    """For any distributions that training can produce."""
    lm = tiny("gpt2")
    tree = _tree()
    generator = torch.Generator().manual_seed(seed)
    shape = (len(tree.keep), len(lm.pieces))
    logits = 5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    found = word_probabilities(logits, tree)
    totals = torch.zeros(tree.contexts, dtype=torch.float64)
    totals.index_add_(0, tree.word_contexts, found)
    assert float(totals.max()) <= 1 + 1e-12


@cache
def _tree() -> WordTree:
    lm = tiny("gpt2")
    return word_tree(lm, ITEMS, Vocabulary(lm.pieces), WIDE)


def test_gradient_equals_finite_differences() -> None:
    lm = tiny("gpt2")
    tree = word_tree(lm, ITEMS, Vocabulary(lm.pieces), Search(tolerance=0.3, nodes=20))
    lm.model.requires_grad_(True)
    lm.model.zero_grad()
    human_losses(lm.model, tree).mean().backward()
    generator = torch.Generator().manual_seed(0)
    checked = 0
    for name, parameter in lm.model.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        slope = float((parameter.grad * direction).sum())
        assert _difference(lm, tree, parameter, direction) == pytest.approx(
            slope, rel=1e-5, abs=1e-8
        ), name
        checked += slope != 0.0
    assert checked > 5


def _difference(lm: HFModel, tree: Any, parameter: Any, direction: torch.Tensor) -> float:
    step = 1e-6
    values = []
    with torch.no_grad():
        for sign in (step, -step):
            parameter += sign * direction
            values.append(float(human_losses(lm.model, tree).mean()))
            parameter -= sign * direction
    return (values[0] - values[1]) / (2 * step)
