"""The energy distance between people's and a generator's texts, from three mean distances."""

from __future__ import annotations

from aleatoric.types import Floats


def energy_distance(mean_h: Floats, mean_m: Floats, mean_c: Floats) -> Floats:
    """Return 2 mean C - mean M - mean H, per input.

    The means are over pairs of different people, pairs of different generations, and all pairs of a
    generation and a person, so each is unbiased at any number of texts from two on. The expectation
    is 0 where both sides are samples of one population; a single value may lie below 0.

    >>> import numpy as np
    >>> energy_distance(np.array([0.5]), np.array([0.0]), np.array([0.25])).tolist()
    [0.0]
    """
    return 2 * mean_c - mean_m - mean_h
