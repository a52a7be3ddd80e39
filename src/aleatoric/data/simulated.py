"""A simulated corpus: people who draw their answers from distributions that are known exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice

import numpy as np

from aleatoric.rng import stream
from aleatoric.types import Categorical, Corpus, Item, LazyItems

VOCABULARY = 1000
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "sh", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")


@cache
def vocabulary() -> tuple[str, ...]:
    """The made-up words: two syllables each, all different."""
    syllables = [onset + vowel for vowel in _VOWELS for onset in _ONSETS]
    words = (first + second for first in syllables for second in syllables)
    return tuple(islice(words, VOCABULARY))


def truth(context: str, temperature: float = 1.0) -> Categorical:
    """The exact next-word distribution of a context, at a temperature."""
    rng = stream(0, "truth", context)
    steepness = _passage_steepness(context.partition(" ")[0]) + rng.gamma(2.0, 0.15)
    size = int(rng.integers(3, 60))
    numbers = rng.choice(VOCABULARY, size=size, replace=False)
    weights = np.arange(1, size + 1, dtype=np.float64) ** (-steepness / temperature)
    probs = weights / weights.sum()
    words = vocabulary()
    return Categorical(tuple(words[n] for n in numbers), tuple(probs.tolist()))


@lru_cache(maxsize=64)
def _passage_steepness(passage: str) -> float:
    return 0.5 + stream(0, "passage", passage).gamma(4.0, 0.2)


def sample(distribution: Categorical, n: int, rng: np.random.Generator) -> dict[str, int]:
    """Draw `n` outcomes and count them."""
    probs = np.array(distribution.probs)
    counts = rng.multinomial(n, probs / probs.sum())
    # In random order: in the order of the truth, ties for the majority would be won by the truth.
    order = rng.permutation(np.flatnonzero(counts))
    return {distribution.support[i]: int(counts[i]) for i in order}


def _items(contexts: int, people: int, passage: int, seed: int) -> Iterator[Item]:
    for number, start in enumerate(range(0, contexts, passage)):
        yield from _passage(number, min(passage, contexts - start), people, seed)


def _passage(number: int, contexts: int, people: int, seed: int) -> Iterator[Item]:
    """Each context is the previous one plus a word drawn from its true distribution."""
    rng = stream(seed, "simulated", number)
    # The passage's number keeps the first word, and with it the passage, unique.
    context = f"{vocabulary()[rng.integers(VOCABULARY)]}{number}"
    for position in range(2, contexts + 2):
        distribution = truth(context)
        counts = sample(distribution, people, rng)
        answers = tuple(w for w, count in counts.items() for _ in range(count))
        (original,) = sample(distribution, 1, rng)
        yield Item(f"{number + 1}:{position}", str(number + 1), context, answers, original)
        context = f"{context} {original}"


def load(contexts: int = 500, people: int = 40, passage: int = 50, seed: int = 0) -> Corpus:
    """Answers of `people` to each of `contexts`, in passages of `passage` contexts."""
    options = (contexts, people, passage, seed)
    items = LazyItems(lambda: _items(*options), contexts)
    sha256 = hashlib.sha256(repr(options).encode()).hexdigest()
    notes = ("these people are simulated",)
    return Corpus("simulated", f"seed {seed}", sha256, "CC0", items, notes)
