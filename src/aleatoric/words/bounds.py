"""What a search over continuations knows so far, as numbers with both bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aleatoric.types import Categorical


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


def _overlap(p: list[float], q: tuple[float, ...]) -> float:
    return sum(min(a, b) for a, b in zip(p, q, strict=True))
