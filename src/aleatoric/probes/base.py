"""What a probe must offer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Protocol

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.registry import error_line, function_at
from aleatoric.types import Floats


@dataclass(frozen=True, slots=True)
class Block:
    """The texts of one input: those of people first, then those of each system in its turn.

    `sizes` says how many belong to each of them, people first.

    >>> block = Block(("a", "b", "c"), (2, 1))
    >>> list(block.wanted())
    [(0, 1), (0, 2), (1, 2)]
    """

    texts: tuple[str, ...]
    sizes: tuple[int, ...]

    def wanted(self) -> Iterator[tuple[int, int]]:
        """The pairs i < j that are looked at: within each part, and people against each system."""
        people, start = self.sizes[0], 0
        for size in self.sizes:
            stop = start + size
            own = range(stop) if start == 0 else (*range(people), *range(start, stop))
            first = 0 if start == 0 else start
            yield from ((i, j) for j in range(first, stop) for i in own if i < j)
            start = stop


class Probe(Protocol):
    """A distance between two texts, computed for many texts at once."""

    @property
    def name(self) -> str:
        """Its name in tables and metrics, as lexical-1."""
        ...

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest distance there can be."""
        ...

    @property
    def facts(self) -> Mapping[str, str]:
        """Everything that changes a distance (tokeniser, tagger, encoder), for the signature."""
        ...

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Block by block the symmetric matrix of distances; NaN where undefined or not wanted."""
        ...


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


def is_code(name: str) -> bool:
    """Whether a probe is a function at `module:function`, and none of an installed package's.

    >>> is_code("lexical-1"), is_code("mine:length")
    (False, True)
    """
    return ":" in name


def unsaid(probes: Iterable[str], said: Collection[str]) -> list[str]:
    """The probes that are code and were not named by who is here now.

    >>> unsaid(["lexical-1", "mine:length", "theirs:gap"], ["mine:length"])
    ['theirs:gap']
    """
    return [name for name in probes if is_code(name) and name not in said]


def options_of(probes: Iterable[str]) -> str:
    """How they are said on the command line.

    >>> options_of(["mine:length"])
    '--probe mine:length'
    """
    return " ".join(f"--probe {quote(name)}" for name in probes)


def check_said(
    probes: Iterable[str], said: Collection[str], run: str, command: str = "score"
) -> None:
    """Refuse to call what only a run names.

    >>> check_said(["theirs:gap"], [], "runs/theirs")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: runs/theirs: is scored by a function that it names, theirs:gap; ...
    """
    if names := unsaid(probes, said):
        raise UsageError(
            f"{run}: is scored by a function that it names, {', '.join(names)}; if you trust that "
            f"code, name it yourself: aleatoric {command} {quote(run)} {options_of(names)}."
        )


def check_said_rule(rule: str | None, said: str | None, run: str) -> None:
    """Refuse to call a word rule that only a run names.

    >>> check_said_rule("corrected", None, "runs/theirs")
    >>> check_said_rule("theirs:cut", None, "runs/theirs")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: runs/theirs: cuts words by a function that it names, theirs:cut; \
if you trust that code, name it yourself: aleatoric resume runs/theirs --word-rule theirs:cut.
    """
    if rule is not None and is_code(rule) and rule != said:
        raise UsageError(
            f"{run}: cuts words by a function that it names, {rule}; if you trust that code, name "
            f"it yourself: aleatoric resume {quote(run)} --word-rule {quote(rule)}."
        )


def check_known(said: Iterable[str], probes: Collection[str]) -> None:
    """Refuse what is said of a run that has no such probe.

    >>> check_known(["mine:length"], ["lexical-1", "mine:length"])
    """
    for name in said:
        if name not in probes:
            raise UsageError(f"--probe {name} is none of the run's; leave it out.")
