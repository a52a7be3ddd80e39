"""Kinds of truth that a context may have: Zipf-like ones of many lengths and falls, and noisy ones.

A law of ranks leaves a gap between the first word and the second that people's answers may lack:
noise on every word's share makes near ties, as "is" beside "was".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from aleatoric.streams import stream

Floats = NDArray[np.float64]
LENGTHS = (2, 4, 8, 16, 35, 80, 200, 1000)
FALLS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.05, 1.3, 1.6, 2.0, 2.5, 3.5)
NOISES = (0.0, 0.4, 0.8)
"""Standard deviations of the logarithm of a word's share."""
VARIANTS = 20
"""Truths that stand for a noisy shape."""


@dataclass(frozen=True, eq=False)
class Shape:
    """One kind of truth."""

    noise: float
    truths: Floats
    """(variants, words), equally likely."""

    def repeated(self, times: int) -> Floats:
        """So many truths, (times, words): every variant as often as the others.

        >>> Shape(0.0, np.array([[0.5, 0.5]])).repeated(2).tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        chosen: Floats = self.truths[np.arange(times) % len(self.truths)]
        return chosen


@cache
def shapes() -> tuple[Shape, ...]:
    """All kinds, the one of a single word first.

    >>> len(shapes()), shapes()[0].truths.tolist()
    (265, [[1.0]])
    """
    rng = stream(0, "shapes")
    found = [Shape(0.0, np.ones((1, 1)))]
    found += [_shape(rng, *own) for own in product(NOISES, LENGTHS, FALLS)]
    return tuple(found)


def _shape(rng: np.random.Generator, noise: float, n_words: int, fall: float) -> Shape:
    weights = np.arange(1.0, n_words + 1) ** -fall
    shaken = np.exp(noise * rng.standard_normal((VARIANTS if noise else 1, n_words)))
    weights = weights * shaken
    return Shape(noise, weights / weights.sum(axis=1, keepdims=True))
