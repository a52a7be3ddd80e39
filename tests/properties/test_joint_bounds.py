"""Probabilities that combine two searches, compared with the bounds of the metrics."""

from __future__ import annotations

import numpy as np
import pytest

from aleatoric.nextword.bounds import (
    TopWords,
    WordProbabilities,
    agreement_bounds,
    joint_probabilities,
)


def search(truth: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of some probabilities around the truth, of random width."""
    low = truth * rng.uniform(0.6, 1.0, len(truth))
    return low, truth + rng.uniform(0.0, 1.0, len(truth)) * (1.0 - low.sum())


@pytest.mark.parametrize("seed", range(200))
def test_values_of_two_searches_lie_within_the_bounds_of_both(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(8, 0.4))
    people = rng.dirichlet(np.full(4, 0.5))
    words = tuple("abcdefgh")
    low, high = search(truth, rng)
    low_, high_ = search(truth[:4], rng)
    # A best estimate is anywhere within the bounds of its own search.
    value = rng.uniform(low_, high_)
    tops = TopWords(words[:6], tuple(low[:6]), tuple(high[:6]), float(truth[6:].max()))
    found = WordProbabilities(
        words[:4], tuple(low_), tuple(value), tuple(high_), 1.0 - float(low_.sum()), 0.0, 1
    )
    human = dict(zip(words, people, strict=False))
    joint = joint_probabilities(tops, found)
    assert list(joint) == list(words[:6])
    assert sum(joint.values()) <= 1 + 1e-12
    squares = sum(q * q for q in joint.values())
    cross = sum(p * joint[word] for word, p in human.items())
    values = {"M": squares, "C": cross, "M-2C": squares - 2 * cross}
    for name, (least, most) in agreement_bounds(tops, found, human).items():
        assert least - 1e-12 <= values[name] <= most + 1e-12
