"""What a perfect generator would score: the W1 that is left when people are compared with people.

Two small samples of one population differ, and so do the distances within them. The disjoint-split
control measures by how much, but only at half the number of people: at the numbers that a system
is scored at, the difference is smaller. So the floor lies between the control itself (`high`) and
its extrapolation to those numbers (`low`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aleatoric.metrics.empirical import Floats, Integers, mean
from aleatoric.metrics.wasserstein import w1
from aleatoric.texts.control import Inputs, Splitting
from aleatoric.texts.splits import between, people_orders, within
from aleatoric.types import Floor

METHOD = "disjoint splits of people: extrapolated over sizes to the control at half size"
FEWEST_PEOPLE = {"w1_M": 4, "w1_C": 3}
"""Of fewer people a half has no pair: for M that in the model's place, for C the other."""


@dataclass(frozen=True, slots=True)
class MeanFloor(Floor):
    """A floor that is a mean over inputs, and over how many: not every input has one.

    >>> MeanFloor(0.2, 0.1, 0.2, METHOD, n_items=3).n_items
    3
    """

    n_items: int = 0


@dataclass(frozen=True)
class Floors:
    """By input, between what a perfect generator's W1 is expected to lie."""

    low: Floats
    high: Floats


@dataclass(frozen=True)
class _Sizes:
    """How many texts play the model and how many the people."""

    model: int
    people: int

    def slow(self) -> float:
        """How W1 falls at the slowest: as a mean over texts does."""
        return float(np.sqrt(1 / self.model + 1 / self.people))

    def fast(self, statistic: str) -> float:
        """How W1 falls at the fastest: as if all pairs of texts were independent."""
        grid = statistic == "w1_C"
        own = self.model * self.people if grid else self.model * (self.model - 1) / 2
        return float(np.sqrt(1 / own + 2 / (self.people * (self.people - 1))))


def floors(
    inputs: Inputs, n_generations: int, splitting: Splitting | None = None
) -> dict[str, Floors]:
    """The floors of `w1_M` and `w1_C` for that many generations, from people's texts alone.

    Undefined where the control is: `w1_M` needs four people, `w1_C` three.

    >>> everyone = np.full((1, 8, 8), 0.5)
    >>> floors(Inputs(["x"], everyone, 8), 10)["w1_M"].low.tolist()
    [0.0]
    """
    own, n = splitting or Splitting(), inputs.n_people
    nothing = np.full(len(inputs.ids), np.nan)
    found = dict.fromkeys(FEWEST_PEOPLE, Floors(nothing, nothing))
    if n < min(FEWEST_PEOPLE.values()) or n_generations < 2:
        return found
    orders = people_orders(n, inputs.ids, own.seed, own.n_splits)
    half, scored = _Sizes(n // 2, n - n // 2), _Sizes(n_generations, n)
    smaller = _Sizes(max(2, n // 4), max(2, n // 4))
    high = _expected(inputs.matrices, orders, half)
    seen = _expected(inputs.matrices, orders, smaller)
    for name in (name for name, fewest in FEWEST_PEOPLE.items() if n >= fewest):
        shares = _fast_share(name, high[name], seen[name], half, smaller)
        found[name] = Floors(high[name] * _shrinking(name, shares, half, scored), high[name])
    return found


def _expected(matrices: Floats, orders: Integers, sizes: _Sizes) -> dict[str, Floats]:
    """The mean W1 of M and of C over splits; the two parts are taken from an order's two ends."""
    model, people = orders[:, :, : sizes.model], orders[:, :, -sizes.people :]
    human = within(matrices, people)
    sides = {"w1_M": within(matrices, model), "w1_C": between(matrices, model, people)}
    by_split = orders.shape[:2]
    return {name: mean(w1(own, human).reshape(by_split)) for name, own in sides.items()}


def _fast_share(name: str, high: Floats, seen: Floats, half: _Sizes, smaller: _Sizes) -> Floats:
    """Where between the slowest (0) and the fastest law (1) an input's W1 falls from size to size.

    Where people are too few for two sizes, the fastest law makes the low end lowest.
    """
    if smaller.model >= half.model:
        return np.ones_like(high)
    slow = np.log(smaller.slow() / half.slow())
    fast = np.log(smaller.fast(name) / half.fast(name))
    ratio = np.divide(seen, high, out=np.ones_like(high), where=(high > 0) & (seen > 0))
    share: Floats = np.clip((np.log(ratio) - slow) / (fast - slow), 0.0, 1.0)
    return share


def _shrinking(name: str, shares: Floats, half: _Sizes, scored: _Sizes) -> Floats:
    """By how much W1 falls from the halves to the scored sizes; more texts never raise it."""
    slow = np.log(min(scored.slow() / half.slow(), 1.0))
    fast = np.log(min(scored.fast(name) / half.fast(name), 1.0))
    factor: Floats = np.exp((1 - shares) * slow + shares * fast)
    return factor
