"""What a model must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

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


Reads = Literal["text", "pairs"]
"""What a teacher-forced model reads: documents, or sentences with their translations."""


@dataclass(frozen=True, slots=True)
class Strip:
    """A run of reference tokens to be read in one pass.

    `given` are the tokens that a decoder reads and `wanted` those that follow each of them; only
    the places in `scored` count. `offset` is where `wanted` begins in its document or sentence.
    """

    group: str
    given: tuple[int, ...]
    wanted: tuple[int, ...]
    scored: tuple[int, ...]
    offset: int = 0
    source: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Forcing:
    """How a teacher-forced model is loaded and asked; `None` leaves the choice to the model."""

    dtype: str = "float32"
    device: str | None = None
    bos: str = "none"
    trust_remote_code: bool = False
    window: int | None = None
    stride: int | None = None


class ForcedModel(Protocol):
    """A model that is given the reference and says, token by token, what it expected."""

    @property
    def label(self) -> str:
        """A short name for tables."""
        ...

    @property
    def version(self) -> str:
        """What pins the model: a revision or a checksum, and its precision."""
        ...

    @property
    def reads(self) -> Reads:
        """Documents or sentence pairs."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """The width of a row of logits."""
        ...

    @property
    def conventions(self) -> Mapping[str, str]:
        """Everything beyond the weights that changes a number, for the signature."""
        ...

    def strips(self, items: Sequence[Any]) -> list[list[Strip]]:
        """What is read of each item (of the kind it reads); none where nothing can be scored."""
        ...

    def logits(self, strips: Sequence[Strip]) -> Any:
        """A torch tensor [strips, positions, vocabulary], padded at the end."""
        ...
