"""What a model must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aleatoric.types import Choices, Draws, Item


@dataclass(frozen=True)
class Ask:
    """What is asked of a model: how to decode, how many draws an item, from which seed.

    `tolerance` is how far apart the bounds of an exact distance may be.
    """

    decoder: str
    samples: int
    seed: int
    tolerance: float = 0.02
    choices: Choices = field(default_factory=Choices)


class WordModel(Protocol):
    """A source of next words."""

    @property
    def label(self) -> str:
        """A short name for tables."""
        ...

    @property
    def version(self) -> str:
        """What pins the model: a revision or a checksum."""
        ...

    @property
    def estimator(self) -> str:
        """How its distributions come about: recorded, mc, exact."""
        ...

    def notes(self) -> Sequence[str]:
        """What a reader of its numbers should know, once it has drawn: failures, costs, ..."""
        ...

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for items, as they come."""
        ...
