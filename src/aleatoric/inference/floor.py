"""What a perfect model would score at the same sample sizes: between two estimates of the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
N_REPLICATES = 4
"""Few: the floor is a mean over contexts, and their number takes the noise away."""


def plug_in(counts: Counts) -> Floats:
    """People's own distribution as the truth: it has no unseen words, so the floor is too low.

    >>> plug_in(np.array([3, 1])).tolist()
    [0.75, 0.25]
    """
    shares: Floats = counts / counts.sum()
    return shares


def good_turing(counts: Counts) -> Floats:
    """People's distribution with room for unseen words: Good-Turing mass over Chao1 many of them.

    >>> good_turing(np.array([2, 1, 1])).round(3).tolist()
    [0.25, 0.125, 0.125, 0.5]
    """
    n, once, twice = int(counts.sum()), int((counts == 1).sum()), int((counts == 2).sum())
    if once == 0:
        return plug_in(counts)
    # All answers different would leave no mass to what was seen: one of them counts as known.
    unseen_mass = min(once, n - 1) / n
    unseen = max(1, round(once * (once - 1) / (2 * (twice + 1))))
    seen = (1 - unseen_mass) * plug_in(counts)
    return np.concatenate([seen, np.full(unseen, unseen_mass / unseen)])


def expected_tvd(
    truth: Floats,
    n_human: int,
    n_model: int | None,
    rng: np.random.Generator,
    n_replicates: int = N_REPLICATES,
) -> float:
    """Expected TVD between samples of `n_human` and `n_model` from one distribution.

    `n_model=None`: the model is exact.

    >>> expected_tvd(np.array([1.0]), 40, 40, np.random.default_rng(0))
    0.0
    """
    return float(_expected(truth[None, :], n_human, n_model, rng, n_replicates)[0])


def floors(
    counts: Counts, n_human: int, n_model: int | None, rng: np.random.Generator
) -> tuple[float, float]:
    """The expected TVD of a perfect model under both estimates of the truth, plug-in first.

    >>> floors(np.array([40]), 40, 40, np.random.default_rng(0))
    (0.0, 0.0)
    """
    high = good_turing(counts)
    truths = np.zeros((2, len(high)))
    truths[0, : len(counts)] = plug_in(counts)
    truths[1] = high
    low, high_value = _expected(truths, n_human, n_model, rng, N_REPLICATES).tolist()
    return low, high_value


def _expected(
    truths: Floats, n_human: int, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> Floats:
    """Both sides sampled from each of several truths at once: one call costs as much as two."""
    size = (n_replicates, len(truths))
    people = rng.multinomial(n_human, truths, size=size) / n_human
    model = truths if n_model is None else rng.multinomial(n_model, truths, size=size) / n_model
    distance: Floats = np.abs(people - model).sum(axis=-1).mean(axis=0) / 2
    return distance
