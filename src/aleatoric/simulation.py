"""A made-up language whose next-word distribution is known exactly.

The distribution of a context is a pure function of its text: Zipf-like over a random part of a
vocabulary, with a steepness that depends on the passage (its first word) and on the context. So
contexts of one passage are alike, as in real corpora, and every estimate has a truth.
"""

from __future__ import annotations

import numpy as np

from aleatoric.streams import stream
from aleatoric.types import Categorical

VOCABULARY = 1000
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "sh", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")


def word(number: int) -> str:
    """The made-up word of a number: two syllables, different for different numbers.

    >>> word(0), word(1), len({word(i) for i in range(VOCABULARY)}) == VOCABULARY
    ('baba', 'bada', True)
    """
    syllables = [onset + vowel for vowel in _VOWELS for onset in _ONSETS]
    return syllables[number // len(syllables)] + syllables[number % len(syllables)]


def truth(context: str, temperature: float = 1.0) -> Categorical:
    """The exact next-word distribution of a context, at a temperature.

    >>> round(sum(truth("baba zouda").probs), 12)
    1.0
    """
    passage = context.partition(" ")[0]
    rng = stream(0, "truth", context)
    steepness = 0.5 + stream(0, "passage", passage).gamma(4.0, 0.2) + rng.gamma(2.0, 0.15)
    size = int(rng.integers(3, 60))
    numbers = rng.choice(VOCABULARY, size=size, replace=False)
    weights = np.arange(1, size + 1, dtype=np.float64) ** (-steepness / temperature)
    probs = weights / weights.sum()
    return Categorical(tuple(word(int(n)) for n in numbers), tuple(probs.tolist()))


def sample(distribution: Categorical, n: int, rng: np.random.Generator) -> dict[str, int]:
    """`n` draws, counted.

    >>> sample(Categorical(("a",), (1.0,)), 3, np.random.default_rng(0))
    {'a': 3}
    """
    probs = np.array(distribution.probs)
    counts = rng.multinomial(n, probs / probs.sum())
    return {w: int(c) for w, c in zip(distribution.support, counts, strict=True) if c}
