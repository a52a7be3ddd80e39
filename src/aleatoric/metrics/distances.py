"""Rows of samples: what divergences between two empirical distributions share.

A row is one input; a NaN is a value that is not there, so rows may hold unequal numbers. A row
with nothing on one side has no divergence: NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats, Ints, Pair

Divergence = Callable[[Floats, Floats], Floats]
"""Row by row of (n, k) and (n, m) samples, how far apart their distributions are: (n,)."""


@dataclass(frozen=True)
class Steps:
    """The difference of two empirical distribution functions, row by row.

    Between two neighbouring values of the merged rows, `widths` apart, it is `gaps`.
    """

    gaps: Floats
    widths: Floats


def steps(left: Floats, right: Floats) -> Steps:
    """Merge two rows of samples; what lies outside both has gap 0 and width 0.

    >>> found = steps(np.array([[1.0, 3.0]]), np.array([[2.0, np.nan]]))
    >>> found.gaps.tolist(), found.widths.tolist()
    ([[0.5, -0.5, 0.0]], [[1.0, 1.0, 0.0]])
    """
    merged = np.concatenate([left, right], axis=1)
    order = np.argsort(merged, axis=1)  # NaN goes last
    values = np.take_along_axis(merged, order, axis=1)
    there = ~np.isnan(values)
    from_left = order < left.shape[1]
    cdf_left, cdf_right = _cdf(from_left & there), _cdf(~from_left & there)
    widths = np.nan_to_num(np.diff(values, axis=1), nan=0.0)
    return Steps((cdf_left - cdf_right)[:, :-1], widths)


def mean(values: Floats) -> Floats:
    """Row by row the mean of what is there; NaN where nothing is.

    >>> mean(np.array([[1.0, np.nan], [np.nan, np.nan]])).tolist()
    [1.0, nan]
    """
    n = counts(values)
    total = np.nansum(values, axis=1)
    found: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return found


def counts(values: Floats) -> Ints:
    """How many values each row holds.

    >>> counts(np.array([[1.0, np.nan]])).tolist()
    [1]
    """
    found: Ints = (~np.isnan(values)).sum(axis=1)
    return found


def undefined_where_empty(found: Floats, left: Floats, right: Floats) -> Floats:
    """`found`, or NaN in rows where a side has no value.

    >>> undefined_where_empty(np.zeros(1), np.array([[np.nan]]), np.ones((1, 2))).tolist()
    [nan]
    """
    return np.where((counts(left) > 0) & (counts(right) > 0), found, np.nan)


def _cdf(mask: NDArray[np.bool_]) -> Floats:
    # Whole numbers are added up, so that equal numbers of steps give equal heights exactly.
    steps_up = np.cumsum(mask, axis=1)
    total = steps_up[:, -1:]
    height: Floats = steps_up / np.maximum(total, 1)
    return height


def tvd(pair: Pair) -> float:
    """Half the L1 distance between people and model; unassigned mass counts as disjoint.

    >>> from aleatoric.types import Categorical
    >>> human = Categorical(("a", "b"), (0.5, 0.5))
    >>> tvd(Pair("i", "g", human, Categorical(("a", "c"), (0.5, 0.25), rest=0.25)))
    0.5
    """
    model = pair.model.as_dict()
    shared = [(p, model.get(word, 0.0)) for word, p in pair.human.as_dict().items()]
    differing = sum(abs(p - q) for p, q in shared)
    model_only = sum(pair.model.probs) - sum(q for _, q in shared)
    return (differing + model_only + pair.human.rest + pair.model.rest) / 2


def js(pair: Pair) -> float:
    """Jensen-Shannon divergence in nats, between 0 and log 2; unassigned mass is disjoint.

    >>> from aleatoric.types import Categorical
    >>> js(Pair("i", "g", Categorical(("a",), (1.0,)), Categorical(("b",), (1.0,)))) == math.log(2)
    True
    """
    model = pair.model.as_dict()
    shared = [(p, model.get(word, 0.0)) for word, p in pair.human.as_dict().items()]
    model_only = sum(pair.model.probs) - sum(q for _, q in shared)
    apart = (model_only + pair.human.rest + pair.model.rest) * math.log(2) / 2
    return sum(_term(p, q) for p, q in shared) + apart


def _term(p: float, q: float) -> float:
    if p == 0 or q == 0:
        return (p + q) * math.log(2) / 2
    middle = (p + q) / 2
    return (p * math.log(p / middle) + q * math.log(q / middle)) / 2


def ks(left: Floats, right: Floats) -> Floats:
    """Row by row the greatest difference of distribution functions; NaN entries are left out.

    >>> ks(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).tolist()
    [0.5]
    """
    found = steps(left, right)
    # Inside a tie the merged order is arbitrary: only the end of a tie counts.
    gaps = np.where(found.widths > 0, np.abs(found.gaps), 0.0)
    return undefined_where_empty(gaps.max(axis=1, initial=0.0), left, right)


def w1(left: Floats, right: Floats) -> Floats:
    """Row by row the area between the two empirical distribution functions.

    Samples are (n, k) and (n, m); NaN entries are left out, and a row with nothing on one side
    is NaN.

    >>> w1(np.array([[0.0, 1.0]]), np.array([[0.0, 0.0, 3.0]])).tolist()
    [0.8333333333333333]
    """
    n_left, n_right = counts(left), counts(right)
    left, right = np.sort(left, axis=1), np.sort(right, axis=1)  # NaN goes last
    found = np.full(len(left), np.nan)
    # Rows of the same two numbers share their quantile steps; usually all rows do.
    shapes = n_left * (right.shape[1] + 1) + n_right
    for shape in np.unique(shapes).tolist():
        k, m = divmod(shape, right.shape[1] + 1)
        if k and m:
            rows = slice(None) if (shapes == shape).all() else np.flatnonzero(shapes == shape)
            found[rows] = _of_sorted(left[rows, :][:, :k], right[rows, :][:, :m])
    return found


def _of_sorted(left: Floats, right: Floats) -> Floats:
    """The integral over p of |left quantile - right quantile|, both of which are step functions."""
    k, m = left.shape[1], right.shape[1]
    if k == m:
        same: Floats = np.abs(left - right).mean(axis=1)
        return same
    # In units of 1 / (k * m) every step ends at a whole number.
    ends: Ints = np.union1d(np.arange(1, k + 1) * m, np.arange(1, m + 1) * k)
    lengths = np.diff(ends, prepend=0)
    distances = left.take((ends - 1) // m, axis=1)
    distances -= right.take((ends - 1) // k, axis=1)
    # A matrix product would be faster, but its last bit depends on how many rows there are.
    area: Floats = (np.abs(distances) * (lengths / (k * m))).sum(axis=1)
    return area


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
