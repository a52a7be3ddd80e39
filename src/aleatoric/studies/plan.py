"""A plan before there is any data: from what a user takes contexts, people and a model to be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.inference import planning
from aleatoric.inference.noise import Side, Sides, Size, VarianceParts, noise
from aleatoric.inference.planning import (
    Crowding,
    Design,
    PilotSpread,
    Sizes,
    Variances,
    error_interval,
)
from aleatoric.rng import stream
from aleatoric.types import Floats, Interval

LEAST = 1e-9
"""The least distance that is planned for, and how far below 1 a level must lie."""
MOST_GROUPS = 10**9
MOST_CONTEXTS = 1e9
"""In a group."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a run is to reach: a standard error, an interval's width, or power for a difference.

    >>> Target(se=0.01).error
    0.01
    """

    se: float | None = None
    width: float | None = None
    power: float | None = None
    difference: float | None = None
    level: float = planning.LEVEL

    @property
    def error(self) -> float | None:
        """The standard error that is needed; `None` where nothing is asked for."""
        if self.se is not None:
            return self.se
        if self.width is not None:
            return planning.error_for_width(self.width, self.level)
        if self.power is not None and self.difference is not None:
            return planning.error_for_power(self.power, self.difference, self.level)
        return None

    @property
    def option(self) -> str:
        """The option that says how small an error must be, as it was given.

        >>> Target(power=0.8, difference=0.02).option
        '--difference 0.02'
        """
        named = {"--se": self.se, "--width": self.width, "--difference": self.difference}
        return next(f"{name} {value:g}" for name, value in named.items() if value is not None)

    def check(self) -> None:
        """Refuse targets that contradict one another or cannot be met."""
        if sum(x is not None for x in (self.se, self.width, self.power)) > 1:
            raise UsageError("give one target: --se, --width, or --power with --difference.")
        if self.power is not None and self.difference is None:
            raise UsageError("--power needs a --difference to see, as --difference 0.02.")
        positive = {"--se": self.se, "--width": self.width, "--difference": self.difference}
        for name, value in positive.items():
            if value is not None and not LEAST <= value < 1:
                raise UsageError(f"{name} {value:g} is no distance; give one from {LEAST:g} to 1.")
        if not 0.5 <= self.level <= 1 - LEAST:
            raise UsageError(f"--level {self.level:g} is no level; give one such as 0.95.")
        if self.power is not None and not 1 - self.level < self.power < 1:
            low = 1 - self.level
            raise UsageError(f"--power must lie between {low:g} (chance) and 1, as --power 0.8.")


@dataclass(frozen=True, slots=True)
class Grid:
    """The sizes to look at; where none are given, some around the pilot's."""

    people: tuple[int, ...] = ()
    samples: tuple[Size, ...] = ()
    groups: tuple[int, ...] = ()
    contexts_per_group: float | None = None

    def check(self) -> None:
        """Refuse groups that no corpus has.

        >>> Grid(contexts_per_group=50).check()
        """
        asked = self.contexts_per_group
        if asked is not None and not 1 <= asked <= MOST_CONTEXTS:
            raise UsageError(
                f"--contexts-per-group {asked:g} is no size of a group; give 1 to "
                f"{MOST_CONTEXTS:.0f}."
            )


def sizes(texts: Sequence[str]) -> tuple[Size, ...]:
    """Numbers of samples as a user writes them.

    >>> sizes(["100", "exact"])
    (100, None)
    """
    return tuple(None if text == "exact" else _count(text) for text in texts)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 8 or not 2 <= int(text) <= 10**7:
        raise UsageError(
            f"--samples {quoted(text, 40)} is no number of draws; give 2 to 10000000, or exact."
        )
    return int(text)


class Source(Protocol):
    """Where variances come from, with the sizes around which designs are tried."""

    @property
    def name(self) -> str:
        """What is planned for, and from what."""
        ...

    @property
    def people(self) -> int:
        """People a context."""
        ...

    @property
    def samples(self) -> Size:
        """Model samples a context."""
        ...

    @property
    def groups(self) -> int:
        """How many groups of contexts."""
        ...

    @property
    def crowding(self) -> Crowding:
        """How contexts lie in groups."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the predictions should know."""
        ...

    @property
    def split(self) -> VarianceParts | None:
        """Where the noise of a pilot's own mean comes from, where there is a pilot."""
        ...

    def prepared(self, people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Known]:
        """What is known at each pair of sizes."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """A design and what it would give; `interval` is what the pilot leaves open of `se`."""

    design: Design
    parts: Variances
    se: float
    interval: Interval | None
    width: float
    power: float | None
    meets: bool | None
    extrapolated: bool
    upper_bound: bool

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        design = self.design
        sizes = {"people": design.people, "samples": design.samples, "groups": design.groups}
        costs = {"contexts": design.contexts, "answers": design.answers, "draws": design.draws}
        return {
            **sizes,
            **costs,
            "se": self.se,
            "se_interval": asdict(self.interval) if self.interval else None,
            "width": self.width,
            "power": self.power,
            "meets_target": self.meets,
            "extrapolated": self.extrapolated,
            "upper_bound": self.upper_bound,
            "variance": asdict(self.parts),
            "design_effect": planning.design_effect(self.parts, design.crowding),
        }


@dataclass(frozen=True)
class Plan:
    """Designs for a target, from a source."""

    source: str
    target: Target
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    split: VarianceParts | None = None
    """Where the noise of a pilot's own mean comes from."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "source": self.source,
            "target": asdict(self.target) | {"error": self.target.error},
            "plans": [row.as_dict() for row in self.rows],
            "pilot_variance": asdict(self.split) if self.split else None,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Known:
    """What is known at one pair of sizes: the variances, and sums to resample where they exist."""

    parts: Variances
    spread: PilotSpread | None = None
    extrapolated: bool = False
    upper_bound: bool = False
    """Whether the sizes are so much larger than the pilot's that errors are no larger than this."""


def make_plan(source: Source, target: Target, grid: Grid) -> Plan:
    """The designs of a grid, with as many groups as the target needs or as are given."""
    target.check()
    grid.check()
    filled = _filled(source, grid)
    crowding = source.crowding
    if grid.contexts_per_group:
        crowding = crowding.resized(grid.contexts_per_group)
    rows = tuple(
        _row(known, Design(*pair, groups, crowding), target)
        for pair, known in source.prepared(filled.people, filled.samples).items()
        for groups in _groups(known.parts, pair, crowding, target, grid, source)
    )
    return Plan(source.name, target, rows, source.notes, source.split)


def predicted(known: Known, design: Design) -> tuple[float, Interval | None]:
    """A design's standard error, and what the pilot's number of groups leaves open of it."""
    error = planning.standard_error(known.parts, design)
    spread = known.spread
    if spread is None or not error:
        return error, None
    plain = float(spread.errors(spread.table.sum(axis=0), design))
    found = error_interval(spread, design)
    if found is None or not plain:
        return error, None
    scale = error / plain  # of a difference that is only assumed
    return error, replace(found, low=found.low * scale, high=found.high * scale)


def _row(known: Known, design: Design, target: Target) -> Row:
    error, interval = predicted(known, design)
    power = None
    if target.difference is not None:
        power = planning.power(error, target.difference, target.level)
    meets = None if target.error is None else error <= target.error * (1 + 1e-9)
    wide = planning.width(error, target.level)
    how = (known.extrapolated, known.upper_bound)
    return Row(design, known.parts, error, interval, wide, power, meets, *how)


def _groups(
    parts: Variances,
    sizes: Sizes,
    crowding: Crowding,
    target: Target,
    grid: Grid,
    source: Source,
) -> tuple[int, ...]:
    if grid.groups:
        return grid.groups
    if target.error is not None:
        return (_needed(parts, Design(*sizes, 1, crowding), target, target.error),)
    own = source.groups
    return tuple(dict.fromkeys(max(2, n) for n in (own // 2, own, 2 * own, 4 * own)))


def _needed(parts: Variances, design: Design, target: Target, error: float) -> int:
    """The groups that a target needs, where there can be so many."""
    needed = planning.groups_needed(parts, design, error)
    if needed > MOST_GROUPS:
        raise UsageError(
            f"{target.option} needs more than {MOST_GROUPS} groups of contexts, which nobody can "
            "ask; give a larger one."
        )
    return needed


def _filled(source: Source, grid: Grid) -> Grid:
    """The grid with sizes around the source's where none are given."""
    n, m = source.people, source.samples
    people = grid.people or tuple(dict.fromkeys(max(2, size) for size in (n // 2, n, 2 * n)))
    own: tuple[Size, ...] = (100, 1000, None) if m is None else (max(2, m // 10), m)
    return replace(grid, people=people, samples=grid.samples or own)


N_SAMPLES = 64
_MEANING = {
    "sd": "how far contexts lie apart in TVD, noise aside: a standard deviation from 0 to 0.5",
    "icc": "how alike contexts of a group are: a correlation from 0 to below 1",
    "tvd": "the model's distance to people: from 0 to 1",
    "entropy": "of people's answers to a typical context, in bits: from 0 to log2(support)",
    "support": "how many words people could give to a typical context: whole, 1 to 100000",
    "group": "contexts a group: from 1 to 1000000000",
}


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is taken for granted; the defaults are like GPT-2 on Provo."""

    sd: float = 0.21
    icc: float = 0.03
    tvd: float = 0.5
    entropy: float = 3.5
    support: int = 60
    group: float = 50.0

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Assumptions:
        """From `name=value`, several with commas or one after another.

        >>> Assumptions.parse(["sd=0.1,icc=0.2"]).icc
        0.2
        """
        given: dict[str, float] = {}
        for text in ",".join(texts).split(","):
            name, _, value = text.strip().partition("=")
            if name not in _MEANING:
                known = ", ".join(_MEANING)
                raise UsageError(f"there is no assumption {quoted(name, 40)}; use {known}.")
            if name in given:
                raise UsageError(f"--assume says {name} twice; say it once.")
            given[name] = _number(name, value)
        support = given.pop("support", cls().support)
        if support != int(support):
            raise UsageError(f"support={support:g} cannot be: {_MEANING['support']}.")
        found = cls(**given, support=int(support))
        found._check()
        return found

    def _check(self) -> None:
        limits = {
            "sd": (0, 0.5),
            "icc": (0, 0.999),
            "tvd": (0, 1),
            "support": (1, 100_000),
            "group": (1, 1e9),
            "entropy": (0, math.log2(max(1, self.support)) + 1e-9),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                value = getattr(self, name)
                raise UsageError(f"{name}={value:g} cannot be: {_MEANING[name]}.")

    def __str__(self) -> str:
        return ", ".join(f"{f.name}={getattr(self, f.name):g}" for f in fields(self))


@dataclass(frozen=True)
class AssumedSource:
    """Variances from assumptions: what is assumed of contexts, and noise of a typical one."""

    assumed: Assumptions
    correlation: float | None = None
    seed: int = 0
    people: int = 40
    samples: Size = 1000
    groups: int = 20

    @property
    def split(self) -> None:
        """There is no pilot whose noise could be split."""
        return None

    @property
    def name(self) -> str:
        """What is planned for."""
        return "TVD under assumptions" if self.correlation is None else "difference of two TVDs"

    @property
    def crowding(self) -> Crowding:
        """As many contexts in every group."""
        return Crowding(self.assumed.group, self.assumed.group)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed."""
        found = [f"Assumed: {self.assumed}. The noise is that of one typical context."]
        if self.correlation is not None:
            found.append(
                "The two systems are assumed to be equally noisy, and correlated at "
                f"{self.correlation:g} over contexts and people."
            )
        return tuple(found)

    def prepared(self, people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Known]:
        """Variances at each pair of sizes."""
        rng = stream(self.seed, "plan", "assumed")
        found = noise(self._typical(), people, samples, rng, N_SAMPLES)
        return {
            (n, m): Known(self._parts(float(found.people[i, j]), float(found.samples[i, j])))
            for i, n in enumerate(people)
            for j, m in enumerate(samples)
        }

    def _parts(self, people: float, samples: float) -> Variances:
        spread, icc = self.assumed.sd**2, self.assumed.icc
        parts = Variances(icc * spread, (1 - icc) * spread, max(0.0, people), max(0.0, samples))
        return parts if self.correlation is None else parts.paired(self.correlation)

    def _typical(self) -> Sides:
        """People's words fall off like Zipf's; the model puts its distance on words of its own."""
        people = zipf(self.assumed.support, self.assumed.entropy)
        model = (1 - self.assumed.tvd) * people
        return Sides(Side(people, None), (Side(model, None),))


def zipf(support: int, entropy: float) -> Floats:
    """Zipf-like probabilities of so many words with this entropy in bits.

    >>> zipf(4, 2.0).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    from scipy.optimize import brentq

    ranks = np.arange(1, support + 1, dtype=np.float64)
    if support == 1 or _bits(_normed(ranks, 0.0)) <= entropy:
        return _normed(ranks, 0.0)
    if _bits(_normed(ranks, 50.0)) >= entropy:
        return _normed(ranks, 50.0)
    steepness = brentq(lambda s: _bits(_normed(ranks, s)) - entropy, 0.0, 50.0)
    return _normed(ranks, float(steepness))


def _normed(ranks: Floats, steepness: float) -> Floats:
    weights = ranks**-steepness
    probs: Floats = weights / weights.sum()
    return probs


def _bits(probs: Floats) -> float:
    known = probs[probs > 0]
    return float(-(known * np.log2(known)).sum())


def _number(name: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not np.isfinite(found):
        raise UsageError(f"{name}={quoted(value, 40)} is no number; {_MEANING[name]}.")
    return found
