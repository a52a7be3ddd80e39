"""The sampling loop: tokens drawn one at a time from a model's own distribution.

A library's way to generate brings defaults along (top-k, beams, penalties, forced tokens); here a
token is drawn from the logits under the named decoder and nothing else. The input is run once.
Samples that have drawn the same tokens so far share a row, so that greedy texts cost one row
whatever their number; rows that are done leave the batch.

The random numbers of a sample are named by seed, item, decoder, sample and position. A draw that
rounding in another batch could have changed is made again from the row run by itself, so that the
same seed gives the same texts whatever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aleatoric.errors import ModelError, quoted
from aleatoric.models.base import free_memory, is_out_of_memory
from aleatoric.models.decoding import Decoder, child, draw, draw_between
from aleatoric.rng import stream
from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor


Ids = tuple[int, ...]


class Batch(Protocol):
    """Rows of tokens that a model has run, with what it keeps of them."""

    def advance(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Replace the rows by copies of `parents`, each with a token more; logits of what follows.

        `parents` are numbers of rows, in any order and repeated or left out as needed.
        """
        ...


class Network(Protocol):
    """A model as the sampling loop needs it. Logits have one row a row of tokens."""

    @property
    def device(self) -> Any:
        """The torch device it runs on."""
        ...

    @property
    def ends(self) -> Sequence[int]:
        """The tokens that end a text."""
        ...

    def begin(self, prompts: Sequence[Ids]) -> tuple[Batch, Tensor]:
        """Run prompts; a batch with a row for each, and the logits of what follows."""
        ...

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """The logits [1, vocabulary] of what follows, run in a shape that no neighbour changes."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens of an input, the key of its random numbers, the most tokens it may get."""

    item_id: str
    ids: Ids
    key: int
    room: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Samples first..stop-1 of a prompt."""

    prompt: Prompt
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Written:
    """The tokens of one sample; `is_cut` where it had not come to its end."""

    item_id: str
    number: int
    ids: Ids
    is_cut: bool


def key_of(seed: int, item_id: str, decoder: Decoder) -> int:
    """The key of an item's random numbers.

    >>> key_of(0, "1", Decoder()) == key_of(0, "1", Decoder(top_k=3))
    False
    """
    rng = stream(seed, "texts", item_id, str(decoder))
    return int(rng.integers(-(1 << 63), (1 << 63) - 1, endpoint=True))


def packs_of(prompts: Iterable[Prompt], samples: int, rows: int) -> Iterator[list[Portion]]:
    """Portions of prompts, together at most `rows` samples a pack.

    >>> prompts = [Prompt(str(i), (1,), 0, 9) for i in range(3)]
    >>> [[(p.prompt.item_id, p.first, p.stop) for p in pack] for pack in packs_of(prompts, 2, 4)]
    [[('0', 0, 2), ('1', 0, 2)], [('2', 0, 2)]]
    >>> [[(p.prompt.item_id, p.first, p.stop) for p in pack] for pack in packs_of(prompts, 3, 2)][0]
    [('0', 0, 2)]
    """
    pack: list[Portion] = []
    for prompt in prompts:
        for first in range(0, samples, rows):
            portion = Portion(prompt, first, min(first + rows, samples))
            if sum(map(len, pack)) + len(portion) > rows:
                yield pack
                pack = []
            pack.append(portion)
    if pack:
        yield pack


def write_all(sampler: Sampler, packs: Iterable[list[Portion]]) -> Iterator[Written]:
    """All samples of all packs, as they end; a pack that memory cannot hold is halved."""
    for pack in packs:
        waiting = [pack]
        while waiting:
            now = waiting.pop()
            missing = {id(portion): len(portion) for portion in now}
            try:
                for portion, written in sampler.write(now):
                    missing[id(portion)] -= 1
                    yield written
            except Exception as error:
                # Of what is begun again the samples are the same, and the caller has some twice.
                waiting += _halves([p for p in now if missing[id(p)]], error)


def _halves(pack: list[Portion], error: Exception) -> list[list[Portion]]:
    """What is left of a pack in two parts, the first one last; other errors are raised."""
    if not is_out_of_memory(error):
        raise error
    if sum(map(len, pack)) <= 1:
        raise ModelError(
            "out of memory with one text at a time; use a smaller model or shorter inputs."
        ) from error
    free_memory()
    if len(pack) == 1:
        (whole,) = pack
        middle = (whole.first + whole.stop) // 2
        return [[replace(whole, first=middle)], [replace(whole, stop=middle)]]
    middle = len(pack) // 2
    return [pack[middle:], pack[:middle]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Where a pack stands: the tokens of every row with its portion, and the samples at rows."""

    portion: list[int]
    tokens: list[Ids]
    owner: Ints
    number: Ints
    row: Ints


class Sampler:
    """Draws the next token of every sample until all have ended."""

    def __init__(
        self, network: Network, decoder: Decoder, is_stopped: Callable[[Ids], bool] | None = None
    ) -> None:
        self.network = network
        self.decoder = decoder
        self._is_stopped = is_stopped
        self._ends = frozenset(network.ends)

    def write(self, pack: Sequence[Portion]) -> Iterator[tuple[Portion, Written]]:
        """The samples of a pack, as they end."""
        batch, logits = self.network.begin([portion.prompt.ids for portion in pack])
        rows = _start(pack)
        for depth in count():
            drawn = self._draw(pack, rows, logits, depth)
            below, parents, ended = self._step(pack, rows, drawn)
            yield from ended
            if not len(below.row):
                return
            last = np.array([ids[-1] for ids in below.tokens], dtype=np.int64)
            logits = batch.advance(*(self._on_device(x) for x in (parents, last)))
            rows = below

    def _draw(self, pack: Sequence[Portion], rows: Rows, logits: Tensor, depth: int) -> Ints:
        """The next token of every sample."""
        keys, slack = _keys(pack, rows, depth), slack_of(logits)
        low, high = self.decoder.weights_between(widened(logits), slack)
        _check_weights(high, pack, rows)
        where, numbers = self._on_device(rows.row), self._on_device(keys)
        marked = draw_between(low, high, where, numbers, slack / self.decoder.temperature)
        drawn: Ints = marked.cpu().numpy()
        for row in np.unique(rows.row[drawn < 0]).tolist():
            close = np.flatnonzero((drawn < 0) & (rows.row == row))
            drawn[close] = self._draw_alone(pack, rows, row, keys[close])
        return drawn

    def _draw_alone(self, pack: Sequence[Portion], rows: Rows, row: int, keys: Ints) -> Ints:
        prompt = pack[rows.portion[row]].prompt
        logits = self.network.alone(prompt.ids, rows.tokens[row])
        probabilities = self.decoder.probs(widened(logits))
        zeros = self._on_device(np.zeros_like(keys))
        found: Ints = draw(probabilities, zeros, self._on_device(keys)).cpu().numpy()
        return found

    def _step(
        self, pack: Sequence[Portion], rows: Rows, drawn: Ints
    ) -> tuple[Rows, Ints, list[tuple[Portion, Written]]]:
        """The rows below, the row each comes from, and the samples that have ended."""
        wide = int(drawn.max()) + 1
        pairs, which = np.unique(rows.row * wide + drawn, return_inverse=True)
        parents, tokens = np.divmod(pairs, wide)
        owners = [rows.portion[parent] for parent in parents]
        texts = [(*rows.tokens[p], int(t)) for p, t in zip(parents, tokens, strict=True)]
        rooms = [pack[owner].prompt.room for owner in owners]
        endings = [self._ending(text, room) for text, room in zip(texts, rooms, strict=True)]
        ended = []
        for sample in np.flatnonzero([endings[new] is not None for new in which]).tolist():
            ids, is_cut = endings[which[sample]] or ((), False)
            portion, number = pack[rows.owner[sample]], int(rows.number[sample])
            ended.append((portion, Written(portion.prompt.item_id, number, ids, is_cut)))
        is_open = np.array([ending is None for ending in endings])
        return _below(rows, owners, texts, which, is_open), parents[is_open], ended

    def _ending(self, ids: Ids, room: int) -> tuple[Ids, bool] | None:
        """The text of a row that has ended, and whether it was cut; `None` where it goes on."""
        if ids[-1] in self._ends:
            return ids[:-1], False
        if self._stops(ids):
            return ids, False
        return (ids, True) if len(ids) >= room else None

    def _stops(self, ids: Ids) -> bool:
        return self._is_stopped is not None and self._is_stopped(ids)

    def _on_device(self, values: Ints) -> Tensor:
        import torch

        return torch.as_tensor(values).to(self.network.device)


def _start(pack: Sequence[Portion]) -> Rows:
    """The prompts themselves, with all their samples."""
    sizes = [len(portion) for portion in pack]
    owner = np.repeat(np.arange(len(pack)), sizes)
    number = np.concatenate([np.arange(p.first, p.stop) for p in pack])
    return Rows(list(range(len(pack))), [()] * len(pack), owner, number, owner)


def _below(rows: Rows, owners: list[int], texts: list[Ids], which: Ints, is_open: Any) -> Rows:
    """The rows that go on, with the samples at them."""
    going = is_open[which]
    renumbered = np.cumsum(is_open) - 1
    kept = np.flatnonzero(is_open).tolist()
    return Rows(
        [owners[i] for i in kept],
        [texts[i] for i in kept],
        rows.owner[going],
        rows.number[going],
        renumbered[which[going]],
    )


def _keys(pack: Sequence[Portion], rows: Rows, depth: int) -> Ints:
    """The key of each sample at this depth: a property of the sample, not of the batch."""
    keys = np.array([portion.prompt.key for portion in pack], dtype=np.int64)
    return child(child(keys[rows.owner], rows.number), depth)


def widened(logits: Tensor) -> Tensor:
    """Logits in float32 at least."""
    import torch

    return logits if logits.dtype == torch.float64 else logits.float()


def slack_of(logits: Tensor) -> float:
    """How far another batch may move a logit; 0 where precision is too low to say.

    Measured on a model of 135M parameters: up to 2e-6 of the largest logit in float32.
    """
    import torch

    share = {torch.float32: 2.0**-18, torch.float64: 2.0**-44}.get(logits.dtype, 0.0)
    return share and share * float(logits.nan_to_num(0.0, 0.0, 0.0).abs().max().clamp_min(1.0))


def _check_weights(weights: Tensor, pack: Sequence[Portion], rows: Rows) -> None:
    bad = (~(weights.sum(-1) > 0)).nonzero()
    if len(bad):
        name = pack[rows.portion[int(bad[0, 0])]].prompt.item_id
        raise ModelError(
            f"input {quoted(name)}: the model gave no probabilities (overflow); use --dtype "
            "float32."
        )
