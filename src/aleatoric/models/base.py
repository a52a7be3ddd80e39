"""Model interfaces: sources of next words, teacher-forced models and text generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from aleatoric.errors import ModelError, UsageError, quoted
from aleatoric.types import Choices, Draws, Item, TextItem, Texts


class NamedModel(Protocol):
    """A model with a name and a version."""

    @property
    def label(self) -> str:
        """A short name for tables."""

    @property
    def version(self) -> str:
        """What identifies the model: a revision or a checksum, and its precision."""


@dataclass(frozen=True)
class Ask:
    """A request for next words: how to decode, how many draws per item, which seed.

    `tolerance` is the allowed gap between the bounds of an exact distance; `until` the standard
    error of an item's distance at which its sampling stops, with at most `samples` draws.
    """

    decoder: str
    samples: int
    seed: int
    tolerance: float = 0.02
    choices: Choices = field(default_factory=Choices)
    until: float | None = None


class WordModel(NamedModel, Protocol):
    """A source of next words."""

    @property
    def estimator(self) -> str:
        """How its distributions are obtained: recorded, mc, exact."""

    def notes(self) -> Sequence[str]:
        """Notes for readers of the results, complete after drawing: failures, costs, ..."""

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield words per item, as they are drawn."""


@runtime_checkable
class ComputedTogether(Protocol):
    """A model whose numbers depend, in their last digits, on the batch."""

    @property
    def together(self) -> int | None:
        """Contexts per batch of whole passages; `None` if an answer does not depend on it."""


Reads = Literal["text", "pairs"]
"""What a teacher-forced model reads: documents, or sentences with their translations."""


@dataclass(frozen=True, slots=True)
class Strip:
    """A run of reference tokens that is read in one pass.

    `given` are the decoder's input tokens and `wanted` the token after each of them; only the
    positions in `scored` count. `offset` is where `wanted` starts in its document or sentence.
    """

    group: str
    given: tuple[int, ...]
    wanted: tuple[int, ...]
    scored: tuple[int, ...]
    offset: int = 0
    source: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Forcing:
    """How a teacher-forced model is loaded and run; `None` leaves the choice to the model."""

    dtype: str = "float32"
    device: str | None = None
    bos: str = "auto"
    trust_remote_code: bool = False
    window: int | None = None
    stride: int | None = None


class ForcedModel(NamedModel, Protocol):
    """A model that is given the reference and predicts it token by token."""

    @property
    def reads(self) -> Reads:
        """Documents or sentence pairs."""

    @property
    def vocabulary_size(self) -> int:
        """The width of a row of logits."""

    @property
    def conventions(self) -> Mapping[str, str]:
        """Everything beyond the weights that changes a number, for the signature."""

    def strips(self, items: Sequence[Any]) -> list[list[Strip]]:
        """Return the strips of each item; none if nothing can be scored."""

    def logits(self, strips: Sequence[Strip]) -> Any:
        """Return a torch tensor [strips, positions, vocabulary], padded at the end."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A request for texts: how to decode, how many texts per input, how long.

    `template` is filled with the input; `chat` uses the model's chat template; `turns` joins the
    turns of a dialogue ("eos": by the model's end-of-text token).
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
    """How a text model is loaded; `device=None` leaves the choice to the model."""

    @property
    def dtype(self) -> str:
        """The precision of its weights."""

    @property
    def device(self) -> str | None:
        """Where it runs."""

    @property
    def bos(self) -> str:
        """How texts start: auto (as the tokenizer does), none, or add the BOS token."""

    @property
    def trust_remote_code(self) -> bool:
        """Whether code that comes with the weights may run."""


class TextModel(NamedModel, Protocol):
    """A generator of whole texts."""

    @property
    def conventions(self) -> Mapping[str, str]:
        """Everything beyond the weights that changes a text, for the signature."""

    def notes(self) -> Sequence[str]:
        """Notes for readers of the results, complete after all texts are written."""

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """Yield texts per input; an input's texts depend on the seed and its id alone."""


@dataclass
class TextTally:
    """Counts of the texts that the latest call has yielded, without those lost by a stopped run."""

    texts: int = 0
    cut: int = 0
    empty: int = 0
    short_of_room: int = 0

    def start(self) -> None:
        """Reset the counts: with another decoder a model is another system."""
        self.texts = self.cut = self.empty = self.short_of_room = 0

    def count(self, texts: Sequence[str], n_cut: int, is_short_of_room: bool = False) -> None:
        """Count the texts of one more input."""
        self.texts += len(texts)
        self.cut += n_cut
        self.empty += sum(not text for text in texts)
        self.short_of_room += is_short_of_room

    def add(self, counts: Mapping[str, int]) -> None:
        """Add counts made elsewhere, by name."""
        for name, number in counts.items():
            setattr(self, name, getattr(self, name) + number)

    def with_earlier(self, earlier: Mapping[str, int]) -> dict[str, int]:
        """Return the counts, by name, added to those of earlier calls."""
        return {name: number + earlier.get(name, 0) for name, number in asdict(self).items()}

    def notes(self, label: str) -> list[str]:
        """Return one sentence per kind of problem.

        >>> TextTally(10, 4, 1).notes("m")
        ['m: 4 of 10 texts were cut at the longest length', 'm: 1 of 10 texts is empty']
        """
        of, notes = f"of {self.texts} texts", []
        if self.cut:
            verb = "was" if self.cut == 1 else "were"
            notes.append(f"{label}: {self.cut} {of} {verb} cut at the longest length")
        if self.empty:
            notes.append(f"{label}: {self.empty} {of} {'is' if self.empty == 1 else 'are'} empty")
        if self.short_of_room:
            inputs = "input leaves" if self.short_of_room == 1 else "inputs leave"
            notes.append(
                f"{label}: {self.short_of_room} {inputs} less room than asked for in the model's "
                "window; the texts end there"
            )
        return notes


@runtime_checkable
class Tallied(Protocol):
    """A text model that counts the texts it yields; its notes include those of its tally."""

    @property
    def label(self) -> str:
        """A short name for tables."""

    @property
    def tally(self) -> TextTally:
        """The counts of the latest call so far."""


PLACE = "{input}"
_ROLES = ("user", "assistant")


def check_writing(ask: Writing) -> None:
    """Raise `UsageError` for an invalid request."""
    if PLACE not in ask.template:
        raise UsageError(
            f"the template {quoted(ask.template)} has no {PLACE}; add it where the input goes."
        )
    if ask.samples < 1 or ask.max_new_tokens < 1:
        raise UsageError(
            "the numbers of texts per input and of new tokens per text must be at least 1."
        )
    if "" in ask.stop:
        raise UsageError("a stop string is empty; leave it out.")


def joined(turns: Sequence[str], ask: Writing, end: str | None, is_continued: bool) -> str:
    """Join the turns of an input into one text, in the template.

    A dialogue that a model continues also ends with the separator, so that a new turn follows; an
    input with a single turn never does.

    >>> joined(("Hi.", "Hello."), Writing(turns="newline"), None, is_continued=True)
    'Hi.\\nHello.\\n'
    >>> joined(("Big words.",), Writing(template="Simplify: {input}"), "</s>", is_continued=True)
    'Simplify: Big words.'
    """
    between = ""
    if len(turns) > 1:
        if ask.turns == "eos" and end is None:
            raise ModelError(
                "the model has no known end-of-text token to join turns with; use turns=newline."
            )
        between = {"eos": end or "", "newline": "\n"}.get(ask.turns, ask.turns)
    after = between if is_continued and ask.template.endswith(PLACE) else ""
    return ask.template.replace(PLACE, between.join(turns) + after)


def messages_of(turns: Sequence[str], ask: Writing) -> list[dict[str, str]]:
    """Return an input as chat messages: one message, or a dialogue that ends with the user's turn.

    A custom template refers to the whole dialogue, which is then one message.

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
    """Render an input in a tokenizer's chat template, up to where the answer starts."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise UsageError(f"{label} has no chat template; leave --chat out.")
    text: str = tokenizer.apply_chat_template(
        messages_of(turns, ask), tokenize=False, add_generation_prompt=True
    )
    return text


def finished(text: str, stop: Sequence[str]) -> str:
    """Cut a text at the first stop string and strip white space."""
    places = [text.find(mark) for mark in stop]
    return text[: min((place for place in places if place >= 0), default=len(text))].strip()


T = TypeVar("T")


def whole_passages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield whole passages (items with the same `group`), at least `size` items at a time.

    >>> items = [Item(f"{g}:{i}", g, "There", ()) for g in "abc" for i in range(2)]
    >>> [[item.id for item in part] for part in whole_passages(items, 3)]
    [['a:0', 'a:1', 'b:0', 'b:1'], ['c:0', 'c:1']]
    """
    part: list[T] = []
    for _, passage in groupby(items, key=attrgetter("group")):
        part.extend(passage)
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield `size` items at a time."""
    remaining = iter(items)
    while page := list(islice(remaining, size)):
        yield page


def recover_memory(error: Exception, is_smallest: bool, what: str, fix: str) -> None:
    """Release memory after it ran out; raise other errors, or if nothing smaller can be run."""
    import torch

    if not is_out_of_memory(error):
        raise error
    if is_smallest:
        problem = f"out of memory with one {what} at a time"
        raise ModelError(f"{problem}; use a smaller model or {fix}.") from error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch means that memory ran out."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "alloc" in str(error) and "memory" in str(error)


def gpu_memory(device: Any) -> int:
    """Return the memory of a GPU in bytes; 8 GiB for devices that do not report it."""
    import torch

    if torch.device(device).type != "cuda":
        return 8 << 30
    total: int = torch.cuda.get_device_properties(device).total_memory
    return total
