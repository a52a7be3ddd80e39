"""What a search over continuations knows so far, as numbers with both bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aleatoric.types import Categorical, Floats


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number known to lie in [low, high]; `value` is the best single guess.

    >>> round(Bounds(0.2, 0.25, 0.3).gap, 6)
    0.1
    """

    low: float
    value: float
    high: float

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class WordProbabilities:
    """Probabilities of asked words as the first word of a model's continuation.

    `low[i]` ≤ probability of `words[i]` ≤ `high[i]`. `open` is the mass that the search left
    undecided, `failed` the probability that the text holds no word (already divided out of the
    words' probabilities where failed draws are rejected), `nodes` the tokens run for it.
    """

    words: tuple[str, ...]
    low: tuple[float, ...]
    value: tuple[float, ...]
    high: tuple[float, ...]
    open: float
    failed: float
    nodes: int

    def categorical(self) -> Categorical:
        """The best guess as a distribution; `rest` is the mass of all other words."""
        return Categorical(self.words, self.value, max(0.0, 1.0 - sum(self.value)), None)

    def tvd(self, human: Mapping[str, float]) -> Bounds:
        """Total variation distance to `human`, whose support must be among `words`.

        TVD = 1 - Σ min(p, q), so it falls as the words' probabilities grow.
        """
        p = [human.get(word, 0.0) for word in self.words]
        least = _overlap(p, self.low)
        most = min(_overlap(p, self.high), least + self.open)
        total = sum(p)
        return Bounds(total - most, total - _overlap(p, self.value), total - least)

    def log_loss(self, human: Mapping[str, float]) -> tuple[float, float | None]:
        """Bounds of people's log loss; the upper one is `None` where it is infinite."""
        p = np.array([human.get(word, 0.0) for word in self.words])
        given = p > 0
        low, high = (np.array(q)[given] for q in (self.low, self.high))
        if not (high > 0).all():
            return math.inf, None
        least = -float((p[given] * np.log(np.minimum(high, 1.0))).sum())
        if not (low > 0).all():
            return least, None
        return least, -float((p[given] * np.log(low)).sum())


@dataclass(frozen=True, eq=False)
class Masses:
    """Known lower and upper bounds of word probabilities that sum to 1 with those of all others.

    `human` are people's probabilities of the same words; `unseen` bounds the probability of any
    word that is not among these.
    """

    human: Floats
    low: Floats
    high: Floats
    unseen: float

    def agreements(self) -> dict[str, tuple[float, float]]:
        """Bounds of M = Σq², of C = Σpq, and of M - 2C.

        Let q = low + x. The mass x that is still open falls on words with room for it, so that
        Σq² = Σlow² + Σx(low + q) is at most Σlow² + Σx(low + high), with x where that is largest.

        >>> known = Masses(np.array([1.0]), np.array([0.5]), np.array([0.5]), 0.1)
        >>> {name: (low, round(high, 6)) for name, (low, high) in known.agreements().items()}
        {'M': (0.25, 0.3), 'C': (0.5, 0.5), 'M-2C': (-0.75, -0.7)}
        """
        p, low, high = self.human, self.low, self.high
        own, cross = float((low * low).sum()), float((p * low).sum())
        apart = own - 2 * cross
        return {
            "M": (own, own + self._most(low + high, self.unseen)),
            "C": (cross, cross + self._most(p, 0.0)),
            "M-2C": (
                apart - self._most(2 * (p - low), 0.0),
                apart + self._most(low + high - 2 * p, self.unseen),
            ),
        }

    def _most(self, worth: Floats, unseen: float) -> float:
        """The largest Σ x·worth, with the open mass on these words or on unseen ones."""
        better = np.flatnonzero(worth > unseen)
        order = better[np.argsort(-worth[better], kind="stable")]
        left = max(0.0, 1.0 - float(self.low.sum()))
        room = np.maximum(self.high[order] - self.low[order], 0.0)
        taken = np.minimum(room, np.maximum(left - (np.cumsum(room) - room), 0.0))
        return float((taken * worth[order]).sum() + (left - taken.sum()) * unseen)


def _overlap(p: list[float], q: tuple[float, ...]) -> float:
    return sum(min(a, b) for a, b in zip(p, q, strict=True))
