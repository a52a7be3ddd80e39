"""Multiple tests: p-values adjusted over their family."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import false_discovery_control

from aleatoric.types import Floats

PValues = Sequence[float | None]


def holm(p_values: PValues) -> list[float | None]:
    """Holm's adjusted p-values: the chance of any false finding stays below the level.

    Tests that could not be made (`None`) stay `None` and do not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    return _adjusted(p_values, _holm)


def benjamini_hochberg(p_values: PValues) -> list[float | None]:
    """Benjamini and Hochberg's adjusted p-values: the share of false findings stays below it.

    >>> benjamini_hochberg([0.01, None, 0.04, 0.02])
    [0.03, None, 0.04, 0.03]
    """
    return _adjusted(p_values, false_discovery_control)


def _holm(p_values: Floats) -> Floats:
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    raised: Floats = np.maximum.accumulate(p_values[order] * factors).clip(max=1.0)
    adjusted = np.empty_like(raised)
    adjusted[order] = raised
    return adjusted


def _adjusted(p_values: PValues, method: Callable[[Floats], Floats]) -> list[float | None]:
    known = np.array([p for p in p_values if p is not None])
    if not len(known):
        return [None] * len(p_values)
    found = iter(method(known).tolist())
    return [None if p is None else next(found) for p in p_values]
