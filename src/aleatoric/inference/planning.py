"""How many people, samples and contexts: the variance of a mean by its sources, and its use."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.noise import Size
from aleatoric.types import Floats

LEVEL = 0.95
_MOST_LOG = 30.0


@dataclass(frozen=True, slots=True)
class Parts:
    """Variances of one context's value by source: its group, itself, people, model samples.

    >>> Parts(0.25, 0.5, 0.125, 0.125).total
    1.0
    """

    groups: float
    contexts: float
    people: float
    samples: float

    @property
    def total(self) -> float:
        """The variance of one context's value."""
        return self.groups + self.contexts + self.people + self.samples

    @property
    def correlation(self) -> float:
        """How alike two contexts of a group are: their intra-group correlation."""
        return self.groups / self.total if self.total else 0.0

    def paired(self, correlation: float) -> Parts:
        """The parts of a difference between two systems like this one.

        `correlation` is that of their values over contexts and people; their samples are drawn
        apart.
        """
        shared = 2 * (1 - correlation)
        groups, contexts, people = (
            shared * part for part in (self.groups, self.contexts, self.people)
        )
        return Parts(groups, contexts, people, 2 * self.samples)


@dataclass(frozen=True, slots=True)
class Crowding:
    """How contexts lie in groups: how many on average, and as a context sees it.

    A context finds itself in a large group more often than in a small one, so `seen` is larger
    than `mean` where sizes differ; it is what the design effect depends on.
    """

    mean: float
    seen: float

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> Crowding:
        """From the sizes of groups.

        >>> Crowding.of(np.array([1, 3]))
        Crowding(mean=2.0, seen=2.5)
        """
        return cls(float(sizes.mean()), float((sizes**2).sum() / sizes.sum()))

    def resized(self, mean: float) -> Crowding:
        """As uneven, around another mean."""
        return Crowding(mean, self.seen * mean / self.mean)


@dataclass(frozen=True, slots=True)
class Design:
    """People and model samples a context, groups, and how contexts lie in them."""

    people: int
    samples: Size
    groups: int
    crowding: Crowding

    @property
    def contexts(self) -> int:
        """How many contexts there are in all."""
        return round(self.groups * self.crowding.mean)

    @property
    def answers(self) -> int:
        """What it costs in people's answers."""
        return self.people * self.contexts

    @property
    def draws(self) -> int | None:
        """What it costs in draws of the model; `None` where it is exact."""
        return None if self.samples is None else self.samples * self.contexts


def design_effect(parts: Parts, crowding: Crowding) -> float:
    """How many times the variance of independent contexts a mean over groups has.

    >>> design_effect(Parts(0.01, 0.09, 0.0, 0.0), Crowding(11.0, 11.0))
    2.0
    """
    return 1 + (crowding.seen - 1) * parts.correlation


def standard_error(parts: Parts, design: Design) -> float:
    """The standard error of a mean over the contexts of a design.

    >>> design = Design(40, 1000, 25, Crowding(4.0, 4.0))
    >>> standard_error(Parts(0.0, 0.04, 0.0, 0.0), design)
    0.02
    """
    contexts = design.groups * design.crowding.mean
    return math.sqrt(parts.total * design_effect(parts, design.crowding) / contexts)


def groups_needed(parts: Parts, design: Design, error: float) -> int:
    """The fewest groups whose standard error is at most `error`; never fewer than two.

    >>> groups_needed(Parts(0.0, 0.04, 0.0, 0.0), Design(40, 1000, 1, Crowding(4.0, 4.0)), 0.02)
    25
    """
    one = standard_error(parts, replace(design, groups=1))
    return max(2, math.ceil((one / error) ** 2 * (1 - 1e-12)))


def width(error: float, level: float = LEVEL) -> float:
    """The width of an interval around a mean with this standard error.

    >>> round(width(0.01), 4)
    0.0392
    """
    return 2 * _normal_quantile((1 + level) / 2) * error


def power(error: float, difference: float, level: float = LEVEL) -> float:
    """The chance that a two-sided test at 1 − `level` sees a difference of this size.

    >>> round(power(0.01, 0.028), 2)
    0.8
    """
    from scipy.special import ndtr

    if error == 0:
        return 1.0
    edge, shift = _normal_quantile((1 + level) / 2), abs(difference) / error
    return float(ndtr(shift - edge) + ndtr(-shift - edge))


def error_for_width(asked: float, level: float = LEVEL) -> float:
    """The standard error that gives an interval of this width.

    >>> round(error_for_width(0.0392), 4)
    0.01
    """
    return asked / width(1.0, level)


def error_for_power(asked: float, difference: float, level: float = LEVEL) -> float:
    """The largest standard error with which a difference is seen with this chance.

    >>> round(error_for_power(0.8, 0.028), 3)
    0.01
    """
    from scipy.optimize import brentq

    def too_much(log: float) -> float:
        return power(math.exp(log), 1.0, level) - asked

    # Power falls from 1 towards 1 - level as the error grows beside the difference.
    if too_much(_MOST_LOG) >= 0:
        return math.exp(_MOST_LOG) * difference
    return math.exp(float(brentq(too_much, -_MOST_LOG, _MOST_LOG))) * difference


def group_columns(values: Floats) -> Floats:
    """A group's values, (contexts, times), as sums that an analysis of variance can be made from.

    Where values were drawn several times, the sums are means over the times.

    >>> group_columns(np.array([[1.0], [3.0]])).tolist()
    [1.0, 2.0, 4.0, 4.0, 10.0, 8.0]
    """
    n, totals = len(values), values.sum(axis=0)
    squares = float((values**2).sum(axis=0).mean())
    return np.array([1, n, n * n, totals.mean(), squares, (totals**2).mean() / n])


def between_and_within(sums: Floats) -> tuple[Floats, Floats]:
    """Variance between groups and within them, from sums of `group_columns`, whole or resampled.

    Where each group has one context, or where groups differ less than chance would have it, there
    is nothing between them.

    >>> table = np.array([group_columns(np.full((2, 1), v)) for v in (0.0, 4.0)])
    >>> [float(part) for part in between_and_within(table.sum(axis=0))]
    [8.0, 0.0]
    """
    _, n, _, total, squares, _ = np.moveaxis(sums, -1, 0)
    found = mean_squares(sums)
    between = np.maximum(found.among - found.within, 0.0) / np.maximum(found.size, 1e-12)
    pooled = np.maximum(squares - total**2 / n, 0.0) / np.maximum(n - 1, 1)
    alone = (found.free < 1) | (between == 0)
    return np.where(alone, 0.0, between), np.where(alone, pooled, found.within)


@dataclass(frozen=True, eq=False)
class MeanSquares:
    """Of an analysis of variance over groups: both mean squares, and their degrees of freedom."""

    among: Floats
    within: Floats
    free_among: Floats
    free: Floats
    size: Floats
    """Contexts a group, as the mean square among groups weighs them."""


def mean_squares(sums: Floats) -> MeanSquares:
    """From sums of `group_columns`, whole or resampled.

    >>> table = np.array([group_columns(np.array([[v], [v + 2]])) for v in (0.0, 4.0)])
    >>> found = mean_squares(table.sum(axis=0))
    >>> float(found.among), float(found.within), float(found.free)
    (16.0, 2.0, 2.0)
    """
    groups, n, n_squared, total, squares, by_group = np.moveaxis(sums, -1, 0)
    free_among, free = np.maximum(groups - 1, 1), n - groups
    among = np.maximum(by_group - total**2 / n, 0.0) / free_among
    within = np.maximum(squares - by_group, 0.0) / np.maximum(free, 1)
    return MeanSquares(among, within, free_among, free, (n - n_squared / n) / free_among)


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(probability))
