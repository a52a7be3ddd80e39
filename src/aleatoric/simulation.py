"""A made-up language whose next-word distribution is known exactly.

The distribution of a context is a pure function of its text: Zipf-like over a random part of a
vocabulary, with a steepness that depends on the passage (its first word) and on the context. So
contexts of one passage are alike, as in real corpora, and every estimate has a truth.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import islice

import numpy as np

from aleatoric.streams import stream
from aleatoric.types import Categorical

VOCABULARY = 1000
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "sh", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")


@cache
def vocabulary() -> tuple[str, ...]:
    """The made-up words: two syllables each, all different.

    >>> vocabulary()[:2], len(set(vocabulary())) == VOCABULARY
    (('baba', 'bada'), True)
    """
    syllables = [onset + vowel for vowel in _VOWELS for onset in _ONSETS]
    words = (first + second for first in syllables for second in syllables)
    return tuple(islice(words, VOCABULARY))


def truth(context: str, temperature: float = 1.0) -> Categorical:
    """The exact next-word distribution of a context, at a temperature.

    >>> round(sum(truth("baba zouda").probs), 12)
    1.0
    """
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
    """`n` draws, counted.

    >>> sample(Categorical(("a",), (1.0,)), 3, np.random.default_rng(0))
    {'a': 3}
    """
    probs = np.array(distribution.probs)
    counts = rng.multinomial(n, probs / probs.sum())
    # In random order: in the order of the truth, ties for the majority would be won by the truth.
    seen = rng.permutation(np.flatnonzero(counts))
    return {distribution.support[i]: int(counts[i]) for i in seen}
