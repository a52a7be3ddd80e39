"""A perfect model's first answers: how sure it is of them, and how often they are right.

It answers with the likeliest word of its draws, or of the truth itself where it is exact; right is
the passage's own word, the first choice of all people, or that of half of them.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.shapes import shapes
from aleatoric.inference.sizes import Sizes
from aleatoric.streams import stream

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
TARGETS = ("original", "human", "oracle")
N_MODELS = 300
"""Simulated of each kind of truth."""
N_CHANCES = 64
"""Corpora simulated, for the error that chance makes in bins of few items."""


class Bins(Protocol):
    """Of confidence."""

    @property
    def n_places(self) -> int:
        """Bins, and a last place for what is in none."""
        ...

    def places(self, confidences: Floats) -> NDArray[np.intp]:
        """The place of each confidence."""
        ...


def answers(kind: int, sizes: Sizes, bins: Bins) -> Floats:
    """(bins, ...): share of items, confidence, and right answers for each target.

    `sizes` has rows of people and draws, 0 draws for an exact model.

    >>> from aleatoric.metrics.calibration import Bins
    >>> answers(0, Sizes.of({(40, 0): 1}), Bins((0.5,)))[1].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    shape, rng = shapes()[kind], stream(0, "perfect", kind)
    people, draws = sizes.drawn(N_MODELS, rng).T
    truths = shape.repeated(N_MODELS)
    shares = _shares(truths, draws, rng)
    half = rng.multinomial(np.maximum(people // 2, 1), truths)
    everybody = half + rng.multinomial(people - np.maximum(people // 2, 1), truths)
    answer, confidence = _first(shares, rng), shares.max(axis=1)
    met = [_first(crowd, rng) == answer for crowd in (everybody, half)]
    own = truths[np.arange(N_MODELS), answer]
    told = np.stack([np.ones(N_MODELS), confidence, own, *met], axis=1)
    found = np.zeros((bins.n_places, told.shape[1]))
    np.add.at(found, bins.places(confidence), told)
    return found / N_MODELS


def _shares(truths: Floats, draws: Counts, rng: np.random.Generator) -> Floats:
    """A model's distributions: the truth's own where it is exact."""
    if not draws.any():
        return truths
    drawn = rng.multinomial(draws, truths) / np.maximum(draws, 1)[:, None]
    shares: Floats = np.where((draws > 0)[:, None], drawn, truths)
    return shares


def _first(shares: NDArray[np.float64] | Counts, rng: np.random.Generator) -> Counts:
    """The likeliest outcome of each row; of equals, any."""
    equal = shares == shares.max(axis=1, keepdims=True)
    chosen: Counts = np.where(equal, rng.random(shares.shape, dtype=np.float32), -1).argmax(axis=1)
    return chosen


def shifted(told: Floats, log_odds: float) -> Floats:
    """Mixed `answers` that meet majorities by so much more often, and the next word as before.

    >>> shifted(np.array([[1.0, 0.7, 0.7, 0.5, 0.5]]), math.log(3)).round(6).tolist()
    [[1.0, 0.7, 0.7, 0.75, 0.75]]
    """
    number, right = told[:, :1], told[:, 3:]
    more = right * math.exp(log_odds)
    rest = number - right
    return np.hstack([told[:, :3], number * more / np.maximum(more + rest, 1e-300)])


def expected_error(told: Floats, target: str, n_items: int, rng: np.random.Generator) -> float:
    """The calibration error of so many items, chance included, from mixed `answers`.

    >>> told = np.array([[1.0, 0.75, 0.75, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    >>> [round(expected_error(told, t, 10**6, np.random.default_rng(0)), 2) for t in TARGETS]
    [0.0, 0.25, 0.25]
    """
    each = told / np.maximum(told[:, :1], 1e-300)
    counts = rng.multinomial(n_items, told[:, 0] / told[:, 0].sum(), size=N_CHANCES)
    right = rng.binomial(counts, each[:, 2 + TARGETS.index(target)].clip(0, 1))
    gaps = np.abs(right - counts * each[:, 1])[:, :-1]  # the last place is no bin
    return float(gaps.sum(axis=1).mean() / n_items)
