"""Results of the exact searches: word probabilities with bounds, and bounds of metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aleatoric.types import Floats


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number known to lie in [low, high]; `value` is the best estimate."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class WordProbabilities:
    """Probabilities of given words as the first word of a model's continuation.

    `low[i]` ≤ probability of `words[i]` ≤ `high[i]`. `open` is the mass that the search left
    undecided, `failed` the probability that the text contains no word (already divided out of the
    words' probabilities if failed draws are rejected), `nodes` the number of tokens run.
    """

    words: tuple[str, ...]
    low: tuple[float, ...]
    value: tuple[float, ...]
    high: tuple[float, ...]
    open: float
    failed: float
    nodes: int

    def given_word(self, failed: float) -> WordProbabilities:
        """Return the same bounds, with values for a better estimate of the mass without a word."""
        scale = (1.0 - self.failed) / max(1.0 - failed, 1e-12)
        pairs = zip(self.value, self.high, strict=True)
        return replace(self, value=tuple(min(value * scale, high) for value, high in pairs))

    def tvd(self, human: Mapping[str, float]) -> Bounds:
        """Total variation distance to `human`, whose support must be among `words`.

        TVD = 1 - Σ min(p, q), so it decreases as the words' probabilities increase.
        """
        p = [human.get(word, 0.0) for word in self.words]
        columns = (self.low, self.value, self.high)
        least, middle, most = (sum(map(min, p, q)) for q in columns)
        total = sum(p)
        return Bounds(total - min(most, least + self.open), total - middle, total - least)

    def log_loss(self, human: Mapping[str, float]) -> tuple[float, float | None]:
        """Bounds of the human log loss; the upper one is `None` if it is infinite."""
        p = np.array([human.get(word, 0.0) for word in self.words])
        p, low, high = (np.array(q)[p > 0] for q in (p, self.low, self.high))
        if not (high > 0).all():
            return math.inf, None
        most = _best_shares(p, low, np.minimum(high, 1.0), float(low.sum()) + self.open)
        least = -float((p * np.log(most)).sum())
        return least, -float((p * np.log(low)).sum()) if (low > 0).all() else None


def _best_shares(p: Floats, low: Floats, high: Floats, total: float) -> Floats:
    """The probabilities q with the largest Σ p log q, where low ≤ q ≤ high and Σq ≤ total.

    The best are q = p·scale within their bounds; the scale is found by bisection, rounded up.
    """
    if high.sum() <= total:
        return high
    least, most = 0.0, float((high / p).max())
    for _ in range(100):
        scale = (least + most) / 2
        fits = np.clip(p * scale, low, high).sum() <= total
        least, most = (scale, most) if fits else (least, scale)
    return np.clip(p * most, low, high)


@dataclass(frozen=True, slots=True)
class TopWords:
    """The likeliest words, most likely first, with bounds of their probabilities."""

    words: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    unseen: float
    """Upper bound of the probability of any other word."""


def joint_bounds(
    tops: TopWords, found: WordProbabilities
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the lower and the upper bound of each word that follow from both searches."""
    lows = dict(zip(tops.words, tops.low, strict=True))
    highs = dict(zip(tops.words, tops.high, strict=True))
    for word, at_least, at_most in zip(found.words, found.low, found.high, strict=True):
        lows[word] = max(lows.get(word, 0.0), at_least)
        highs[word] = max(min(highs.get(word, 1.0), at_most), lows[word])
    return lows, highs


def joint_probabilities(tops: TopWords, found: WordProbabilities) -> dict[str, float]:
    """Return probabilities within the bounds of both searches, and of sum 1 at most.

    Words of `found` have its best estimates as far as the bounds allow; others their lower bounds.
    """
    lows, highs = joint_bounds(tops, found)
    above = {
        word: min(max(value, lows[word]), highs[word]) - lows[word]
        for word, value in zip(found.words, found.value, strict=True)
    }
    open_mass, total = max(0.0, 1.0 - sum(lows.values())), sum(above.values())
    scale = min(1.0, open_mass / total) if total else 0.0
    words = dict.fromkeys((*found.words, *tops.words))
    return {word: lows[word] + scale * above.get(word, 0.0) for word in words}


def agreement_bounds(
    tops: TopWords, found: WordProbabilities, human: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Bounds of M = Σq², of C = Σpq, and of M - 2C, from two searches of the same context.

    Let q = low + x. The open mass x falls on words with room for it, so Σq² = Σlow² + Σx(low + q)
    is at most Σlow² + Σx(low + high), with x where that is largest.
    """
    lows, highs = joint_bounds(tops, found)
    p, low, high = (np.array([x.get(word, 0.0) for word in lows]) for x in (human, lows, highs))
    squares, cross = float((low * low).sum()), float((p * low).sum())
    difference = squares - 2 * cross

    def most(worth: Floats, unseen: float) -> float:
        return _largest_gain(low, high, worth, unseen)

    return {
        "M": (squares, squares + most(low + high, tops.unseen)),
        "C": (cross, cross + most(p, 0.0)),
        "M-2C": (
            difference - most(2 * (p - low), 0.0),
            difference + most(low + high - 2 * p, tops.unseen),
        ),
    }


def expected_agreement(
    tops: TopWords,
    found: WordProbabilities,
    human: Mapping[str, float],
    open_words: Sequence[Mapping[str | None, float]],
) -> float:
    """Estimate M = Σq² without the bias that counting open mass as 0 would have.

    People's words have their best estimates. For other words, q = low + x and Σq² = Σlow² +
    2Σ low·x + Σx². The halves of `open_words` are independent estimates of x: their mean serves
    the second sum, their product the third. Without them, only what is assigned to a word counts.
    """
    others, people = joint_probabilities(tops, found), frozenset(found.words)
    cross = sum(p * others.get(word, 0.0) for word, p in human.items())
    squares = sum(others.pop(word) ** 2 for word in people)
    halves = [{w: x for w, x in half.items() if w not in people} for half in open_words]
    failed = sum(half.pop(None, 0.0) for half in halves) / max(len(halves), 1)
    rest = sum(q * q for q in others.values())
    for half in halves:
        rest += 2 / len(halves) * sum(x * others.get(word or "", 0.0) for word, x in half.items())
    if len(halves) == 2:
        rest += sum(x * halves[1].get(word, 0.0) for word, x in halves[0].items())
    # Open mass that turns out to hold no word makes all other words likelier.
    value = squares + rest / max(1.0 - failed, 1e-12) ** 2
    bounds = agreement_bounds(tops, found, human)
    value = min(max(value, bounds["M"][0]), bounds["M"][1])
    least, most = (end + 2 * cross for end in bounds["M-2C"])
    return min(max(value, least), most)


def _largest_gain(low: Floats, high: Floats, worth: Floats, unseen: float) -> float:
    """The largest Σ x·worth, with the open mass on these words or on unseen ones."""
    better = np.flatnonzero(worth > unseen)
    order = better[np.argsort(-worth[better], kind="stable")]
    open_mass = max(0.0, 1.0 - float(low.sum()))
    room = np.maximum(high[order] - low[order], 0.0)
    shares = np.minimum(room, np.maximum(open_mass - (np.cumsum(room) - room), 0.0))
    return float((shares * worth[order]).sum() + (open_mass - shares.sum()) * unseen)
