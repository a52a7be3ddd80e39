"""What a model must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from aleatoric.errors import ModelError, UsageError, quoted
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


PLACE = "{input}"
_ROLES = ("user", "assistant")


def check_writing(ask: Writing) -> None:
    """Refuse what cannot be asked.

    >>> check_writing(Writing(template="Simplify: {input}"))
    """
    if PLACE not in ask.template:
        raise UsageError(
            f"the template {quoted(ask.template)} has no {PLACE}; write it in its place."
        )
    if ask.samples < 1 or ask.max_new_tokens < 1:
        raise UsageError("texts an input and new tokens a text are whole numbers from 1 up.")
    if "" in ask.stop:
        raise UsageError("a stop string is empty; leave it out.")


def joined(turns: Sequence[str], ask: Writing, end: str | None, is_continued: bool) -> str:
    """The turns of an input as one text, in the template.

    A dialogue that a model continues ends with the separator too, so that what follows is a new
    turn and no more of the last one; an input of one part is never followed by it.

    >>> joined(("Hi.", "Hello."), Writing(turns="newline"), None, is_continued=True)
    'Hi.\\nHello.\\n'
    >>> joined(("Big words.",), Writing(template="Simplify: {input}"), "</s>", is_continued=True)
    'Simplify: Big words.'
    """
    between = separator(ask.turns, end) if len(turns) > 1 else ""
    is_last = ask.template.endswith(PLACE)
    after = between if is_continued and is_last else ""
    return ask.template.replace(PLACE, between.join(turns) + after)


def separator(turns: str, end: str | None) -> str:
    """What stands between turns: the end-of-text token, a newline, or the string itself.

    >>> separator("eos", "</s>"), separator("newline", None), separator(" | ", None)
    ('</s>', '\\n', ' | ')
    """
    if turns == "eos" and end is None:
        raise ModelError(
            "no end-of-text token of the model is known to join turns by; use turns=newline."
        )
    return {"eos": end or "", "newline": "\n"}.get(turns, turns)


def messages_of(turns: Sequence[str], ask: Writing) -> list[dict[str, str]]:
    """An input as a chat: one message, or a dialogue whose last turn is the user's.

    A template of one's own speaks of the whole dialogue, which then stands in one message.

    >>> [m["role"] for m in messages_of(("Hi.", "Hello.", "You?"), Writing())]
    ['user', 'assistant', 'user']
    >>> messages_of(("Hi.", "Hello."), Writing(template="Go on: {input}"))
    [{'role': 'user', 'content': 'Go on: Hi.\\nHello.'}]
    """
    if len(turns) == 1 or ask.template != PLACE:
        content = ask.template.replace(PLACE, "\n".join(turns))
        return [{"role": "user", "content": content}]
    back = range(len(turns) - 1, -1, -1)
    return [{"role": _ROLES[i % 2], "content": turn} for i, turn in zip(back, turns, strict=True)]


def chat_text(tokenizer: Any, turns: Sequence[str], ask: Writing, label: str) -> str:
    """An input in the chat template of a tokenizer, up to where the answer begins."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise UsageError(f"{label} has no chat template; leave --chat out.")
    found: str = tokenizer.apply_chat_template(
        messages_of(turns, ask), tokenize=False, add_generation_prompt=True
    )
    return found


def finished(text: str, stop: Sequence[str]) -> str:
    """A text up to the first stop string, without white space around it.

    >>> finished(" Near Marin.\\n\\nQ: next", ("\\n\\n", "Q:"))
    'Near Marin.'
    """
    places = [text.find(mark) for mark in stop]
    return text[: min((place for place in places if place >= 0), default=len(text))].strip()


T = TypeVar("T")


class Grouped(Protocol):
    """Something of a passage."""

    @property
    def group(self) -> str:
        """The passage's name."""
        ...


G = TypeVar("G", bound=Grouped)


def whole_passages(items: Iterable[G], size: int) -> Iterator[list[G]]:
    """Whole passages, taken together until there are enough contexts to keep a device busy.

    >>> from aleatoric.types import Item
    >>> items = [Item(f"{g}:{i}", g, "There", ()) for g in "abc" for i in range(2)]
    >>> [[item.id for item in part] for part in whole_passages(items, 3)]
    [['a:0', 'a:1', 'b:0', 'b:1'], ['c:0', 'c:1']]
    """
    part: list[G] = []
    for _, passage in groupby(items, key=lambda item: item.group):
        part.extend(passage)
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many items at a time.

    >>> list(pages("abc", 2))
    [['a', 'b'], ['c']]
    """
    waiting = iter(items)
    while page := list(islice(waiting, size)):
        yield page


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch says that memory ran out.

    >>> is_out_of_memory(ValueError("no"))
    False
    """
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "alloc" in str(error) and "memory" in str(error)


def free_memory() -> None:
    """Give back what torch keeps for later."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def gpu_memory(device: Any) -> int:
    """Return the memory of a GPU in bytes; 8 GiB for other devices, which do not tell."""
    import torch

    if torch.device(device).type != "cuda":
        return 8 << 30
    total: int = torch.cuda.get_device_properties(device).total_memory
    return total
