"""Planning a study: how many people, model samples and contexts a given precision needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy  # loads its parts when they are used
from numpy.typing import NDArray

from aleatoric.inference.noise import Noise, Sides, Size, noise, subsampled
from aleatoric.rng import stream
from aleatoric.types import Floats, Interval, Ints

LEVEL = 0.95
_MOST_LOG = 30.0
Sizes = tuple[int, Size]
FAR = 2
"""Beyond this multiple of the pilot's people, a predicted error is an upper bound."""


@dataclass(frozen=True, slots=True)
class Variances:
    """Variances of one context's value by source: its group, itself, people, model samples."""

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
        """The correlation between two contexts of a group."""
        return self.groups / self.total if self.total else 0.0

    def paired(self, correlation: float) -> Variances:
        """The variances of a difference of two such systems; samples are not correlated."""
        shared = 2 * (1 - correlation)
        parts = (shared * self.groups, shared * self.contexts, shared * self.people)
        return Variances(*parts, 2 * self.samples)


@dataclass(frozen=True, slots=True)
class Crowding:
    """The number of contexts per group: the plain mean, and the mean over contexts.

    Most contexts are in large groups, so `seen` is larger; the design effect depends on it.
    """

    mean: float
    seen: float

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> Crowding:
        """Compute both means from the sizes of groups."""
        return cls(float(sizes.mean()), float((sizes**2).sum() / sizes.sum()))

    def resized(self, mean: float) -> Crowding:
        """The same relative unevenness around another mean."""
        return Crowding(mean, self.seen * mean / self.mean)


@dataclass(frozen=True, slots=True)
class Design:
    """People and model samples per context, groups, and the number of contexts per group."""

    people: int
    samples: Size
    groups: int
    crowding: Crowding

    @property
    def contexts(self) -> int:
        """The total number of contexts."""
        return round(self.groups * self.crowding.mean)

    @property
    def answers(self) -> int:
        """The cost in people's answers."""
        return self.people * self.contexts

    @property
    def draws(self) -> int | None:
        """The cost in draws of the model; `None` if it is exact."""
        return None if self.samples is None else self.samples * self.contexts


@dataclass(frozen=True, eq=False)
class PilotSpread:
    """Sums by group of the values at some sizes, factors for extrapolation, and their noise."""

    table: Floats
    between: float
    within: float
    people: float
    samples: float

    def parts(self, sums: Floats) -> Variances:
        """The variances by source, from total or resampled sums of the table."""
        between, within = (float(part) for part in between_and_within(sums))
        noise = self.people + self.samples
        # Noise cannot exceed the total variance, but its estimate can.
        share = min(1.0, within * self.within / noise) if noise else 0.0
        people, samples = share * self.people, share * self.samples
        contexts = max(0.0, within * self.within - people - samples)
        return Variances(between * self.between, contexts, people, samples)

    def errors(self, sums: Floats, design: Design) -> Floats:
        """Standard errors of a design's mean, one per row of resampled sums."""
        between, within = between_and_within(sums)
        variance = between * self.between * design.crowding.seen + within * self.within
        return np.sqrt(variance / (design.groups * design.crowding.mean))


@dataclass(frozen=True, eq=False)
class Context:
    """One context of a pilot: the observed samples, and an estimate of the truth behind them."""

    id: str
    group: str
    seen: Sides
    truth: Sides

    @property
    def people(self) -> int:
        """The number of people who answered."""
        return self.seen.people.n or 0

    @property
    def samples(self) -> Size:
        """The number of model draws, the smaller one if there are two models."""
        return min((model.n for model in self.seen.models if model.n is not None), default=None)


@dataclass(frozen=True, eq=False)
class Pilot:
    """Contexts of a run from which other runs are planned, in at least two groups."""

    contexts: tuple[Context, ...]
    seed: int = 0

    @property
    def people(self) -> int:
        """The median number of people per context."""
        return int(np.median([context.people for context in self.contexts]))

    @property
    def samples(self) -> Size:
        """The median number of model samples per context."""
        sizes = [context.samples for context in self.contexts if context.samples is not None]
        return int(np.median(sizes)) if sizes else None

    @property
    def crowding(self) -> Crowding:
        """The number of contexts per group."""
        return Crowding.of(np.array([len(members) for members in self._groups]))

    @cached_property
    def _groups(self) -> list[Ints]:
        """The indices of each group's contexts, groups in order of appearance."""
        by_group: dict[str, list[int]] = {}
        for index, context in enumerate(self.contexts):
            by_group.setdefault(context.group, []).append(index)
        return [np.array(places) for places in by_group.values()]

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(self._groups)

    @property
    def design(self) -> Design:
        """The pilot's own sizes."""
        return Design(self.people, self.samples, self.n_groups, self.crowding)

    def spreads(
        self, people: Sequence[int], samples: Sequence[Size]
    ) -> Mapping[Sizes, PilotSpread]:
        """The spread of values at every pair of sizes."""
        observed = self._each(lambda c, rng: subsampled(c.seen, people, samples, rng))
        then = now = self._each(lambda c, rng: noise(c.truth, people, samples, rng))
        if self.is_beyond(max(people), samples):
            now = self._each(lambda c, rng: noise(c.truth, people, samples, rng, c.seen))
        return {
            (n_people, n_samples): self._spread(observed[:, i, j], now[..., i, j], then[..., i, j])
            for i, n_people in enumerate(people)
            for j, n_samples in enumerate(samples)
        }

    def is_beyond(self, people: int, samples: Sequence[Size]) -> bool:
        """Whether any of these sizes is larger than the pilot's."""
        pilot = self.samples
        has_more = pilot is not None and any(n is None or n > pilot for n in samples)
        return people > self.people or has_more

    def is_far(self, people: int) -> bool:
        """Whether a design has so many more people that its predicted error is an upper bound."""
        return people > FAR * self.people

    def extrapolates(self, people: int, samples: Size) -> tuple[bool, bool]:
        """Whether these sizes are larger than the pilot's, and much larger."""
        return self.is_beyond(people, [samples]), self.is_far(people)

    def _each(self, work: Callable[[Context, np.random.Generator], Floats | Noise]) -> Floats:
        return np.array([work(c, stream(self.seed, "plan", c.id)) for c in self.contexts])

    def _spread(self, values: Floats, now: Floats, then: Floats) -> PilotSpread:
        """Compare the (contexts, kinds) noise at the pilot's sizes and at the planned ones."""
        before, after = Noise(*now.T), Noise(*then.T)
        both = zip(self._variances(before), self._variances(after), strict=True)
        between, within = (new / old if old > 0 else 1.0 for old, new in both)
        people, samples = (max(0.0, float(part.mean())) for part in (after.people, after.samples))
        return PilotSpread(self._table(values), between, within, people, samples)

    def _variances(self, noises: Noise) -> tuple[float, float]:
        """Variances between and within groups, of expected values with noise."""
        between, within = between_and_within(self._table(noises.mean[:, None]).sum(axis=0))
        return float(between), float(within) + float((noises.people + noises.samples).mean())

    def _table(self, values: Floats) -> Floats:
        """Sums by group of (contexts, repeats) values, averaged over the repeats."""
        return np.array([group_columns(values[members]) for members in self._groups])


def design_effect(parts: Variances, crowding: Crowding) -> float:
    """The variance of a mean over groups relative to that of independent contexts."""
    return 1 + (crowding.seen - 1) * parts.correlation


def standard_error(parts: Variances, design: Design) -> float:
    """The standard error of a mean over the contexts of a design."""
    contexts = design.groups * design.crowding.mean
    return math.sqrt(parts.total * design_effect(parts, design.crowding) / contexts)


def groups_needed(parts: Variances, design: Design, error: float) -> int:
    """The fewest groups whose standard error is at most `error`; at least two."""
    error_of_one_group = standard_error(parts, replace(design, groups=1))
    return max(2, math.ceil((error_of_one_group / error) ** 2 * (1 - 1e-12)))


def width(error: float, level: float = LEVEL) -> float:
    """The width of an interval around a mean with this standard error."""
    return 2 * float(scipy.special.ndtri((1 + level) / 2)) * error


def power(error: float, difference: float, level: float = LEVEL) -> float:
    """The power of a two-sided test at 1 − `level` against a difference of this size."""
    edge = float(scipy.special.ndtri((1 + level) / 2))
    shift = abs(difference) / error if error else math.inf
    return float(scipy.special.ndtr(shift - edge) + scipy.special.ndtr(-shift - edge))


def error_for_width(width_needed: float, level: float = LEVEL) -> float:
    """The standard error that gives an interval of this width."""
    return width_needed / width(1.0, level)


def error_for_power(power_needed: float, difference: float, level: float = LEVEL) -> float:
    """The largest standard error at which a difference is detected with this power."""

    def excess(log: float) -> float:
        return power(math.exp(log), 1.0, level) - power_needed

    # Power falls from 1 towards 1 - level as the error grows relative to the difference.
    if excess(_MOST_LOG) >= 0:
        return math.exp(_MOST_LOG) * difference
    return math.exp(float(scipy.optimize.brentq(excess, -_MOST_LOG, _MOST_LOG))) * difference


def error_interval(spread: PilotSpread, design: Design, level: float = LEVEL) -> Interval | None:
    """The uncertainty of a design's standard error, given the pilot's number of groups.

    The variance is a weighted sum of two mean squares, approximately a chi-square with
    Satterthwaite's degrees of freedom. `None` if the variance is 0.
    """
    squares = mean_squares(spread.table.sum(axis=0))
    variance = float(spread.errors(spread.table.sum(axis=0), design)) ** 2
    if not variance:
        return None
    free = _satterthwaite(squares, spread, design, variance)
    shares = ((1 + level) / 2, (1 - level) / 2)
    chi_squares = [float(2 * scipy.special.gammaincinv(free / 2, share)) for share in shares]
    low, high = (math.sqrt(variance * free / quantile) for quantile in chi_squares)
    return Interval(low, high, level, "chi-square, Satterthwaite")


class MeanSquares(NamedTuple):
    """The mean squares of an analysis of variance over groups, and their degrees of freedom."""

    among: Floats
    within: Floats
    free_among: Floats
    free: Floats
    size: Floats
    """Contexts per group, as the mean square among groups weighs them."""


def mean_squares(sums: Floats) -> MeanSquares:
    """Compute mean squares from total or resampled sums of `group_columns`."""
    groups, n, n_squared, total, squares, by_group = np.moveaxis(sums, -1, 0)
    free_among, free = np.maximum(groups - 1, 1), n - groups
    among = np.maximum(by_group - total**2 / n, 0.0) / free_among
    within = np.maximum(squares - by_group, 0.0) / np.maximum(free, 1)
    return MeanSquares(among, within, free_among, free, (n - n_squared / n) / free_among)


def group_columns(values: Floats) -> Floats:
    """A group's (contexts, repeats) values as sums for `mean_squares`, averaged over repeats."""
    n, totals = len(values), values.sum(axis=0)
    squares = float((values**2).sum(axis=0).mean())
    return np.array([1, n, n * n, totals.mean(), squares, (totals**2).mean() / n])


def between_and_within(sums: Floats) -> tuple[Floats, Floats]:
    """Variance between groups and within them, from total or resampled sums of `group_columns`.

    Between groups it is 0 if each has one context, or if they differ less than by chance.
    """
    _, n, _, total, squares, _ = np.moveaxis(sums, -1, 0)
    anova = mean_squares(sums)
    between = np.maximum(anova.among - anova.within, 0.0) / np.maximum(anova.size, 1e-12)
    pooled = np.maximum(squares - total**2 / n, 0.0) / np.maximum(n - 1, 1)
    alone = (anova.free < 1) | (between == 0)
    return np.where(alone, 0.0, between), np.where(alone, pooled, anova.within)


def _satterthwaite(
    squares: MeanSquares, spread: PilotSpread, design: Design, variance: float
) -> float:
    """Degrees of freedom; those of the groups if they differ no more than by chance."""
    if squares.free < 1 or squares.among <= squares.within:
        return float(squares.free_among)
    contexts = design.groups * design.crowding.mean
    of_groups = spread.between * design.crowding.seen / float(squares.size)
    parts = (
        (of_groups * float(squares.among), float(squares.free_among)),
        ((spread.within - of_groups) * float(squares.within), float(squares.free)),
    )
    return float(variance**2 / sum((part / contexts) ** 2 / free for part, free in parts))
