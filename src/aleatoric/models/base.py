"""What a model must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from aleatoric.types import Draws, Item


@dataclass(frozen=True)
class Ask:
    """What is asked of a model: how to decode, how many draws an item, from which seed."""

    decoder: str
    samples: int
    seed: int


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

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for items, as they come."""
        ...
