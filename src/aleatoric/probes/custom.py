"""A user's own distance: a function of two texts, or of two lists of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.probes.base import Block, Probe
from aleatoric.types import Floats
from aleatoric.user_code import error_line, function_at

OfTwo = Callable[[str, str], float]
OfMany = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
ANY = (0.0, float("inf"))
BATCH = 4096
"""Pairs that a batched function is given at once."""


@dataclass(frozen=True)
class Batched:
    """A function of two lists of texts that gives one distance a pair.

    >>> lengths = Batched(lambda a, b: [abs(len(x) - len(y)) for x, y in zip(a, b)])
    >>> lengths.function(["a"], ["bcd"])
    [2]
    """

    function: OfMany
    bounds: tuple[float, float] = ANY


@dataclass(frozen=True)
class Custom:
    """A probe made of a user's symmetric function; each wanted pair is asked for once."""

    name: str
    function: OfMany
    facts: Mapping[str, str]
    bounds: tuple[float, float] = ANY

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Block by block the distances; NaN is undefined; 0 from a text to itself."""
        found = [_zero_diagonal(len(block.texts)) for block in blocks]
        pairs = ((k, i, j) for k, block in enumerate(blocks) for i, j in block.wanted())
        for some in _batches(pairs):
            left = [blocks[k].texts[i] for k, i, _ in some]
            right = [blocks[k].texts[j] for k, _, j in some]
            for (k, i, j), value in zip(some, self._asked(left, right), strict=True):
                found[k][i, j] = found[k][j, i] = value
        return found

    def _asked(self, left: list[str], right: list[str]) -> Floats:
        values = self._called(left, right)
        if values.shape != (len(left),):
            raise UsageError(
                f"the probe {self.name} gave an array of shape {values.shape} for {len(left)} "
                "pairs; give one number a pair."
            )
        low, high = self.bounds
        wrong = np.isinf(values) | (values < low) | (values > high)
        if wrong.any():
            raise UsageError(
                f"the probe {self.name} gave {values[wrong][0]}, which is not between {low} and "
                f"{high}; give NaN for an undefined pair, or state other bounds."
            )
        return values

    def _called(self, left: list[str], right: list[str]) -> Floats:
        """What the user's code gives: it may raise anything, and give what is no number."""
        try:
            return np.asarray(self.function(left, right), dtype=np.float64)
        except Exception as error:
            raise UsageError(
                f"the probe {self.name} failed on a pair ({error_line(error)}); give a function of "
                "two texts that returns a number."
            ) from error


def probe_from(name: str, given: Any) -> Probe:
    """A probe of what a user gave: a probe, a `Batched` function, or a function of two texts.

    >>> probe = probe_from("length", lambda a, b: abs(len(a) - len(b)))
    >>> probe.matrices([Block(("a", "bcd"), (2,))])[0].tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    # A class of probes is none yet.
    if hasattr(given, "matrices") and not isinstance(given, type):
        found: Probe = given
        return found
    if isinstance(given, Batched):
        return Custom(name, given.function, _facts(given.function), given.bounds)
    if not callable(given):
        raise UsageError(f"the probe {name} is no function of two texts; give one.")
    return Custom(name, _one_by_one(given), _facts(given))


def probe_at(place: str) -> Probe:
    """The probe of the function at `module:function`.

    >>> probe_at("difflib:no_such_function")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: there is no function no_such_function in difflib; ...
    """
    return probe_from(place, function_at(place, "probe"))


def _one_by_one(function: OfTwo) -> OfMany:
    return lambda left, right: [function(a, b) for a, b in zip(left, right, strict=True)]


def _facts(function: Any) -> Mapping[str, str]:
    module = getattr(function, "__module__", "")
    return {"function": f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"}


def _zero_diagonal(size: int) -> Floats:
    found = np.full((size, size), np.nan)
    np.fill_diagonal(found, 0.0)
    return found


Place = tuple[int, int, int]


def _batches(pairs: Iterator[Place]) -> Iterator[list[Place]]:
    some: list[Place] = []
    for pair in pairs:
        some.append(pair)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some
