"""Models that run here as writers of texts: what causal and encoder-decoder ones share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import Protocol, runtime_checkable

from aleatoric.errors import UsageError, quoted
from aleatoric.models.base import Writing, check_writing, finished, gpu_memory
from aleatoric.models.decoding import Decoder
from aleatoric.models.sampling import (
    Ids,
    Network,
    Prompt,
    Sampler,
    Written,
    key_of,
    packs_of,
    write_all,
)
from aleatoric.types import TextItem, Texts


class TextNetwork(Network, Protocol):
    """A network that reads inputs and writes texts."""

    @property
    def dtype(self) -> str:
        """The precision of its weights."""
        ...

    @property
    def width(self) -> int:
        """The tokens of its vocabulary."""
        ...

    @property
    def conventions(self) -> Mapping[str, str]:
        """Everything beyond the weights that changes a text."""
        ...

    def encode(self, turns: Sequence[str], ask: Writing) -> Ids:
        """The tokens of an input."""
        ...

    def decode(self, ids: Ids) -> str:
        """The text of drawn tokens."""
        ...

    def room(self, ids: Ids) -> int:
        """How many tokens can follow an input; 0 and below where it is too long."""
        ...

    def bytes_of(self, tokens: int) -> int:
        """What a row of so many tokens keeps in memory."""
        ...


@dataclass(frozen=True, slots=True)
class Batching:
    """How much is run at once; 0 chooses by device. No choice changes a text.

    `rows` are the samples that grow together, `memory` bounds what they keep in bytes.
    """

    rows: int = 0
    memory: int = 0

    def rows_at_once(self, network: TextNetwork, longest: int) -> int:
        """Samples that grow together where inputs and texts have `longest` tokens."""
        on_cpu = str(network.device) == "cpu"
        memory = self.memory or (2 << 30 if on_cpu else gpu_memory(network.device) // 4)
        # Logits are held about six times over while a token is drawn.
        each = network.bytes_of(longest) + 24 * network.width
        return max(1, min(self.rows or (64 if on_cpu else 1024), memory // each))


@dataclass
class Tally:
    """What a reader should know of the texts that the latest call has given.

    An input is counted as its texts are given: what is written and then lost with a stopped run
    is written again, and would count twice.
    """

    texts: int = 0
    cut: int = 0
    empty: int = 0
    short_of_room: int = 0

    def start(self) -> None:
        """Forget an earlier call: under another decoder a model is another system."""
        self.texts = self.cut = self.empty = self.short_of_room = 0

    def count(self, texts: Sequence[str], n_cut: int, is_short_of_room: bool = False) -> None:
        """The texts of one more input."""
        self.texts += len(texts)
        self.cut += n_cut
        self.empty += sum(not text for text in texts)
        self.short_of_room += is_short_of_room

    def add(self, counts: Mapping[str, int]) -> None:
        """Counts that were made elsewhere, by name.

        >>> tally = Tally(texts=1)
        >>> tally.add({"texts": 4, "cut": 1})
        >>> tally
        Tally(texts=5, cut=1, empty=0, short_of_room=0)
        """
        for name, number in counts.items():
            setattr(self, name, getattr(self, name) + number)

    def with_earlier(self, earlier: Mapping[str, int]) -> dict[str, int]:
        """The counts added to those of earlier calls, which they give by name.

        >>> Tally(texts=4, cut=1).with_earlier({"texts": 6, "cut": 2})
        {'texts': 10, 'cut': 3, 'empty': 0, 'short_of_room': 0}
        """
        return {name: number + earlier.get(name, 0) for name, number in asdict(self).items()}

    def notes(self, label: str) -> list[str]:
        """A sentence each.

        >>> Tally(10, 4, 1).notes("m")
        ['m: 4 of 10 texts were cut at the longest length', 'm: 1 of 10 texts is empty']
        """
        of, found = f"of {self.texts} texts", []
        if self.cut:
            were = "was" if self.cut == 1 else "were"
            found.append(f"{label}: {self.cut} {of} {were} cut at the longest length")
        if self.empty:
            found.append(f"{label}: {self.empty} {of} {'is' if self.empty == 1 else 'are'} empty")
        if self.short_of_room:
            inputs = "input leaves" if self.short_of_room == 1 else "inputs leave"
            found.append(
                f"{label}: {self.short_of_room} {inputs} less room than asked for in the model's "
                "window; the texts end there"
            )
        return found


@runtime_checkable
class Tallied(Protocol):
    """A writer that counts the texts it gives; its notes hold those of its tally."""

    @property
    def label(self) -> str:
        """A short name for tables."""
        ...

    @property
    def tally(self) -> Tally:
        """The counts of the latest call, of the inputs given so far."""
        ...


@dataclass(frozen=True, eq=False)
class LiveWriter:
    """A loaded model as a writer of texts.

    `remarks` are notes that hold from the beginning.
    """

    label: str
    version: str
    network: TextNetwork = field(repr=False)
    remarks: tuple[str, ...] = ()
    batching: Batching = field(default_factory=Batching)
    tally: Tally = field(default_factory=Tally, repr=False)

    @cached_property
    def conventions(self) -> Mapping[str, str]:
        """Which tokens open and end a text, and what is done to it."""
        return dict(self.network.conventions) | {"space": "stripped"}

    @property
    def at_once(self) -> int:
        """Samples that grow together at most."""
        return self.batching.rows_at_once(self.network, 1)

    def notes(self) -> Sequence[str]:
        """What was left out of the model's own settings, cut texts and empty ones."""
        return [*self.remarks, *self.tally.notes(self.label)]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """The texts of each input, as inputs are finished."""
        check_writing(ask)
        self.tally.start()
        decoder = Decoder.parse(ask.decoder)
        sampler = Sampler(self.network, decoder, _stopper(self.network, ask.stop))
        for some in _several(items, self._read_at_once(ask)):
            prompts = [self._prompt(item, ask, decoder) for item in some]
            # The longest first: if memory cannot hold a pack, that shows at once.
            prompts.sort(key=lambda prompt: len(prompt.ids), reverse=True)
            longest = max(len(prompt.ids) + prompt.room for prompt in prompts)
            rows = self.batching.rows_at_once(self.network, longest)
            packs = packs_of(prompts, ask.samples, rows)
            short = {one.item_id for one in prompts if one.room < ask.max_new_tokens}
            yield from self._collected(write_all(sampler, packs), ask, short)

    def _read_at_once(self, ask: Writing) -> int:
        """Inputs from which packs of like length are made."""
        return max(1, 8 * self.at_once // ask.samples)

    def _prompt(self, item: TextItem, ask: Writing, decoder: Decoder) -> Prompt:
        ids = self.network.encode(item.input, ask)
        if not ids:
            raise UsageError(
                f"{self.label}: input {quoted(item.id)} is empty, and a text needs something to "
                "follow; use --bos add or a template, or drop the input."
            )
        room = self.network.room(ids)
        if room < 1:
            raise UsageError(
                f"{self.label}: input {quoted(item.id)} has {len(ids)} tokens, which fill the "
                "model's window; shorten it or use a model with a longer window."
            )
        return Prompt(
            item.id, ids, key_of(ask.seed, item.id, decoder), min(room, ask.max_new_tokens)
        )

    def _collected(
        self, samples: Iterable[Written], ask: Writing, short_of_room: Collection[str]
    ) -> Iterator[Texts]:
        """The texts of an input once its last sample has come."""
        waiting: dict[str, dict[int, Written]] = {}
        for sample in samples:
            own = waiting.setdefault(sample.item_id, {})
            own[sample.number] = sample
            if len(own) == ask.samples:
                found = waiting.pop(sample.item_id)
                texts = tuple(self._text(found[i], ask) for i in sorted(found))
                n_cut = sum(one.is_cut for one in found.values())
                self.tally.count(texts, n_cut, sample.item_id in short_of_room)
                yield Texts(sample.item_id, texts)

    def _text(self, sample: Written, ask: Writing) -> str:
        return finished(self.network.decode(sample.ids), ask.stop)


def _several(items: Iterable[TextItem], size: int) -> Iterator[list[TextItem]]:
    walk = iter(items)
    while some := list(islice(walk, size)):
        yield some


def _stopper(network: TextNetwork, stop: Sequence[str]) -> Callable[[Ids], bool] | None:
    if not stop:
        return None
    return lambda ids: any(mark in text for text in [network.decode(ids)] for mark in stop)
