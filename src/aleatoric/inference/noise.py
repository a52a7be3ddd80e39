"""One context's TVD at other sample sizes: smaller ones from its own draws, larger ones simulated.

A part of a sample, drawn without replacement, is a sample of the smaller size: nothing is assumed.
Larger samples are drawn from an estimate of the truth. There, samples of people are crossed with
samples of the model, so that an analysis of variance can tell the two sources of noise apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.types import Floats

Size = int | None
"""How many draws a side has; `None` says that its probabilities are known exactly."""
N_SAMPLES = 8
"""Few of each side: they are crossed, and then averaged over contexts."""
N_PARTS = 32
"""Parts of a sample; they are not crossed, and the variance between few groups needs many."""
_AT_ONCE = 2**24
"""Shares that are compared at once: 128 MiB of them."""


@dataclass(frozen=True, eq=False)
class Side:
    """People or a model on the listed words of a context; what lies outside them is one outcome.

    With a sample size `n`, `mass` are counts; without one they are probabilities.
    """

    mass: Floats
    n: Size

    def drawn(self, n: Size, rng: np.random.Generator, times: int) -> Floats:
        """Shares in samples of `n`, drawn anew, a row each."""
        probs = self.shares
        if n is None:
            return np.tile(probs, (times, 1))
        whole = np.append(probs, max(0.0, 1.0 - float(probs.sum())))
        shares: Floats = rng.multinomial(n, whole / whole.sum(), size=times)[:, :-1] / n
        return shares

    def part(self, n: Size, rng: np.random.Generator, times: int) -> Floats:
        """Shares in parts of the sample, each of `n` draws or all there are."""
        if self.n is None:
            return self.drawn(n, rng, times)
        if n is None or n >= self.n:
            return np.tile(self.shares, (times, 1))
        counts = np.append(self.mass, self.n - self.mass.sum()).astype(np.int64)
        shares: Floats = rng.multivariate_hypergeometric(counts, n, size=times)[:, :-1] / n
        return shares

    @property
    def shares(self) -> Floats:
        """Relative frequencies, or the probabilities themselves."""
        return self.mass if self.n is None else self.mass / self.n


@dataclass(frozen=True, eq=False)
class Sides:
    """People and one model on one context, or two models: then the value is their difference."""

    people: Side
    models: tuple[Side, ...]


@dataclass(frozen=True, eq=False)
class Noise:
    """Expected distance, and its variance by sampling people and by sampling the model.

    All three have the same shape: a value for each pair of sizes.
    """

    mean: Floats
    people: Floats
    samples: Floats

    @property
    def total(self) -> Floats:
        """The variance of one distance."""
        return self.people + self.samples


def subsampled(
    sides: Sides,
    people: Sequence[int],
    samples: Sequence[Size],
    rng: np.random.Generator,
    times: int = N_PARTS,
) -> Floats:
    """Distances of parts of both samples, (people sizes, model sizes, times).

    >>> one = Side(np.array([3.0, 1.0]), 4)
    >>> subsampled(Sides(one, (one,)), [4], [4], np.random.default_rng(0), times=2).tolist()
    [[[0.0, 0.0]]]
    """
    own = np.stack([sides.people.part(n, rng, times) for n in people])
    found = [
        _distances(own[:, None], np.stack([model.part(n, rng, times) for n in samples])[None])
        for model in sides.models
    ]
    return _difference(found)


def distance(seen: Sides) -> float:
    """The distance of the samples as they are; of two models, the difference.

    >>> distance(Sides(Side(np.array([3.0, 1.0]), 4), (Side(np.array([0.5, 0.0]), None),)))
    0.5
    """
    own = [float(_distances(seen.people.shares, model.shares)) for model in seen.models]
    return own[0] if len(own) == 1 else own[0] - own[1]


def noise(
    truth: Sides,
    people: Sequence[int],
    samples: Sequence[Size],
    rng: np.random.Generator,
    times: int = N_SAMPLES,
    limit: Sides | None = None,
) -> Noise:
    """Mean and variance of TVD for every number of people and of samples: arrays of both.

    No side gets more draws than it has in `limit`.

    >>> certain = Side(np.array([1.0]), None)
    >>> noise(Sides(certain, (certain,)), [5, 9], [9, None], np.random.default_rng(0)).total.sum()
    np.float64(0.0)
    """
    limits = limit or truth
    own = _drawn(truth.people, limits.people.n, people, rng, times)[:, None, :, None]
    found = [
        _distances(own, _drawn(model, most.n, samples, rng, times)[None, :, None])
        for model, most in zip(truth.models, limits.models, strict=True)
    ]
    return _split(_difference(found))


def _drawn(
    side: Side, most: Size, sizes: Sequence[Size], rng: np.random.Generator, times: int
) -> Floats:
    return np.stack([side.drawn(smaller(n, most), rng, times) for n in sizes])


def smaller(n: Size, other: Size) -> Size:
    """The smaller of two sample sizes, of which exact is the largest.

    >>> smaller(None, 40)
    40
    """
    known = [size for size in (n, other) if size is not None]
    return min(known) if known else None


def _difference(found: Sequence[Floats]) -> Floats:
    return found[0] if len(found) == 1 else found[0] - found[1]


def _distances(people: Floats, model: Floats) -> Floats:
    """TVD over the last axis, where both hold shares of people's words."""
    shape = np.broadcast_shapes(people.shape, model.shape)
    if len(shape) > 1 and math.prod(shape) > _AT_ONCE:
        both = zip(np.broadcast_to(people, shape), np.broadcast_to(model, shape), strict=True)
        return np.stack([_distances(*one) for one in both])
    distances: Floats = 1.0 - np.minimum(people, model).sum(axis=-1)
    return distances


def _split(crossed: Floats) -> Noise:
    """Two-way analysis of variance: rows are samples of people, columns those of the model."""
    n_rows, n_columns = crossed.shape[-2:]
    mean = crossed.mean(axis=(-2, -1), keepdims=True)
    rows, columns = crossed.mean(axis=-1, keepdims=True), crossed.mean(axis=-2, keepdims=True)
    left = ((crossed - rows - columns + mean) ** 2).sum(axis=(-2, -1))
    both = left / ((n_rows - 1) * (n_columns - 1))
    of_rows = rows.var(axis=(-2, -1), ddof=1) - both / n_columns
    of_columns = columns.var(axis=(-2, -1), ddof=1) - both / n_rows
    # What needs both to vary would go away with endless samples of the model: it is its part.
    return Noise(mean[..., 0, 0], of_rows, of_columns + both)
