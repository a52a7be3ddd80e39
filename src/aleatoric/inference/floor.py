"""What a perfect model would score at the same sample sizes: between two estimates of the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
N_REPLICATES = 10


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
    truth = truth / truth.sum()
    people = rng.multinomial(n_human, truth, size=n_replicates) / n_human
    if n_model is None:
        model = truth[None, :]
    else:
        model = rng.multinomial(n_model, truth, size=n_replicates) / n_model
    return float(np.abs(people - model).sum(axis=1).mean() / 2)
