"""Model interfaces: sources of next words, teacher-forced models and text generators."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, groupby, islice
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from aleatoric.errors import ModelError, ModelUsageError, UsageError, counted, quoted
from aleatoric.models.chat import word_prompt
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
    """A source of next words.

    A model whose numbers depend, in their last digits, on the batch has the attribute `together`:
    contexts per batch of whole passages, or `None` if an answer does not depend on it.
    """

    @property
    def estimator(self) -> str:
        """How its distributions are obtained: recorded, mc, exact."""

    def notes(self) -> Sequence[str]:
        """Notes for readers of the results, complete after drawing: failures, costs, ..."""

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield words per item, as they are drawn."""


class WithoutNotes:
    """A model that has nothing to say about its results."""

    def notes(self) -> Sequence[str]:
        """No notes."""
        return ()


Reads = Literal["text", "pairs", "rows"]
"""What a teacher-forced model reads: documents, sentences with translations, or recorded rows."""


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


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded; `device=None` takes a GPU if there is one, `auto` several."""

    dtype: str = "float32"
    device: str | None = None
    bos: str = "auto"
    """How texts start: auto (as the tokenizer does), none, or add the BOS token."""
    trust_remote_code: bool = False
    quantize: str | None = field(default=None, kw_only=True)
    """4bit or 8bit weights; `None` keeps those of the checkpoint."""
    source_language: str | None = field(default=None, kw_only=True)
    target_language: str | None = field(default=None, kw_only=True)
    """Languages of a multilingual translation model, by the codes of its tokenizer."""


CONTEXT = "{context}"
SOURCE = "{source}"


def check_template(template: str, place: str, where: str) -> None:
    """Raise for a template without its place, or with other names in braces."""
    if place not in template:
        raise UsageError(f"the template {quoted(template)} has no {place}; add it where {where}.")
    if others := set(re.findall(r"\{[^\W\d]\w*\}", template)) - {place}:
        fix = f"{place} is the only name that is filled in"
        raise UsageError(f"the template {quoted(template)} has {min(others)}; {fix}.")


@dataclass(frozen=True, slots=True)
class Prompting:
    """What a local model reads of a context: itself, a template, or a turn of a chat.

    `template` is a text that contains {context}, or `paper`: the paper's prompt for chat models.
    """

    template: str = CONTEXT
    chat: bool = False
    system: str = ""

    def __post_init__(self) -> None:
        if self.template != "paper":
            check_template(self.template, CONTEXT, "the context goes, or write --template paper")
        if self.system and not self.chat:
            raise UsageError("--system is a message of a chat; add --chat.")

    def __str__(self) -> str:
        """For the signature: what is not the default, long texts by their hashes."""
        texts = {"template": self.template, "system": self.system}
        changed = {name: text for name, text in texts.items() if text not in (CONTEXT, "")}
        named = (f"{k}={v if v == 'paper' else f'#{text_key(v)}'}" for k, v in changed.items())
        return ",".join([*(["chat"] if self.chat else []), *named])

    def text(self, context: str, tokenizer: Any, label: str) -> str:
        """Return what the model reads, up to where the answer starts."""
        template = word_prompt(CONTEXT) if self.template == "paper" else self.template
        text = template.replace(CONTEXT, context)
        if not self.chat:
            return text
        ask = Writing(chat=True, system=self.system)
        return chat_text(tokenizer, (text,), ask, label)


def text_key(text: str) -> str:
    """Return a short hash of a text, for signatures."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Forcing(LoadOptions):
    """How a teacher-forced model is loaded and run; `None` leaves the choice to the model."""

    window: int | None = None
    stride: int | None = None
    template: str = SOURCE
    """What an encoder reads of a source sentence."""


class ForcedModel(NamedModel, Protocol):
    """A model that is given the reference and predicts it token by token."""

    @property
    def reads(self) -> Reads:
        """Documents, sentence pairs or recorded rows."""

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
    system: str = ""
    logprobs: bool = False
    """Whether texts have log-probabilities, if the model gives any under the decoder."""
    most_recorded: int | None = None
    """Number of recorded texts per input to use, the first ones; by default all."""


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
        of = f"of {self.texts} texts"
        cut = f"{self.cut} {of} {'was' if self.cut == 1 else 'were'} cut at the longest length"
        empty = f"{self.empty} {of} {'is' if self.empty == 1 else 'are'} empty"
        short = f"{counted(self.short_of_room, 'input', 'leaves', 'leave')} less room than asked"
        short += " for in the model's window; the texts end there"
        notes = {cut: self.cut, empty: self.empty, short: self.short_of_room}
        return [f"{label}: {note}" for note, count in notes.items() if count]


@runtime_checkable
class Tallied(NamedModel, Protocol):
    """A text model that counts the texts it yields; its notes include those of its tally."""

    @property
    def tally(self) -> TextTally:
        """The counts of the latest call so far."""


PLACE = "{input}"


def check_writing(ask: Writing) -> None:
    """Raise `UsageError` for an invalid request."""
    check_template(ask.template, PLACE, "the input goes")
    if ask.samples < 1 or ask.max_new_tokens < 1:
        raise UsageError(
            "the numbers of texts per input and of new tokens per text must be at least 1."
        )
    if ask.system and not ask.chat:
        raise UsageError("--system is a message of a chat; add --chat.")
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
            fix = "use turns=newline"
            raise ModelError(f"the model has no known end-of-text token to join turns with; {fix}.")
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
    start = [{"role": "system", "content": ask.system}] if ask.system else []
    if len(turns) == 1 or ask.template != PLACE:
        return [*start, {"role": "user", "content": ask.template.replace(PLACE, "\n".join(turns))}]
    roles = islice(cycle(("user", "assistant")), 1 - len(turns) % 2, None)
    pairs = zip(roles, turns, strict=False)
    return [*start, *({"role": role, "content": turn} for role, turn in pairs)]


def chat_text(tokenizer: Any, turns: Sequence[str], ask: Writing, label: str) -> str:
    """Render an input in a tokenizer's chat template, up to where the answer starts."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise UsageError(f"{label} has no chat template; leave --chat out.")
    options = {"tokenize": False, "add_generation_prompt": True}
    return str(tokenizer.apply_chat_template(messages_of(turns, ask), **options))


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


def input_device(model: Any) -> Any:
    """Return the device on which a model reads tokens, also if its first weights are offloaded."""
    import torch

    device = model.device
    return torch.device(model._hf_hook.execution_device) if device.type == "meta" else device


def recover_memory(error: Exception, is_smallest: bool, what: str, fix: str) -> None:
    """Release memory after it ran out; raise other errors, or if nothing smaller can be run."""
    if not is_out_of_memory(error):
        raise error
    if is_smallest:
        problem = f"out of memory with one {what} at a time"
        raise ModelUsageError(f"{problem}; use a smaller model or {fix}.") from error
    import torch

    torch.cuda.empty_cache()  # does nothing without a GPU


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
    return int(torch.cuda.get_device_properties(device).total_memory)
