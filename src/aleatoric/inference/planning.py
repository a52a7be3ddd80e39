"""How many people, samples and contexts: the variance of a mean by its sources, and its use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.noise import Noise, Sides, Size, noise, subsampled
from aleatoric.rng import stream
from aleatoric.types import Floats, Interval, Ints

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


Sizes = tuple[int, Size]
FAR = 2
"""Beyond so many times the pilot's people a predicted error is an upper bound."""


@dataclass(frozen=True, eq=False)
class Context:
    """One context of a pilot: what was seen, and the truth that is taken to lie behind it."""

    id: str
    group: str
    seen: Sides
    truth: Sides

    @property
    def people(self) -> int:
        """How many people answered."""
        return self.seen.people.n or 0

    @property
    def samples(self) -> Size:
        """How many draws the model has, the smaller number where there are two models."""
        sizes = [model.n for model in self.seen.models if model.n is not None]
        return min(sizes) if sizes else None


@dataclass(frozen=True, eq=False)
class Spread:
    """Sums by group of the values at some sizes, how they extrapolate, and the noise in them."""

    table: Floats
    between: float
    within: float
    people: float
    samples: float

    def parts(self, sums: Floats) -> Parts:
        """The variances by source; `sums` of the table, whole or resampled."""
        between, within = (float(part) for part in between_and_within(sums))
        noise = self.people + self.samples
        # Noise cannot be more than there is; an estimate can.
        share = min(1.0, within * self.within / noise) if noise else 0.0
        people, samples = share * self.people, share * self.samples
        contexts = max(0.0, within * self.within - people - samples)
        return Parts(between * self.between, contexts, people, samples)

    def errors(self, sums: Floats, design: Design) -> Floats:
        """Standard errors of a design's mean, one for each row of resampled sums."""
        between, within = between_and_within(sums)
        variance = between * self.between * design.crowding.seen + within * self.within
        errors: Floats = np.sqrt(variance / (design.groups * design.crowding.mean))
        return errors


def error_interval(spread: Spread, design: Design, level: float = LEVEL) -> Interval | None:
    """What a pilot of so many groups leaves open of a design's standard error.

    Its variance is a sum of two mean squares with weights; the sum has about the distribution of a
    chi-square with Satterthwaite's degrees of freedom. `None` where there is nothing to weigh.
    """
    found = mean_squares(spread.table.sum(axis=0))
    variance = float(spread.errors(spread.table.sum(axis=0), design)) ** 2
    if not variance:
        return None
    free = _satterthwaite(found, spread, design, variance)
    shares = ((1 + level) / 2, (1 - level) / 2)
    low, high = (math.sqrt(variance * free / _chi_square(share, free)) for share in shares)
    return Interval(low, high, level, "chi-square, Satterthwaite")


def _satterthwaite(found: MeanSquares, spread: Spread, design: Design, variance: float) -> float:
    """Degrees of freedom; those of the groups where they differ no more than by chance."""
    if found.free < 1 or found.among <= found.within:
        return float(found.free_among)
    contexts = design.groups * design.crowding.mean
    of_groups = spread.between * design.crowding.seen / float(found.size)
    parts = (
        (of_groups * float(found.among), float(found.free_among)),
        ((spread.within - of_groups) * float(found.within), float(found.free)),
    )
    return float(variance**2 / sum((part / contexts) ** 2 / free for part, free in parts))


def _chi_square(share: float, free: float) -> float:
    from scipy.special import gammaincinv

    return float(2 * gammaincinv(free / 2, share))


@dataclass(frozen=True, eq=False)
class Pilot:
    """Contexts of a run from which others are planned; they lie in at least two groups."""

    contexts: tuple[Context, ...]
    seed: int = 0

    @property
    def people(self) -> int:
        """The usual number of people a context."""
        return int(np.median([context.people for context in self.contexts]))

    @property
    def samples(self) -> Size:
        """The usual number of model samples a context."""
        known = [context.samples for context in self.contexts if context.samples is not None]
        return int(np.median(known)) if known else None

    @property
    def crowding(self) -> Crowding:
        """How its contexts lie in groups."""
        return Crowding.of(np.array([len(members) for members in self._groups]))

    @cached_property
    def _groups(self) -> list[Ints]:
        """The places of each group's contexts, groups in the order of appearance."""
        found: dict[str, list[int]] = {}
        for place, context in enumerate(self.contexts):
            found.setdefault(context.group, []).append(place)
        return [np.array(places) for places in found.values()]

    @property
    def n_groups(self) -> int:
        """How many groups it has."""
        return len(self._groups)

    def spreads(self, people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Spread]:
        """The spread of values at every pair of sizes."""
        seen = self._each(lambda c, rng: subsampled(c.seen, people, samples, rng))
        then = _stacked(self._each(lambda c, rng: _noise_of(c, people, samples, rng)))
        now = then
        if self.is_beyond(max(people), samples):
            now = _stacked(self._each(lambda c, rng: _noise_of(c, people, samples, rng, c.seen)))
        return {
            (n_people, n_samples): self._spread(seen[:, i, j], now, then, (i, j))
            for i, n_people in enumerate(people)
            for j, n_samples in enumerate(samples)
        }

    def is_beyond(self, people: int, samples: Sequence[Size]) -> bool:
        """Whether any of these sizes is larger than the pilot's."""
        own = self.samples
        return people > self.people or any(
            own is not None and (n is None or n > own) for n in samples
        )

    def is_far(self, people: int) -> bool:
        """Whether a design has so many more people that its predicted error is an upper bound."""
        return people > FAR * self.people

    def _each(self, work: Callable[[Context, np.random.Generator], Floats]) -> Floats:
        return np.array([work(c, stream(self.seed, "plan", c.id)) for c in self.contexts])

    def _spread(self, values: Floats, now: Floats, then: Floats, at: tuple[int, int]) -> Spread:
        before, after = (_of_sizes(found, at) for found in (now, then))
        factors = [
            new / old if old > 0 else 1.0
            for old, new in zip(self._variances(before), self._variances(after), strict=True)
        ]
        people, samples = (max(0.0, float(part.mean())) for part in (after.people, after.samples))
        between, within = factors
        return Spread(self._table(values), between, within, people, samples)

    def _variances(self, noises: Noise) -> tuple[float, float]:
        """Between groups and within them, of values that are expected ones with noise."""
        between, within = between_and_within(self._table(noises.mean[:, None]).sum(axis=0))
        return float(between), float(within) + float(noises.total.mean())

    def _table(self, values: Floats) -> Floats:
        """Sums by group of (contexts, times) values, averaged over the times."""
        return np.array([group_columns(values[members]) for members in self._groups])


def _noise_of(
    context: Context,
    people: Sequence[int],
    samples: Sequence[Size],
    rng: np.random.Generator,
    limit: Sides | None = None,
) -> Floats:
    """Mean and noise at some sizes as one array, none larger than in `limit`."""
    found = noise(context.truth, people, samples, rng, limit=limit)
    return np.array([found.mean, found.people, found.samples])


def _stacked(found: Floats) -> Floats:
    """(contexts, kinds, people, samples) with the kinds first."""
    return np.moveaxis(found, 1, 0)


def _of_sizes(found: Floats, at: tuple[int, int]) -> Noise:
    mean, people, samples = (part[:, at[0], at[1]] for part in found)
    return Noise(mean, people, samples)
