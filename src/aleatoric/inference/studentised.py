"""Studentised bootstrap: replicates measured in their own standard errors.

With few groups a percentile interval is too narrow, as a normal interval with an estimated
standard error is: Student's t was made for that, and this is its bootstrap form. The standard error
of a value, and of every replicate's value, is the jackknife's over groups, from the same sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from aleatoric.inference.clustered import jackknife_error, leave_one_out
from aleatoric.types import Floats

Value = Callable[[Floats], Floats]
MAX_BUNDLES = 64
"""More groups are bundled: the standard error has degrees of freedom enough, and costs less."""


def bundled(sums: Floats, at_most: int = MAX_BUNDLES) -> Floats:
    """Groups joined, in turn, to `at_most` bundles; independent groups make independent bundles.

    >>> bundled(np.array([[1.0], [2.0], [3.0]]), 2).tolist()
    [[4.0], [2.0]]
    """
    if len(sums) <= at_most:
        return sums
    joined = np.zeros((at_most, sums.shape[1]))
    np.add.at(joined, np.arange(len(sums)) % at_most, sums)
    return joined


def student_ends(
    sums: Floats, value: Value, weights: Iterable[Floats], level: float
) -> Floats | None:
    """The two ends of the interval; `None` where the value has no standard error.

    `weights` are (replicates, groups) parts: how often each group is drawn.
    """
    centre = float(value(sums.sum(axis=0)[None, :])[0])
    error = jackknife_error(leave_one_out(sums, value))
    if not error:
        return None
    ratios = np.concatenate([_ratios(sums, value, part, centre) for part in weights])
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios):
        return None
    ends: Floats = centre - error * np.quantile(ratios, [(1 + level) / 2, (1 - level) / 2])
    return ends


def _ratios(sums: Floats, value: Value, weights: Floats, centre: float) -> Floats:
    """(replicate's value - value) / replicate's standard error; infinite or NaN without one."""
    # Replicates lie side by side in memory: what is worked out for one is worked out for all.
    totals = np.asfortranarray(weights @ sums)
    distance = value(totals) - centre
    errors = _errors(sums, value, weights, totals)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = np.where(errors > 1e-12, distance / errors, np.nan)
    return ratios


def _errors(sums: Floats, value: Value, weights: Floats, totals: Floats) -> Floats:
    """The jackknife's standard error of every replicate: each drawn copy of a group left out."""
    n_groups = len(sums)
    drawn = weights.T
    without = np.stack([value(totals - row) for row in sums])
    without = np.where((drawn > 0) & np.isfinite(without), without, 0.0)
    means = (drawn * without).sum(axis=0) / n_groups
    squares = (drawn * (without - means) ** 2).sum(axis=0)
    errors: Floats = np.sqrt((n_groups - 1) / n_groups * squares)
    return errors
