"""Distances between people and a model: TVD and Jensen-Shannon over words, W1 and KS over samples.

Functions of rows of samples (`w1`, `ks`, `mean`) take one row per input. NaN entries are missing
values, so rows may hold different numbers of values; a row with no values on one side gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Categorical, Floats, Ints, Pair

Divergence = Callable[[Floats, Floats], Floats]
"""Maps (n, k) and (n, m) samples to (n,) distances between their distributions, row by row."""


def tvd(pair: Pair) -> float:
    """Half the L1 distance between people and model; unassigned mass counts as disjoint."""
    shared, model_only = _on_human_words(pair)
    differing = sum(abs(p - q) for p, q in shared)
    return (differing + model_only + pair.human.rest + pair.model.rest) / 2


def js(pair: Pair) -> float:
    """Jensen-Shannon divergence in nats, between 0 and log 2; unassigned mass is disjoint."""
    shared, model_only = _on_human_words(pair)
    disjoint = (model_only + pair.human.rest + pair.model.rest) * math.log(2) / 2
    return sum(_differing_term(p, q) for p, q in shared) + disjoint


def tvd_debiased(pair: Pair) -> float | None:
    """TVD with every pair of a person and a draw left out in turn; `None` for samples of one.

    Half the L1 distance is the difference in mass on the best separating set of words. That set is
    learned from all answers except one person's and one draw, and tested on these two. A perfect
    model scores 0 on average at any sample size, and no model more than its true TVD; the plug-in
    value of two samples errs in the other direction. For an exact model, only people are left out.
    """
    human, model = pair.human, pair.model
    if human.n is None or human.n < 2 or (model.n is not None and model.n < 2):
        return None
    if model.n is None:
        return _against_exact(human, human.n, model)
    return _against_sample(human, human.n, model, model.n)


def tvd_of_counts(left: Ints, right: Ints) -> Floats:
    """Total variation distance of (splits, outcomes) counts, per split."""
    n, m = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    # In integers: bit-identical whatever the order of the outcomes and the width of the table.
    distances: Floats = np.abs(left * m - right * n).sum(axis=1) / (2 * n * m)[:, 0]
    return distances


def js_of_counts(left: Ints, right: Ints) -> Floats:
    """Jensen-Shannon divergence of (splits, outcomes) counts in nats, per split."""
    p, q = (counts / counts.sum(axis=1, keepdims=True) for counts in (left, right))
    middle = (p + q) / 2
    return (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2


def leave_pair_out(left: Ints, right: Ints) -> Floats:
    """`tvd_debiased` of (splits, outcomes) counts per split; NaN with fewer than two on a side.

    Half the mean over pairs of sign(person's word) - sign(draw's word). A pair of the same word
    cancels, so a person's word is counted against the draws of other words.
    """
    n, m = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    # In integers, so that ties are exact.
    lead = left * (m - 1) - right * (n - 1)
    by_person, by_draw = np.sign(lead - (m - 1)), np.sign(lead + (n - 1))
    gains = (left * (m - right) * by_person - right * (n - left) * by_draw).sum(axis=1)
    # A word given once in total is no evidence: it goes to the side with more such words.
    lone_left = ((left == 1) & (right == 0)).sum(axis=1)
    lone_right = ((left == 0) & (right == 1)).sum(axis=1)
    n, m = n[:, 0], m[:, 0]
    rare_left, rare_right = Rare.of(left, n), Rare.of(right, m)
    unseen = lone_left * m * _unseen_sign(rare_left, rare_right)
    unseen = unseen + lone_right * n * _unseen_sign(rare_right, rare_left)
    halved = (gains + unseen) / (2 * n * m)
    return np.where((n < 2) | (m < 2), np.nan, halved)


def w1(left: Floats, right: Floats) -> Floats:
    """Per row, the area between the two empirical distribution functions (Wasserstein-1)."""
    n_left, n_right = counts(left), counts(right)
    left, right = np.sort(left, axis=1), np.sort(right, axis=1)  # NaN goes last
    distances = np.full(len(left), np.nan)
    # Rows of the same two numbers share their quantile steps; usually all rows do.
    shapes = n_left * (right.shape[1] + 1) + n_right
    for shape in np.unique(shapes).tolist():
        k, m = divmod(shape, right.shape[1] + 1)
        if k and m:
            rows = slice(None) if (shapes == shape).all() else np.flatnonzero(shapes == shape)
            distances[rows] = _of_sorted(left[rows, :][:, :k], right[rows, :][:, :m])
    return distances


def ks(left: Floats, right: Floats) -> Floats:
    """Per row, the largest difference between the two empirical distribution functions."""
    merged = np.concatenate([left, right], axis=1)
    order = np.argsort(merged, axis=1)  # NaN goes last
    values = np.take_along_axis(merged, order, axis=1)
    present = ~np.isnan(values)
    from_left = order < left.shape[1]
    differences = (_cdf(from_left & present) - _cdf(~from_left & present))[:, :-1]
    widths = np.nan_to_num(np.diff(values, axis=1), nan=0.0)
    # Inside a tie the merged order is arbitrary: only the end of a tie counts.
    gaps = np.where(widths > 0, np.abs(differences), 0.0)
    is_defined = (counts(left) > 0) & (counts(right) > 0)
    return np.where(is_defined, gaps.max(axis=1, initial=0.0), np.nan)


def energy_distance(mean_h: Floats, mean_m: Floats, mean_c: Floats) -> Floats:
    """Return 2 mean C - mean M - mean H per input, from means over pairs of different texts.

    The expectation is 0 if both sides are samples of one population; a value may be below 0.
    """
    return 2 * mean_c - mean_m - mean_h


def mean(values: Floats) -> Floats:
    """Per row, the mean of the values that are present; NaN if there are none."""
    n = counts(values)
    total = np.nansum(values, axis=1)
    means: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return means


def counts(values: Floats) -> Ints:
    """Per row, the number of values that are present."""
    n_present: Ints = (~np.isnan(values)).sum(axis=1)
    return n_present


def _on_human_words(pair: Pair) -> tuple[list[tuple[float, float]], float]:
    """People's and the model's probability of each of people's words; the model's other mass."""
    model = pair.model.as_dict()
    shared = [(p, model.get(word, 0.0)) for word, p in pair.human.as_dict().items()]
    return shared, pair.model.assigned - sum([q for _, q in shared])


def _differing_term(p: float, q: float) -> float:
    if p == 0 or q == 0:
        return (p + q) * math.log(2) / 2
    middle = (p + q) / 2
    return (p * math.log(p / middle) + q * math.log(q / middle)) / 2


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    # Importing scipy.special would take longer than scoring a hundred contexts.
    with np.errstate(invalid="ignore"):
        terms = p * np.log(np.where(p > 0, p / q, 1.0))
    # Sequentially: unlike a sum, independent of the number of empty outcomes in the table.
    return np.add.accumulate(terms, axis=1)[:, -1]


class Rare(NamedTuple):
    """The number of answers, and of words given once and twice, per split."""

    n: Ints | int
    once: Ints | int
    twice: Ints | int

    @classmethod
    def of(cls, counts: Ints, n: Ints) -> Rare:
        """Count the rare words of (splits, outcomes) counts."""
        return cls(n, (counts == 1).sum(axis=1), (counts == 2).sum(axis=1))

    @classmethod
    def of_side(cls, side: Categorical, n: int) -> Rare:
        """Count the rare words of one sample of size n."""
        times = [(round(share * n), k) for share, k in side.outcomes_by_share.items()]
        once, twice = (sum(k for count, k in times if count == rare) for rare in (1, 2))
        return cls(n, once, twice)


def _against_sample(human: Categorical, n: int, model: Categorical, m: int) -> float:
    """`leave_pair_out` of one item in Python integers: faster, as most words have only draws."""
    shares = model.as_dict()
    both = [(round(p * n), round(shares.get(w, 0.0) * m)) for w, p in human.as_dict().items()]
    rare_human, rare_model = Rare.of_side(human, n), Rare.of_side(model, m)
    # A word that no person gave counts for the model if drawn at least twice, else not.
    lone_left, lone_right = both.count((1, 0)), rare_model.once - sum(y == 1 for _, y in both)
    n_redrawn = m - rare_model.once - sum(y for _, y in both if y > 1)
    gains = sum(_gain(x, y, n, m) for x, y in both) + n * n_redrawn
    unseen = lone_left * m * _unseen_sign(rare_human, rare_model)
    unseen += lone_right * n * _unseen_sign(rare_model, rare_human)
    return float((gains + unseen) / (2 * n * m))


def _gain(x: int, y: int, n: int, m: int) -> int:
    """The contribution of one word, with the signs of `leave_pair_out`."""
    lead = x * (m - 1) - y * (n - 1)
    return x * (m - y) * _sign(lead - (m - 1)) - y * (n - x) * _sign(lead + (n - 1))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _unseen_sign(ours: Rare, theirs: Rare) -> Floats:
    """Mean sign of the lead in words given once, after leaving one such word of `ours` out.

    The mean is over the left-out answer of `theirs`: a word given once, given twice, or another.
    """
    lead = (ours.once - 1) * (theirs.n - 1) - theirs.once * (ours.n - 1)
    fewer, extra = theirs.once / theirs.n, 2 * theirs.twice / theirs.n
    step = ours.n - 1
    # Numpy would take most of the time of one item, whose numbers are Python's.
    sign: Any = _sign if isinstance(lead, int) else np.sign
    mean_sign: Floats = (
        fewer * sign(lead + step) + extra * sign(lead - step) + (1 - fewer - extra) * sign(lead)
    )
    return mean_sign


def _against_exact(people: Categorical, n: int, model: Categorical) -> float:
    """`tvd_debiased` against exact probabilities: each person is left out in turn."""
    probs = model.as_dict()
    words = dict.fromkeys((*people.support, *probs))
    x = np.zeros(len(words), dtype=np.int64)
    x[: len(people.support)] = np.rint(np.array(people.probs) * n)
    q = np.array([probs.get(word, 0.0) for word in words])
    # A word that nobody else gave and that has no probability can only be people's.
    sign_left_out = np.where((x == 1) & (q == 0), 1.0, np.sign((x - 1) / (n - 1) - q))
    sign_kept = np.sign(x / (n - 1) - q)
    model_mean = q * (x / n * sign_left_out + (n - x) / n * sign_kept)
    return float((x / n * sign_left_out).sum() - model_mean.sum() + model.rest) / 2


def _of_sorted(left: Floats, right: Floats) -> Floats:
    """Integrate |left quantile - right quantile| over p; both are step functions."""
    k, m = left.shape[1], right.shape[1]
    if k == m:
        area_equal_sizes: Floats = np.abs(left - right).mean(axis=1)
        return area_equal_sizes
    # In units of 1 / (k * m) every step ends at a whole number.
    ends: Ints = np.union1d(np.arange(1, k + 1) * m, np.arange(1, m + 1) * k)
    lengths = np.diff(ends, prepend=0)
    distances = left.take((ends - 1) // m, axis=1)
    distances -= right.take((ends - 1) // k, axis=1)
    # A matrix product would be faster, but its last bit depends on how many rows there are.
    area: Floats = (np.abs(distances) * (lengths / (k * m))).sum(axis=1)
    return area


def _cdf(mask: NDArray[np.bool_]) -> Floats:
    # Integers are summed, so that equal numbers of steps give exactly equal heights.
    steps_up = np.cumsum(mask, axis=1)
    total = steps_up[:, -1:]
    return steps_up / np.maximum(total, 1)
