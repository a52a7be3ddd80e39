"""The TVD of one context at other sample sizes, and the noise of people and of model draws in it.

A part of a sample is a sample of the smaller size. Larger ones are drawn from an estimate of the
truth: samples of people are crossed with samples of the model, and an analysis of variance
separates the two sources of noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.bootstrap import clustered_error
from aleatoric.types import Categorical, Floats, Ints

Size = int | None
"""The number of draws of a side; `None` means that its probabilities are exact."""
N_SAMPLES = 8
"""Few per side: they are crossed, and averaged over contexts."""
N_PARTS = 32
"""Parts of a sample; they are not crossed, and the variance between few groups needs many."""
_AT_ONCE = 2**24
"""Shares that are compared at once: 128 MiB of them."""


@dataclass(frozen=True, eq=False)
class Side:
    """People or a model on the listed words of a context; all other words are one outcome.

    With a sample size `n`, `mass` are counts; without one they are probabilities.
    """

    mass: Floats
    n: Size

    @classmethod
    def of(cls, distribution: Categorical, words: Sequence[str]) -> Side:
        """A distribution on the listed words."""
        shares = np.array([distribution.as_dict().get(word, 0.0) for word in words])
        n = distribution.n
        return cls(shares if n is None else np.rint(shares * n), n)

    def drawn(self, n: Size, rng: np.random.Generator, times: int) -> Floats:
        """Shares in new samples of size `n`, one per row."""
        if n is None:
            return np.tile(self.shares, (times, 1))
        whole = np.append(self.shares, max(0.0, 1.0 - float(self.shares.sum())))
        return rng.multinomial(n, whole / whole.sum(), size=times)[:, :-1] / n

    def part(self, n: Size, rng: np.random.Generator, times: int) -> Floats:
        """Shares in parts of the sample, each of `n` draws or all there are."""
        if self.n is None:
            return self.drawn(n, rng, times)
        if n is None or n >= self.n:
            return np.tile(self.shares, (times, 1))
        counts = np.append(self.mass, self.n - self.mass.sum()).astype(np.int64)
        return rng.multivariate_hypergeometric(counts, n, size=times)[:, :-1] / n

    @property
    def shares(self) -> Floats:
        """Relative frequencies, or the exact probabilities."""
        return self.mass if self.n is None else self.mass / self.n


@dataclass(frozen=True, eq=False)
class Sides:
    """People and one model on one context, or two models: then the value is their difference."""

    people: Side
    models: tuple[Side, ...]


class Noise(NamedTuple):
    """Expected distance per pair of sizes, and its variances by sampling people and the model."""

    mean: Floats
    people: Floats
    samples: Floats


def subsampled(
    sides: Sides,
    people: Sequence[int],
    samples: Sequence[Size],
    rng: np.random.Generator,
    times: int = N_PARTS,
) -> Floats:
    """Distances of parts of both samples: (people sizes, model sizes, times)."""
    human = np.stack([sides.people.part(n, rng, times) for n in people])
    distances = [
        _distances(human[:, None], np.stack([model.part(n, rng, times) for n in samples])[None])
        for model in sides.models
    ]
    return _difference(distances)


def distance(sides: Sides) -> float:
    """The distance of the observed samples; with two models, the difference."""
    return float(_difference([_distances(sides.people.shares, m.shares) for m in sides.models]))


def noise(
    truth: Sides,
    people: Sequence[int],
    samples: Sequence[Size],
    rng: np.random.Generator,
    limit: Sides | None = None,
    times: int = N_SAMPLES,
) -> Noise:
    """Mean and variance of TVD per pair of sizes; no side gets more draws than in `limit`."""
    limits = limit or truth
    human = _drawn(truth.people, limits.people.n, people, rng, times)[:, None, :, None]
    distances = [
        _distances(human, _drawn(model, bound.n, samples, rng, times)[None, :, None])
        for model, bound in zip(truth.models, limits.models, strict=True)
    ]
    return _split(_difference(distances))


METHOD = "binomial, plug-in to Good-Turing estimate of the truth"
ONE_ANSWER = "one answer says nothing about the truth: at least two people are needed"
_MOST_DRAWS = 10**6


Truth = Mapping[float, int]
"""An estimated distribution: how many words have each probability."""


def perfect_tvd(counts: Ints, n_human: int, n_model: int | None) -> tuple[float, float] | None:
    """The expected TVD of a perfect model under both estimates of the truth; `None` for n = 1."""
    if counts.sum() < 2:
        return None
    tvds = [expected_tvd(truth, n_human, n_model) for truth in _truths(tuple(counts.tolist()))]
    return min(tvds), max(tvds)


@lru_cache(maxsize=256)  # the systems of an item share its people
def _truths(counts: tuple[int, ...]) -> tuple[Truth, Truth]:
    """Both estimates of the truth."""
    return plug_in(counts), good_turing(counts)


def expected_tvd(truth: Truth, n_human: int, n_model: int | None) -> float:
    """Expected TVD between samples of `n_human` and `n_model` of one distribution.

    `n_model=None` means exact probabilities. More than a million draws count as exact: their noise
    adds less than `n_human / (2 * n_model)` of the expectation.
    """
    n_model = n_model if n_model is None or n_model <= _MOST_DRAWS else None
    gaps = (times * _mean_gap(share, n_human, n_model) for share, times in truth.items())
    return min(1.0, sum(gaps) / 2)


def plug_in(counts: Sequence[int]) -> Truth:
    """People's observed shares."""
    total = sum(counts)
    return {count / total: times for count, times in sorted(Counter(counts).items())}


def good_turing(counts: Sequence[int]) -> Truth:
    """Leave room for unseen words: the Good-Turing mass, spread evenly over Chao1 unseen words."""
    observed, n = Counter(counts), sum(counts)
    once, twice = observed[1], observed[2]
    if once == 0:
        return plug_in(counts)
    mass = min(once, n - 1) / n  # if all answers differ, one of them counts as known
    unseen = max(1, round(once * (once - 1) / (2 * (twice + 1))))
    shares = {(1 - mass) * share: times for share, times in plug_in(counts).items()}
    return shares | {mass / unseen: unseen + shares.get(mass / unseen, 0)}


@dataclass(frozen=True)
class VarianceParts:
    """The squared standard error of a mean by source; the remainder `contexts` may be negative."""

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

    `people` and `model` are the variances of each item's value over other people and other draws.
    """
    n_groups = int(groups.max()) + 1 if len(groups) else 0
    totals, counts = np.zeros(n_groups), np.zeros(n_groups)
    np.add.at(totals, groups, values)
    np.add.at(counts, groups, 1.0)
    error = clustered_error(totals, counts)
    if error is None:
        return None
    by_people, by_model = (float(part.sum()) / len(values) ** 2 for part in (people, model))
    return VarianceParts(error**2, by_people, by_model, error**2 - by_people - by_model)


def side_variances(sides: Sides) -> tuple[float, float]:
    """Jackknife variances of one item's TVD over people and draws; 0 if a side cannot vary."""
    people, (model, *_) = sides.people, sides.models
    return _left_out_variance(people, model.shares), _left_out_variance(model, people.shares)


def _drawn(
    side: Side, most: Size, sizes: Sequence[Size], rng: np.random.Generator, times: int
) -> Floats:
    limited = [min((s for s in (n, most) if s is not None), default=None) for n in sizes]
    return np.stack([side.drawn(n, rng, times) for n in limited])


def _difference(distances: Sequence[Floats]) -> Floats:
    return distances[0] if len(distances) == 1 else distances[0] - distances[1]


def _distances(people: Floats, model: Floats) -> Floats:
    """TVD over the last axis, where both hold shares of people's words."""
    joint = np.broadcast(people, model)
    if joint.ndim > 1 and joint.size > _AT_ONCE:
        return np.stack([*map(_distances, *np.broadcast_arrays(people, model))])
    distances: Floats = 1.0 - np.minimum(people, model).sum(axis=-1)
    return distances


def _split(crossed: Floats) -> Noise:
    """Two-way analysis of variance: rows are samples of people, columns those of the model."""
    n_rows, n_columns = crossed.shape[-2:]
    mean = crossed.mean(axis=(-2, -1), keepdims=True)
    rows, columns = crossed.mean(axis=-1, keepdims=True), crossed.mean(axis=-2, keepdims=True)
    residual = ((crossed - rows - columns + mean) ** 2).sum(axis=(-2, -1))
    both = residual / ((n_rows - 1) * (n_columns - 1))
    of_rows = rows.var(axis=(-2, -1), ddof=1) - both / n_columns
    of_columns = columns.var(axis=(-2, -1), ddof=1) - both / n_rows
    # The interaction would vanish with infinitely many model samples: it belongs to the model.
    return Noise(mean[..., 0, 0], of_rows, of_columns + both)


@lru_cache(maxsize=1 << 16)  # the items of a corpus have few different shares
def _mean_gap(share: float, n: int, m: int | None) -> float:
    """E|X/n - Y/m| for X ~ Bin(n, p) and Y ~ Bin(m, p); Y/m is p if m is None.

    Both means are p, so the expectation is twice that of the positive part of X/n - Y/m.
    """
    of_x, x = _binomial(share, n), np.arange(n + 1) / n
    if m is None:
        return float(2 * (of_x * np.maximum(x - share, 0.0)).sum())
    of_y, y = _binomial(share, m), np.arange(m + 1) / m
    below = (np.arange(n + 1) * m) // n  # the largest Y with Y/m <= X/n
    chance, mass = np.cumsum(of_y)[below], np.cumsum(of_y * y)[below]
    return float(2 * (of_x * np.maximum(x * chance - mass, 0.0)).sum())


def _binomial(share: float, n: int) -> Floats:
    """The n + 1 binomial probabilities."""
    with np.errstate(divide="ignore"):
        yes, no = np.log(share), np.log1p(-share)
    k = np.arange(n + 1)
    # 0 · log 0 is 0: a word that everybody or nobody gives.
    terms = np.where(k == 0, 0.0, k * np.where(k == 0, 0.0, yes))
    terms = terms + np.where(k == n, 0.0, (n - k) * np.where(k == n, 0.0, no))
    return np.exp(_log_choose(n) + terms)


@lru_cache(maxsize=64)
def _log_choose(n: int) -> Floats:
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    logs: Floats = factorials[-1] - factorials - factorials[::-1]
    logs.flags.writeable = False
    return logs


def _left_out_variance(side: Side, other: Floats) -> float:
    """Variance of half the L1 distance to `other`, each of a side's answers left out in turn."""
    if side.n is None or side.n < 2:
        return 0.0
    # Words outside the list count as one word, which the other side does not have.
    counts, n = np.append(side.mass, side.n - side.mass.sum()).astype(np.int64), side.n
    gaps = counts / (n - 1) - np.append(other, 0.0)
    # Without one answer of a word its gap shrinks by 1/(n-1); the other gaps stay.
    changed = np.abs(gaps - 1 / (n - 1)) - np.abs(gaps)
    left_out = (np.abs(gaps).sum() + changed) / 2
    mean = float((counts * left_out).sum()) / n
    return (n - 1) / n * float((counts * (left_out - mean) ** 2).sum())
