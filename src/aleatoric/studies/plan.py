"""Plan a run: the numbers of people, samples and contexts that a target precision needs.

Variances come from a pilot run (`plan_from_run`) or, before there are any data, from assumptions
about contexts, people and a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.inference import planning
from aleatoric.inference.bootstrap import t_quantile
from aleatoric.inference.noise import Side, Sides, Size, VarianceParts, noise
from aleatoric.inference.planning import Crowding, Design, PilotSpread, Sizes, Variances
from aleatoric.result_types import Tabular
from aleatoric.rng import stream
from aleatoric.studies import TEXTS, notes_on
from aleatoric.types import Floats, Interval

LEAST = 1e-9
"""The smallest distance to plan for, and the smallest distance of a level from 1."""
MOST_GROUPS = 10**9
MOST_CONTEXTS = 1e9
"""Per group."""
N_SAMPLES = 64
FEW_GROUPS = 10
"""With fewer groups, planned widths are clearly too small."""


@dataclass(frozen=True, slots=True)
class Target:
    """The goal of a run: a standard error, an interval's width, or power for a difference."""

    se: float | None = None
    width: float | None = None
    power: float | None = None
    difference: float | None = None
    level: float = planning.LEVEL

    @property
    def error(self) -> float | None:
        """The standard error that the target needs; `None` if there is no target."""
        if self.se is not None:
            return self.se
        if self.width is not None:
            return planning.error_for_width(self.width, self.level)
        if self.power is not None and self.difference is not None:
            return planning.error_for_power(self.power, self.difference, self.level)
        return None

    @property
    def option(self) -> str:
        """The option that limits the error, as it was given."""
        return next(f"{name} {value:g}" for name, value in self._distances().items())

    def _distances(self) -> dict[str, float]:
        named = {"--se": self.se, "--width": self.width, "--difference": self.difference}
        return {name: value for name, value in named.items() if value is not None}

    def check(self) -> None:
        """Refuse targets that contradict one another or cannot be met."""
        if sum(x is not None for x in (self.se, self.width, self.power)) > 1:
            raise UsageError("give one target: --se, --width, or --power with --difference.")
        if self.power is not None and self.difference is None:
            raise UsageError("--power needs a --difference to detect, as --difference 0.02.")
        for name, value in self._distances().items():
            if not LEAST <= value < 1:
                problem = f"{name} {value:g} is not a distance"
                raise UsageError(f"{problem}; give one from {LEAST:g} to 1.")
        if not 0.5 <= self.level <= 1 - LEAST:
            raise UsageError(f"--level {self.level:g} is not a level; give one such as 0.95.")
        if self.power is not None and not 1 - self.level < self.power < 1:
            low = 1 - self.level
            raise UsageError(f"--power must lie between {low:g} (chance) and 1, as --power 0.8.")


@dataclass(frozen=True, slots=True)
class Grid:
    """The sizes to try; by default some around the pilot's."""

    people: tuple[int, ...] = ()
    samples: tuple[Size, ...] = ()
    groups: tuple[int, ...] = ()
    contexts_per_group: float | None = None

    def check(self) -> None:
        """Refuse groups of impossible size."""
        size = self.contexts_per_group
        if size is not None and not 1 <= size <= MOST_CONTEXTS:
            problem = f"--contexts-per-group {size:g} is not a size of a group"
            raise UsageError(f"{problem}; give 1 to {MOST_CONTEXTS:.0f}.")


def sizes(texts: Sequence[str]) -> tuple[Size, ...]:
    """Parse numbers of samples; `exact` is `None`."""
    return tuple(None if text == "exact" else _count(text) for text in texts)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 8 or not 2 <= int(text) <= 10**7:
        problem = f"--samples {quoted(text, 40)} is not a number of draws"
        raise UsageError(f"{problem}; give 2 to 10000000, or exact.")
    return int(text)


@dataclass(frozen=True)
class Known:
    """Variances at one pair of sizes, and the pilot's group sums if there is a pilot."""

    parts: Variances
    spread: PilotSpread | None = None
    extrapolated: bool = False
    upper_bound: bool = False
    """Whether the sizes are so far beyond the pilot's that the error is an upper bound."""


@dataclass(frozen=True)
class PlanSource:
    """A source of variances."""

    name: str
    """The planned quantity and its source."""
    around: Design
    """The pilot's sizes, around which others are tried by default."""
    known: Callable[[Sequence[int], Sequence[Size]], Mapping[Sizes, Known]]
    """From numbers of people and of samples to the variances at each pair of sizes."""
    notes: tuple[str, ...] = ()
    split: VarianceParts | None = None
    """The noise of a pilot's own mean by source."""
    people: tuple[int, ...] = ()
    samples: tuple[Size, ...] = ()
    """Numbers that are tried by default; without any, some around the pilot's."""
    subset: str = ""
    """Which items of a pilot the plan uses, after "SE"; empty if all."""


@dataclass(frozen=True, kw_only=True)
class PlanRow(Known):
    """A design and its predicted precision; `interval` is the uncertainty of `se`."""

    design: Design
    se: float
    interval: Interval | None
    width: float
    power: float | None
    meets: bool | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        sizes = ("people", "samples", "groups", "contexts", "answers", "draws")
        return {name: getattr(self.design, name) for name in sizes} | {
            "se": self.se,
            "se_interval": asdict(self.interval) if self.interval else None,
            "width": self.width,
            "power": self.power,
            "meets_target": self.meets,
            "extrapolated": self.extrapolated,
            "upper_bound": self.upper_bound,
            "variance": asdict(self.parts),
            "design_effect": planning.design_effect(self.parts, self.design.crowding),
        }

    def record(self) -> dict[str, Any]:
        """Return the main facts, one number per key."""
        facts, ends = self.to_dict(), self.interval
        nested = ("se_interval", "variance")
        return {name: value for name, value in facts.items() if name not in nested} | {
            "se_low": ends and ends.low,
            "se_high": ends and ends.high,
        }


@dataclass(frozen=True, repr=False)
class RunPlan(Tabular):
    """Designs for a target, from a source."""

    source: str
    target: Target
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...]
    split: VarianceParts | None = None
    """The noise of a pilot's own mean by source."""
    subset: str = ""
    """Which items of a pilot the plan uses, after "SE"; empty if all."""

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per design."""
        return [row.record() for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "source": self.source,
            "target": asdict(self.target) | {"error": self.target.error},
            "plans": [row.to_dict() for row in self.rows],
            "pilot_variance": asdict(self.split) if self.split else None,
            "notes": list(self.notes),
        }


def make_plan(source: PlanSource, target: Target, grid: Grid) -> RunPlan:
    """The designs of a grid, with the given numbers of groups or as many as the target needs."""
    target.check()
    grid.check()
    pilot, per_group = source.around, grid.contexts_per_group
    n, m, crowding = pilot.people, pilot.samples, pilot.crowding
    people = grid.people or source.people or around(n)
    default: tuple[Size, ...] = (100, 1000, None) if m is None else (max(2, m // 10), m)
    crowding = crowding.resized(per_group) if per_group else crowding
    rows = tuple(
        _row(known, Design(*pair, groups, crowding), target)
        for pair, known in source.known(people, grid.samples or source.samples or default).items()
        for groups in grid.groups or _groups(known, Design(*pair, pilot.groups, crowding), target)
    )
    notes = (*source.notes, *_few_groups_note(rows, target.level))
    return RunPlan(source.name, target, rows, notes, source.split, source.subset)


def _few_groups_note(rows: Sequence[PlanRow], level: float) -> Iterator[str]:
    """Warn that intervals over a few groups are wider than planned: runs use Student's t there."""
    fewest = min((row.design.groups for row in rows), default=FEW_GROUPS)
    if 2 <= fewest < FEW_GROUPS:
        wider = t_quantile((1 + level) / 2, fewest - 1) * 2 / planning.width(1.0, level)
        yield from notes_on("few_groups", enough=FEW_GROUPS, fewest=fewest, wider=wider)


def around(n: int) -> tuple[int, ...]:
    """Return half, all and twice a number, at least 2.

    >>> around(10), around(3)
    ((5, 10, 20), (2, 3, 6))
    """
    return tuple(dict.fromkeys(max(2, size) for size in (n // 2, n, 2 * n)))


def predicted(known: Known, design: Design) -> tuple[float, Interval | None]:
    """A design's standard error, and its interval given the pilot's number of groups."""
    error = planning.standard_error(known.parts, design)
    spread = known.spread
    if spread is None or not error:
        return error, None
    plain = float(spread.errors(spread.table.sum(axis=0), design))
    interval = planning.error_interval(spread, design)
    if interval is None or not plain:
        return error, None
    scale = error / plain  # the second system of a difference may be assumed
    return error, replace(interval, low=interval.low * scale, high=interval.high * scale)


def _row(known: Known, design: Design, target: Target) -> PlanRow:
    error, interval = predicted(known, design)
    difference = target.difference
    return PlanRow(
        **vars(known),
        design=design,
        se=error,
        interval=interval,
        width=planning.width(error, target.level),
        power=None if difference is None else planning.power(error, difference, target.level),
        meets=None if target.error is None else error <= target.error * (1 + 1e-9),
    )


def _groups(known: Known, design: Design, target: Target) -> tuple[int, ...]:
    """The number of groups that a target needs, or some around the design's."""
    if target.error is None:
        n = design.groups
        return tuple(dict.fromkeys(max(2, size) for size in (n // 2, n, 2 * n, 4 * n)))
    needed = planning.groups_needed(known.parts, design, target.error)
    if needed > MOST_GROUPS:
        problem = f"{target.option} needs more than {MOST_GROUPS} groups of contexts"
        raise UsageError(f"{problem}, which nobody can collect; give a larger one.")
    return (needed,)


_MEANING: dict[str, str] = TEXTS["plan"]["meanings"]
_LIMITS = {"sd": (0, 0.5), "icc": (0, 0.999), "tvd": (0, 1), "support": (1, 1e5), "group": (1, 1e9)}


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumed properties of contexts, people and model; the defaults are like GPT-2 on Provo."""

    sd: float = 0.21
    icc: float = 0.03
    tvd: float = 0.5
    entropy: float = 3.5
    support: int = 60
    group: float = 50.0

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Assumptions:
        """Parse `name=value`, several separated by commas or in several texts."""
        numbers: dict[str, float] = {}
        for text in ",".join(texts).split(","):
            name, _, value = text.strip().partition("=")
            if name not in _MEANING:
                names = ", ".join(_MEANING)
                raise UsageError(f"there is no assumption {quoted(name, 40)}; use {names}.")
            if name in numbers:
                raise UsageError(f"--assume gives {name} twice; give it once.")
            numbers[name] = _number(name, value)
        support = numbers.pop("support", cls().support)
        if support != int(support):
            raise UsageError(f"support={support:g} cannot be: {_MEANING['support']}.")
        return cls(**numbers, support=int(support))

    def __post_init__(self) -> None:
        entropy = {"entropy": (0, math.log2(max(1, self.support)) + 1e-9)}
        for name, (low, high) in (_LIMITS | entropy).items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name}={value:g} cannot be: {_MEANING[name]}.")

    def __str__(self) -> str:
        return ", ".join(f"{f.name}={getattr(self, f.name):g}" for f in fields(self))


def assumed_source(
    assumed: Assumptions, correlation: float | None = None, seed: int = 0
) -> PlanSource:
    """Variances from assumptions; with a `correlation`, of the difference between two systems."""
    name = "TVD under assumptions"
    notes = [f"Assumed: {assumed}. The noise is that of one typical context."]
    if correlation is not None:
        name = "difference of two TVDs"
        notes += notes_on("assumed_pair", correlation=correlation)
    around = Design(40, 1000, 20, Crowding(assumed.group, assumed.group))

    def known(people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Known]:
        rng = stream(seed, "plan", "assumed")
        # People's words follow Zipf's law; the model's distance is mass on words of its own.
        shares = zipf(assumed.support, assumed.entropy)
        typical = Sides(Side(shares, None), (Side((1 - assumed.tvd) * shares, None),))
        sampled = noise(typical, people, samples, rng, times=N_SAMPLES)
        between, within = assumed.icc * assumed.sd**2, (1 - assumed.icc) * assumed.sd**2
        at_sizes = {}
        for (i, n), (j, m) in product(enumerate(people), enumerate(samples)):
            noises = (max(0.0, float(part[i, j])) for part in (sampled.people, sampled.samples))
            parts = Variances(between, within, *noises)
            at_sizes[n, m] = Known(parts if correlation is None else parts.paired(correlation))
        return at_sizes

    return PlanSource(name, around, known, tuple(notes))


def zipf(support: int, entropy: float) -> Floats:
    """Zipf-like probabilities of `support` words with this entropy in bits."""
    from scipy.optimize import brentq

    ranks = np.arange(1, support + 1, dtype=np.float64)

    def normed(steepness: float) -> Floats:
        weights = ranks**-steepness
        probs: Floats = weights / weights.sum()
        return probs

    def excess(steepness: float) -> float:
        probs = normed(steepness)
        positive = probs[probs > 0]
        return float(-(positive * np.log2(positive)).sum()) - entropy

    if support == 1 or excess(0.0) <= 0:
        return normed(0.0)
    return normed(50.0 if excess(50.0) >= 0 else float(brentq(excess, 0.0, 50.0)))


def _number(name: str, value: str) -> float:
    with suppress(ValueError):
        if math.isfinite(number := float(value)):
            return number
    raise UsageError(f"{name}={quoted(value, 40)} is not a number; {_MEANING[name]}.")
