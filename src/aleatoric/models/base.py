"""What a model must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from aleatoric.types import Choices, Draws, Item, TextItem, Texts


@dataclass(frozen=True)
class Ask:
    """What is asked of a model: how to decode, how many draws an item, from which seed.

    `tolerance` is how far apart the bounds of an exact distance may be; `until` the standard error
    of an item's distance at which its sampling stops, with `samples` as the most draws.
    """

    decoder: str
    samples: int
    seed: int
    tolerance: float = 0.02
    choices: Choices = field(default_factory=Choices)
    until: float | None = None


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


@runtime_checkable
class ComputedTogether(Protocol):
    """A model whose numbers depend, in their last digits, on what it computes together."""

    @property
    def together(self) -> int | None:
        """Contexts in a part of whole passages; `None` where an answer does not depend on it."""
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
    bos: str = "auto"
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


@dataclass(frozen=True, slots=True)
class Writing:
    """What is asked of a generator: how to decode, how many texts an input, how long.

    `template` is filled with the input; `chat` puts it through the model's chat template; `turns`
    joins the turns of a dialogue ("eos": by the model's end-of-text token).
    """

    decoder: str = "ancestral"
    samples: int = 10
    seed: int = 0
    max_new_tokens: int = 100
    template: str = "{input}"
    chat: bool = False
    turns: str = "eos"
    stop: tuple[str, ...] = ()


class LoadOptions(Protocol):
    """How a model of texts is loaded; `device=None` leaves the choice to the model."""

    @property
    def dtype(self) -> str:
        """The precision of its weights."""
        ...

    @property
    def device(self) -> str | None:
        """Where it runs."""
        ...

    @property
    def bos(self) -> str:
        """How texts begin: auto (as the tokenizer does), none, or add the BOS token."""
        ...

    @property
    def trust_remote_code(self) -> bool:
        """Whether code that comes with the weights may run."""
        ...


class TextModel(Protocol):
    """A writer of whole texts."""

    @property
    def label(self) -> str:
        """A short name for tables."""
        ...

    @property
    def version(self) -> str:
        """What pins the model: a revision or a checksum, and its precision."""
        ...

    @property
    def conventions(self) -> Mapping[str, str]:
        """Everything beyond the weights that changes a text, for the signature."""
        ...

    def notes(self) -> Sequence[str]:
        """What a reader of its numbers should know, once it has written."""
        ...

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """Texts for inputs, as they come; an input's texts depend on the seed and its id alone."""
        ...
