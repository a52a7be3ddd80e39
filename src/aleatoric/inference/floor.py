"""What a perfect model would score at the same sample sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
N_REPLICATES = 10


def plug_in_tvd(
    probs: Floats,
    n_human: int,
    n_model: int | None,
    rng: np.random.Generator,
    n_replicates: int = N_REPLICATES,
) -> float:
    """Expected TVD between two samples of the people's own distribution.

    The plug-in distribution has no unseen words, so this is the lower end of what a perfect
    model would score. `n_model=None`: the model is exact.

    >>> rng = np.random.default_rng(0)
    >>> plug_in_tvd(np.array([1.0]), 40, 40, rng)
    0.0
    """
    probs = probs / probs.sum()
    people = rng.multinomial(n_human, probs, size=n_replicates) / n_human
    if n_model is None:
        model = probs[None, :]
    else:
        model = rng.multinomial(n_model, probs, size=n_replicates) / n_model
    return float(np.abs(people - model).sum(axis=1).mean() / 2)
