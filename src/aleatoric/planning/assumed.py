"""A plan before there is any data: from what a user takes contexts, people and a model to be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference.noise import Side, Sides, Size, noise
from aleatoric.inference.pilot import Sizes
from aleatoric.inference.planning import Crowding, Parts
from aleatoric.planning.designs import Known
from aleatoric.showing import quoted
from aleatoric.streams import stream
from aleatoric.types import Floats

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

    def _parts(self, people: float, samples: float) -> Parts:
        spread, icc = self.assumed.sd**2, self.assumed.icc
        parts = Parts(icc * spread, (1 - icc) * spread, max(0.0, people), max(0.0, samples))
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
