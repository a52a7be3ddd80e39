"""From a pilot to the variances that another design would have.

Sizes up to the pilot's own need no assumption: parts of its samples are samples of those sizes,
and the spread of their distances between groups and within them is what a run of those sizes has.
Larger sizes are extrapolated: by the factor by which the spread changes when samples of both sizes
are drawn from an estimate of the truth. Estimated truths differ by the luck of the pilot too, so
the spread falls too slowly where many more people are asked for: there it is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aleatoric.inference.noise import Noise, Sides, Size, noise, subsampled
from aleatoric.inference.planning import (
    LEVEL,
    Crowding,
    Design,
    MeanSquares,
    Parts,
    between_and_within,
    group_columns,
    mean_squares,
)
from aleatoric.streams import stream
from aleatoric.types import Floats, Interval, Ints

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
