"""What a probe must offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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
