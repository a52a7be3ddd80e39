"""Where the noise of a mean comes from: which people answered, what was drawn, which contexts.

The squared standard error of a mean over items, resampled by group, holds all three. An item's own
two parts are the jackknife's variances of its statistic: one person left out at a time, one draw
left out at a time. People and draws of different items are independent, so their parts add up over
items and shrink with n²; what remains of the clustered variance is the contexts'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.clustered import clustered_error
from aleatoric.inference.noise import Side, Sides
from aleatoric.types import Floats, Ints


@dataclass(frozen=True)
class VarianceParts:
    """The squared standard error of a mean, split. The three parts add up to `total`.

    `contexts` is what the other two leave of the total; by chance it may be below 0.
    """

    total: float
    people: float
    model: float
    contexts: float

    @property
    def standard_error(self) -> float:
        """The root of the total."""
        return math.sqrt(self.total)


def split_variance(
    values: Floats, groups: NDArray[np.int64], people: Floats, model: Floats
) -> VarianceParts | None:
    """Split the variance of the mean of `values`; `None` with fewer than two groups.

    `people` and `model` are the variances of each item's value over other people and other draws
    (0 for an exact model).

    >>> parts = split_variance(
    ...     np.array([1.0, 3.0]), np.array([0, 1]), np.array([0.5, 0.5]), np.zeros(2))
    >>> parts.total, parts.people, parts.contexts
    (1.0, 0.25, 0.75)
    """
    n_groups = int(groups.max()) + 1 if len(groups) else 0
    totals, counts = np.zeros(n_groups), np.zeros(n_groups)
    np.add.at(totals, groups, values)
    np.add.at(counts, groups, 1.0)
    error = clustered_error(totals, counts)
    if error is None:
        return None
    own, drawn = (float(part.sum()) / len(values) ** 2 for part in (people, model))
    return VarianceParts(error**2, own, drawn, error**2 - own - drawn)


def tvd_variances(people: Ints, model: Ints) -> tuple[float, float] | None:
    """The jackknife's variances of one item's TVD, over people and over draws.

    `None` with fewer than two answers on a side.

    >>> tvd_variances(np.array([2, 2]), np.array([4, 0])) is None
    False
    """
    n, m = int(people.sum()), int(model.sum())
    if n < 2 or m < 2:
        return None
    return _over(people, model / m), _over(model, people / n)


def side_variances(seen: Sides) -> tuple[float, float]:
    """`tvd_variances` of people and one model on people's words; 0 for a side that cannot vary.

    >>> known = Sides(Side(np.array([3.0, 1.0]), 4), (Side(np.array([0.5, 0.25]), None),))
    >>> [round(part, 6) for part in side_variances(known)]
    [0.035156, 0.0]
    """
    people, (model, *_) = seen.people, seen.models
    return _of_side(people, model.shares), _of_side(model, people.shares)


def _of_side(side: Side, other: Floats) -> float:
    if side.n is None or side.n < 2:
        return 0.0
    # Words outside the list are one word more, which the other side does not have.
    counts = np.append(side.mass, side.n - side.mass.sum()).astype(np.int64)
    return _over(counts, np.append(other, 0.0))


def _over(counts: Ints, other: Floats) -> float:
    """Variance of half the L1 distance to `other`, each of the counted answers left out in turn."""
    n = int(counts.sum())
    gaps = counts / (n - 1) - other
    # Without one answer of a word its own gap shrinks by 1/(n-1); the others' stay as they are.
    changed = np.abs(gaps - 1 / (n - 1)) - np.abs(gaps)
    left_out = (np.abs(gaps).sum() + changed) / 2
    mean = float((counts * left_out).sum()) / n
    return (n - 1) / n * float((counts * (left_out - mean) ** 2).sum())
