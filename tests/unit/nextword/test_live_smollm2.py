"""The estimators on the embedded SmolLM2, if its conversion is cached."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import brute_force, without_partial_tokens
from prompts import prompt

from aleatoric.models import gguf
from aleatoric.models.base import LoadOptions
from aleatoric.models.hf import load_smollm2
from aleatoric.models.plain import Limits
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.rules import DONE, WordState, advance, fold
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.tree import Tree, passages_of

pytestmark = pytest.mark.skipif(
    not gguf.smollm2_is_cached(), reason="SmolLM2 is not in the cache; run `aleatoric demo` once"
)
CONTEXTS = ["There are now rumblings that", "There are now rumblings that Apple"]


@pytest.fixture(scope="module")
def lm():
    return load_smollm2("", LoadOptions(device="cpu"))


def test_digits_are_tokenized_one_by_one(lm):
    assert len(lm.encode("2024")) == 4


def test_exact_matches_one_word_at_a_time(lm):
    """Compares with the most likely tokenization of each word, run alone without a cache."""
    import torch

    words = ("will", "is", "has", "company")
    [found] = exact(lm, [Question(CONTEXTS[1], words)], search=Search(0.02))
    for word, low, high in zip(words, found.low, found.high, strict=True):
        ids = [*lm.encode(CONTEXTS[1]), *lm.continuation(f" {word}")]
        with torch.no_grad():
            logp = lm.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        start = len(lm.encode(CONTEXTS[1]))
        spelled = sum(float(logp[i - 1, ids[i]]) for i in range(start, len(ids)))
        state = WordState()
        for token in ids[start:]:
            state = advance(state, lm.pieces[token])
        ends = [
            token
            for token, piece in enumerate(lm.pieces)
            if (after := advance(state, piece)).mode == DONE and fold(after.word) == word
        ]
        alone = math.exp(spelled) * float(logp[-1, ends].exp().sum())
        assert alone <= high + 1e-6
        assert alone >= low * 0.5


@pytest.mark.long
def test_exact_equals_brute_force():
    """Every tokenization of a word, each node run alone from the start, in float64."""
    lm = without_partial_tokens(load_smollm2("", LoadOptions("float64", "cpu")))
    search = Search(0.0, 10**6, "outcome")
    [found] = exact(lm, [Question("This is", ("a",))], lead="condition", search=search)
    mass = brute_force(lm, "This is", "a")
    assert mass > 0.05
    assert found.low[0] == pytest.approx(mass, abs=1e-6)
    assert found.high[0] == pytest.approx(mass, abs=1e-6)


@pytest.mark.long
def test_tree_probabilities_match_plain_forward_passes():
    """In float64, because in float32 two plain passes of different length differ by 1e-6 too."""
    import torch

    lm = load_smollm2("", LoadOptions("float64", "cpu"))
    context = lm.encode(CONTEXTS[0])
    longer = lm.encode(CONTEXTS[1])
    tree = Tree(lm, passages_of([context, longer]))
    span = tree.spans()[0]
    list(tree.run_trunk())
    paths = [lm.continuation(text) for text in (" the company", " people are", " it’s", ", too")]
    numbers = [-1] * len(paths)
    for depth in range(2):
        tokens = np.array([path[depth] for path in paths])
        [(_, found, logits)] = tree.extend(np.array([span] * 4), np.array(numbers), tokens)
        numbers = found.tolist()
        for path, row in zip(paths, logits, strict=True):
            with torch.no_grad():
                plain = lm.model(torch.tensor([[*context, *path[: depth + 1]]])).logits[0, -1]
            torch.testing.assert_close(row.softmax(-1), plain.softmax(-1), atol=1e-6, rtol=0)


@pytest.mark.long
def test_exact_and_mc_agree(lm):
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS)]
    samples = 300
    for draws, context in zip(mc(lm, prompts, samples=samples), CONTEXTS, strict=True):
        words = tuple(sorted(draws.counts, key=draws.counts.__getitem__, reverse=True)[:5])
        [found] = exact(lm, [Question(context, words)], search=Search(0.02))
        for word, low, high in zip(words, found.low, found.high, strict=True):
            slack = 4.5 * math.sqrt(high / samples)
            assert low - slack <= draws.counts[word] / samples <= high + slack


@pytest.mark.long
def test_draws_do_not_depend_on_the_batch(lm):
    prompts = [prompt("x", CONTEXTS[1])]
    few = replace(lm, limits=Limits(nodes=16))
    assert mc(lm, prompts, samples=100) == mc(few, prompts, samples=100)
