"""The probe interface (distances between texts), and probes made from user functions."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from shlex import quote
from typing import Any, Literal, Protocol, TypeGuard

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.registry import error_line, function_at
from aleatoric.types import Floats


@dataclass(frozen=True, slots=True)
class Block:
    """The texts of one input: those of people first, then those of each system."""

    texts: tuple[str, ...]
    sizes: tuple[int, ...]
    """The numbers of texts of people and of each system."""

    def wanted(self) -> Iterator[tuple[int, int]]:
        """The pairs i < j to compare: within each part, and people with each system."""
        people, start = self.sizes[0], 0
        for size in self.sizes:
            others = [i for i in range(start + size) if i < people or i >= start]
            yield from ((i, j) for j in range(start, start + size) for i in others if i < j)
            start += size


NegativeType = Literal["strict", "yes", "unknown"]
"""What a distance makes of the energy distance between two populations of texts.

strict: a metric, 0 only for two equal distributions of what the probe sees in a text (its vector,
its number); yes: at least 0, and 0 for some distributions that differ; unknown: it may be below 0.
"""

NEGATIVE_TYPE = "negative_type"
"""The name of this in signatures."""


@dataclass(frozen=True, eq=False)
class Window:
    """What a model reads of a text, or of a pair of texts: its first `limit` tokens."""

    model: str
    limit: int
    """The most tokens, special ones included."""
    n_special: int
    """The number of special tokens of a text, or of a pair."""
    count: Callable[[list[str]], list[int]]
    """Texts -> their numbers of tokens, without special ones."""
    of_pairs: bool = False

    def sizes(self, blocks: Sequence[Block]) -> Iterator[int]:
        """Yield the number of tokens of each text that is read, or of each pair.

        The number of a text that cannot be too long may be 0.
        """
        lengths = self._lengths({text for block in blocks for text in block.texts})
        for block in blocks:
            if not self.of_pairs:
                yield from (self.n_special + lengths[t] for t in block.texts if t in lengths)
                continue
            for a, b in ((block.texts[i], block.texts[j]) for i, j in block.wanted()):
                if a != b and a in lengths and b in lengths:
                    yield self.n_special + lengths[a] + lengths[b]

    def _lengths(self, texts: Collection[str]) -> dict[str, int]:
        """Return the numbers of tokens of texts that are not white space only."""
        lengths = {text: 0 for text in texts if text.strip()}
        # An ASCII character is at most one token, and a tokenizer may start a text with another.
        most = 0 if self.of_pairs else self.limit - self.n_special - 1
        counted = sorted(text for text in lengths if len(text) > most or not text.isascii())
        return lengths | dict(zip(counted, self.count(counted), strict=True))


class Probe(Protocol):
    """A distance between two texts, computed for many texts at once.

    Three attributes are optional: `symmetric`, False if the distance depends on the order of the
    two texts; `negative_type`, unknown unless stated; and `window`, if its model cuts long texts.
    """

    @property
    def name(self) -> str:
        """The name in tables and metrics, such as lexical-1."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest possible distance."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Everything that changes a distance (tokenizer, tagger, encoder), for the signature."""

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """The matrix of distances per block, from row to column; NaN if undefined or not wanted."""


class OneText(Probe, Protocol):
    """A probe that compares two texts by a number of each."""

    def values(self, texts: Sequence[str]) -> Floats:
        """The number of each text; NaN is undefined."""


def is_one_text(probe: Probe) -> TypeGuard[OneText]:
    """Whether a probe is a statistic of one text."""
    return hasattr(probe, "values")


@dataclass(frozen=True)
class Distance:
    """A probe made of its parts, as `Probe` describes them."""

    name: str
    facts: Mapping[str, str]
    matrices: Callable[[Sequence[Block]], list[Floats]]
    bounds: tuple[float, float] = (0.0, 1.0)
    symmetric: bool = True
    negative_type: NegativeType = "unknown"
    window: Window | None = None


def both_ways(probe: Probe) -> Distance:
    """Make an asymmetric probe symmetric: the distance of a pair is the mean of both directions.

    Means over pairs i < j are then means over all ordered pairs. A pair with an undefined direction
    is undefined.
    """

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        return [(matrix + matrix.T) / 2 for matrix in probe.matrices(blocks)]

    facts = {**probe.facts, "directions": "mean-of-both"}
    about = probe.bounds, True, negative_type(probe), window_of(probe)
    return Distance(probe.name, facts, matrices, *about)


def is_symmetric(probe: Probe) -> bool:
    """Whether the distance does not depend on the order of the two texts."""
    return bool(getattr(probe, "symmetric", True))


def negative_type(probe: Probe) -> NegativeType:
    """What a probe states about its distance; `unknown` if it states nothing."""
    stated: NegativeType = getattr(probe, "negative_type", "unknown")
    return stated


def window_of(probe: Probe) -> Window | None:
    """What a probe's model reads of a text; `None` if all of it, or not known."""
    window: Window | None = getattr(probe, "window", None)
    return window


OfMany = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
ANY = (0.0, float("inf"))
BATCH = 4096
"""The number of pairs per call of a batched function."""


@dataclass(frozen=True)
class Batched:
    """A function of two lists of texts that returns one distance per pair."""

    function: OfMany
    bounds: tuple[float, float] = ANY
    symmetric: bool = True
    negative_type: NegativeType = "unknown"


def probe_of(name: str, facts: Mapping[str, str], given: Batched) -> Distance:
    """Make a probe from a function, called once per wanted pair, or once per direction."""

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        return _matrices(name, given, blocks)

    about = given.bounds, given.symmetric, given.negative_type
    return Distance(name, facts, matrices, *about)


def _matrices(name: str, given: Batched, blocks: Sequence[Block]) -> list[Floats]:
    """Distances per block; NaN is undefined; 0 from a text to itself."""
    matrices = [np.full((len(block.texts),) * 2, np.nan) for block in blocks]
    for matrix in matrices:
        np.fill_diagonal(matrix, 0.0)
    pairs = _pairs(blocks, given.symmetric)
    while batch := list(islice(pairs, BATCH)):
        left = [blocks[k].texts[i] for k, i, _ in batch]
        right = [blocks[k].texts[j] for k, _, j in batch]
        for (k, i, j), value in zip(batch, _distances(name, given, left, right), strict=True):
            matrices[k][i, j] = value
            if given.symmetric:
                matrices[k][j, i] = value
    return matrices


def _pairs(blocks: Sequence[Block], symmetric: bool) -> Iterator[tuple[int, int, int]]:
    """Yield block, row and column of each distance to compute."""
    for k, block in enumerate(blocks):
        for i, j in block.wanted():
            yield from ((k, i, j),) if symmetric else ((k, i, j), (k, j, i))


def _distances(name: str, given: Batched, left: list[str], right: list[str]) -> Floats:
    try:  # user code may raise anything or return a non-number
        values = numbers(given.function(left, right))
    except (Exception, SystemExit) as error:
        problem = f"the probe {name} failed on a pair ({error_line(error)})"
        fix = "give a function of two texts that returns a number"
        raise UsageError(f"{problem}; {fix}.") from error
    if values.shape != (len(left),):
        problem = f"returned an array of shape {values.shape} for {len(left)} pairs"
        raise UsageError(f"the probe {name} {problem}; return one number per pair.")
    low, high = given.bounds
    wrong = np.isinf(values) | (values < low) | (values > high)
    if wrong.any():
        problem = f"returned {values[wrong][0]}, which is not between {low} and {high}"
        fix = "return NaN for an undefined pair, or state other bounds"
        raise UsageError(f"the probe {name} {problem}; {fix}.")
    return values


def numbers(values: Any) -> Floats:
    """Return numbers as an array; raises for None and text, which NumPy would convert."""
    found = np.asarray(values)
    is_real = found.dtype.kind in "biuf"
    return np.asarray(found if is_real else array("d", found.tolist()), dtype=np.float64)


def probe_from(name: str, candidate: Any) -> Probe:
    """Make a probe from a probe, a `Batched` function, or a function of two texts."""
    # A probe class is not a probe: it must be instantiated.
    if hasattr(candidate, "matrices") and not isinstance(candidate, type):
        probe: Probe = candidate
        return probe
    if isinstance(candidate, Batched):
        return probe_of(name, _facts(candidate.function), candidate)
    if not callable(candidate):
        raise UsageError(f"the probe {name} is not a function of two texts; give one.")
    symmetric = bool(getattr(candidate, "symmetric", True))
    function = lambda *texts: list(map(candidate, *texts))  # noqa: E731
    return probe_of(name, _facts(candidate), Batched(function, symmetric=symmetric))


def _facts(function: Any) -> Mapping[str, str]:
    module = getattr(function, "__module__", "")
    return {"function": f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"}


def probe_at(place: str) -> Probe:
    """The probe of the function at `module:function`."""
    return probe_from(place, function_at(place, "probe"))


_WITH_MODEL = re.compile(
    "(nli|nli_clusters|entailment|perplexity|log_probability):|(semantic|euclidean)@"
)
"""The names of built-in probes that may contain a colon: MODEL is not code."""


def is_code(name: str) -> bool:
    """Whether a probe is the user's function, `module:function` or `score:module:function`."""
    return ":" in name and not _WITH_MODEL.match(name)


def disallowed_probes(probes: Iterable[str], allowed: Collection[str]) -> list[str]:
    """The probes that are user code and that the current command does not allow.

    >>> disallowed_probes(["lexical-1", "mine:length", "theirs:gap"], ["mine:length"])
    ['theirs:gap']
    """
    return [name for name in probes if is_code(name) and name not in allowed]


def probe_options(probes: Iterable[str]) -> str:
    """The command-line options that allow these probes."""
    return " ".join(f"--probe {quote(name)}" for name in probes)


def check_allowed_probes(
    probes: Iterable[str], allowed: Collection[str], run: str, command: str = "score"
) -> None:
    """Refuse to run user code that only the run names, not the command."""
    if names := disallowed_probes(probes, allowed):
        fix = f"if you trust it, run aleatoric {command} {quote(run)} {probe_options(names)}"
        raise UsageError(f"{run}: uses user code as a probe, {', '.join(names)}; {fix}.")


def check_allowed_rule(rule: str | None, allowed: str | None, run: str) -> None:
    """Refuse to run a word rule that only the run names, not the command."""
    if rule is not None and is_code(rule) and rule != allowed:
        fix = f"if you trust it, run aleatoric resume {quote(run)} --word-rule {quote(rule)}"
        raise UsageError(f"{run}: uses user code as its word rule, {rule}; {fix}.")


def check_known_probes(allowed: Iterable[str], probes: Collection[str]) -> None:
    """Refuse to allow probes that the run does not have."""
    for name in allowed:
        if name not in probes:
            raise UsageError(f"--probe {name} is not a probe of the run; leave it out.")
