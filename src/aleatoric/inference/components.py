"""Variances of mean distances between texts: how much is due to which people and which draws.

A linear statistic a_H mean H + a_M mean M + a_C mean C of n people's texts and m drawn ones is a
U-statistic. By Hoeffding's decomposition, its variance for one input is

    first_people / n + 2 second_people / (n (n - 1))
    + first_draws / m + 2 second_draws / (m (m - 1)) + both / (n m),

with parts that do not depend on n and m. The estimates here come from analyses of variance of the
distances (round robin within a side, two-way between sides), are unbiased, and equal U-statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from aleatoric.types import Floats, Ints

FEWEST_PAIRED = 4
"""Texts of a side whose pairs the statistic uses; with fewer, pairs and texts are confounded."""
FEWEST_CROSSED = 2
"""Texts of a side that is only compared with the other one."""


@dataclass(frozen=True)
class Weights:
    """The weights of mean H, mean M and mean C in a statistic.

    >>> Weights.of("energy"), Weights.of("dmu_M")
    (Weights(human=-1.0, model=-1.0, cross=2.0), Weights(human=-1.0, model=1.0, cross=0.0))
    """

    human: float = 0.0
    model: float = 0.0
    cross: float = 0.0

    @classmethod
    def of(cls, statistic: str) -> Weights:
        """Return the weights of a statistic by name; `KeyError` if it is not linear."""
        return _STATISTICS[statistic]

    def enough(self, n_people: int, n_draws: int) -> bool:
        """Whether an input with these numbers of texts says something about the variances."""
        needed = ((self.human, n_people), (self.model, n_draws))
        return all(
            n >= (FEWEST_PAIRED if paired else FEWEST_CROSSED if self.cross else 0)
            for paired, n in needed
        )


_STATISTICS = {
    "energy": Weights(-1.0, -1.0, 2.0),
    "mean_H": Weights(human=1.0),
    "mean_M": Weights(model=1.0),
    "mean_C": Weights(cross=1.0),
    "dmu_M": Weights(human=-1.0, model=1.0),
    "dmu_C": Weights(human=-1.0, cross=1.0),
}
STATISTICS = tuple(_STATISTICS)
"""The statistics that are linear in mean H, mean M and mean C."""


@dataclass(frozen=True)
class Parts:
    """Parts of the variance of a statistic, one value per input."""

    first_people: Floats
    second_people: Floats
    first_draws: Floats
    second_draws: Floats
    both: Floats

    def people(self, n: Floats | int) -> Floats:
        """The variance with `n` people and infinitely many draws."""
        return self.first_people / np.maximum(n, 1) + 2 * self.second_people / _pairs(n)

    def draws(self, n: Floats | int, m: Floats | int) -> Floats:
        """What `m` draws add to that, with the interaction of both."""
        one, both = np.maximum(m, 1), np.maximum(np.asarray(n) * np.asarray(m), 1)
        of_draws = self.first_draws / one + 2 * self.second_draws / _pairs(m)
        return of_draws + self.both / np.asarray(both, np.float64)

    @classmethod
    def joined(cls, parts: Sequence[Parts]) -> Parts:
        """Return the parts of several groups of inputs as one."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _pairs(n: Floats | int) -> Floats:
    """Return n (n - 1), and 1 where there is no pair, because then its part is 0."""
    pairs: Floats = np.maximum(np.asarray(n, np.float64) * (np.asarray(n) - 1), 1.0)
    return pairs


@dataclass(frozen=True)
class ShapedDistances:
    """ShapedDistances of inputs of one shape: people's (inputs, n, n), and one system's M and C.

    M is (inputs, m, m), C is (inputs, m, n). Only pairs i < j and their mirror images are read.
    """

    human: Floats
    model: Floats
    cross: Floats

    def of(self, inputs: Ints) -> ShapedDistances:
        """Return the distances of some inputs."""
        return ShapedDistances(self.human[inputs], self.model[inputs], self.cross[inputs])

    def value(self, weights: Weights) -> Floats:
        """Return the statistic per input; a mean with weight 0 may be undefined."""
        values = np.zeros(len(self.human))
        for weight, square in ((weights.human, self.human), (weights.model, self.model)):
            values = values + weight * _upper(square).mean(axis=1) if weight else values
        return values + weights.cross * self.cross.mean(axis=(1, 2)) if weights.cross else values


def parts_of(distances: Sequence[ShapedDistances], weights: Weights) -> Parts:
    """Estimate the parts for one system, or for the difference between two on the same people.

    In a difference, mean H cancels.
    """
    human = weights.human if len(distances) == 1 else 0.0
    effects, second_people = _paired(distances[0].human, human)
    people, bias = 2 * effects, 4 * second_people / max(effects.shape[1] - 2, 1)
    first_draws = second_draws = both = np.zeros(len(effects))
    for sign, of_system in zip((1.0, -1.0), distances, strict=False):
        m, n = of_system.cross.shape[1:]
        of_people, of_draws, residual = _crossed(of_system.cross, sign * weights.cross)
        effects, pairs = _paired(of_system.model, sign * weights.model)
        noise = 4 * pairs / max(m - 2, 1) + residual / max(n, 1)
        first_draws = first_draws + _variance(2 * effects + of_draws) - noise
        second_draws, both = second_draws + pairs, both + residual
        people, bias = people + of_people, bias + residual / max(m, 1)
    return Parts(_variance(people) - bias, second_people, first_draws, second_draws, both)


def _upper(square: Floats) -> Floats:
    first, second = np.triu_indices(square.shape[1], 1)
    return square[:, first, second]


def _variance(scores: Floats) -> Floats:
    """Return the variance over texts, per input; 0 where there is no text."""
    return scores.var(axis=1, ddof=1) if scores.shape[1] > 1 else np.zeros(len(scores))


def _paired(square: Floats, weight: float) -> tuple[Floats, Floats]:
    """Round robin: the weighted effect of each text, and the variance that is due to pairs."""
    n_inputs, n, _ = square.shape
    if not weight:
        return np.zeros((n_inputs, n)), np.zeros(n_inputs)
    values, (first, second) = _upper(square), np.triu_indices(n, 1)
    mean = values.mean(axis=1, keepdims=True)
    off_diagonal = np.where(np.eye(n, dtype=bool), 0.0, square - mean[:, :, None])
    effects = off_diagonal.sum(axis=2) / (n - 2)
    residual = values - mean - effects[:, first] - effects[:, second]
    return weight * effects, weight**2 * (residual**2).sum(axis=1) / (n * (n - 3) / 2)


def _crossed(grid: Floats, weight: float) -> tuple[Floats, Floats, Floats]:
    """Two-way: the weighted effects of people's texts and of draws, and the variance of both."""
    n_inputs, m, n = grid.shape
    if not weight:
        return np.zeros((n_inputs, n)), np.zeros((n_inputs, m)), np.zeros(n_inputs)
    mean = grid.mean(axis=(1, 2), keepdims=True)
    people, draws = grid.mean(axis=1) - mean[:, 0], grid.mean(axis=2) - mean[:, 0]
    residual = grid - mean - people[:, None, :] - draws[:, :, None]
    both = (residual**2).sum(axis=(1, 2)) / ((n - 1) * (m - 1))
    return weight * people, weight * draws, weight**2 * both
