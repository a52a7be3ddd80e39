"""Generate texts: tokens drawn one at a time from the logits under the named decoder, nothing else.

Samples that have drawn the same tokens so far share a row. The random numbers of a sample depend on
seed, item, decoder, sample and position. A draw that rounding in another batch could change is
repeated with the row run by itself, so that a seed gives the same texts in every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aleatoric.errors import ModelError, UsageError, quoted
from aleatoric.models import base
from aleatoric.models.base import TextTally, Writing, pages
from aleatoric.models.decoding import Decoder, TextDecoder, child, draw, draw_between, widened
from aleatoric.probes.ngrams import ArrayNgrams, numbered
from aleatoric.rng import stream
from aleatoric.types import Ints, TextItem, Texts

if TYPE_CHECKING:
    from aleatoric.models.generate_hf import TextNetwork


Ids = tuple[int, ...]
SampledText = tuple[Ids, bool]
"""The tokens of a text without its end, and whether it ended by itself."""
_LOGITS = 1 << 28
"""Logits that are computed at once."""


def log_probs(
    network: TextNetwork, prompt: Ids, texts: Sequence[SampledText], decoder: Decoder
) -> tuple[float, ...]:
    """Return the log-probability of each text under a decoder that excludes no token.

    All tokens that end a text are one outcome. A text that did not end by itself has the
    probability of all texts that begin with it.
    """
    distinct = list(dict.fromkeys(texts))
    longest = len(prompt) + max(len(ids) for ids, _ in distinct) + 1
    rows = max(1, _LOGITS // (longest * network.vocabulary_size))
    values = [v for part in pages(distinct, rows) for v in _part(network, prompt, part, decoder)]
    by_text = dict(zip(distinct, values, strict=True))
    return tuple(by_text[text] for text in texts)


def _part(
    network: TextNetwork, prompt: Ids, texts: Sequence[SampledText], decoder: Decoder
) -> list[float]:
    ends = sorted(network.ends)
    targets = [(*ids, *islice(ends, is_ended)) for ids, is_ended in texts]
    with torch.inference_mode():
        logits = network.forced([(prompt, target) for target in targets])
        rows = zip(logits, texts, strict=True)
        return [_total(own, *text, ends, decoder) for own, text in rows]


def _total(
    logits: Tensor, ids: Ids, is_ended: bool, ends: Sequence[int], decoder: Decoder
) -> float:
    logp = decoder.log_probs(logits.double())
    total = logp[torch.arange(len(ids)), list(ids)].sum()
    return float(total + logp[-1, list(ends)].logsumexp(-1) if is_ended else total)


@dataclass(frozen=True, slots=True)
class Batching:
    """How much is run at once; 0 chooses by device. The choice never changes a text.

    `rows` is the number of samples that grow together, `memory` bounds their memory in bytes.
    """

    rows: int = 0
    memory: int = 0

    def rows_at_once(self, network: TextNetwork, longest: int) -> int:
        """Return the samples that grow together if inputs and texts have `longest` tokens."""
        on_cpu = str(network.device) == "cpu"
        memory = self.memory or (2 << 30 if on_cpu else base.gpu_memory(network.device) // 4)
        # About six copies of the logits exist while a token is drawn.
        each = network.bytes_of(longest) + 24 * network.vocabulary_size
        return max(1, min(self.rows or (64 if on_cpu else 1024), memory // each))


@dataclass(frozen=True, eq=False)
class LiveWriter:
    """A loaded model as a text generator. `remarks` are notes that always hold."""

    label: str
    version: str
    network: TextNetwork = field(repr=False)
    remarks: tuple[str, ...] = ()
    batching: Batching = field(default_factory=Batching)
    tally: TextTally = field(default_factory=TextTally, repr=False)

    @cached_property
    def conventions(self) -> Mapping[str, str]:
        """Which tokens start and end a text, and how it is post-processed."""
        return dict(self.network.conventions) | {"space": "stripped"}

    @property
    def at_once(self) -> int:
        """The largest number of samples that grow together."""
        return self.batching.rows_at_once(self.network, 1)

    def notes(self) -> Sequence[str]:
        """Ignored settings of the model, truncated and empty texts."""
        return [*self.remarks, *self.tally.notes(self.label)]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """Yield the texts of each input, as inputs are finished.

        With `mbr=N`, each text is chosen from N samples of its own, so that texts are independent.
        With `beam=N`, there are N texts per input.
        """
        base.check_writing(ask)
        self.tally.start()
        decoder = TextDecoder.parse(ask.decoder)
        sampler = TextSampler(self.network, decoder.tokens, ask.stop)
        if decoder.beam:
            # One input at a time, so that rounding in a batch cannot change a text.
            for item in items:
                prompt = self._prompt(item, ask, decoder)
                found = sampler.best(prompt, decoder.beam)
                yield self._texts(prompt, found, ask, decoder)
            return
        samples = ask.samples * max(1, decoder.mbr)
        # Packs of like length are made from several packs' worth of inputs.
        for some in base.pages(items, max(1, 8 * self.at_once // samples)):
            prompts = [self._prompt(item, ask, decoder) for item in some]
            # Longest first: if memory does not suffice, the first pack fails.
            prompts.sort(key=lambda prompt: len(prompt.ids), reverse=True)
            longest = max(len(prompt.ids) + prompt.room for prompt in prompts)
            rows = self.batching.rows_at_once(self.network, longest)
            packs = packs_of(prompts, samples, rows)
            by_id = {prompt.item_id: prompt for prompt in prompts}
            for item_id, found in collected(write_all(sampler, packs), samples):
                yield self._texts(by_id[item_id], found, ask, decoder)

    def _prompt(self, item: TextItem, ask: Writing, decoder: TextDecoder) -> TextPrompt:
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
        key = key_of(ask.seed, item.id, decoder)
        return TextPrompt(item.id, ids, key, min(room, ask.max_new_tokens))

    def _texts(
        self, prompt: TextPrompt, found: list[Written], ask: Writing, decoder: TextDecoder
    ) -> Texts:
        """Return the texts of an input; with `mbr=N`, one per pool of N samples."""
        texts = [base.finished(self.network.decode(written.ids), ask.stop) for written in found]
        kept = consensus(texts, decoder.mbr) if decoder.mbr else range(len(texts))
        n_cut = sum(found[i].is_cut for i in kept)
        chosen = tuple(texts[i] for i in kept)
        self.tally.count(chosen, n_cut, prompt.room < ask.max_new_tokens)
        if not ask.logprobs or not decoder.has_log_probs:
            return Texts(prompt.item_id, chosen)
        # A text that a stop string ends has no end of its own.
        ended = (not w.is_cut and not _stops(self.network, w.ids, ask.stop) for w in found)
        pairs = [(w.ids, is_ended) for w, is_ended in zip(found, ended, strict=True)]
        values = log_probs(self.network, prompt.ids, pairs, decoder.tokens)
        return Texts(prompt.item_id, chosen, values, n_cut)


def collected(samples: Iterable[Written], number: int) -> Iterator[tuple[str, list[Written]]]:
    """Yield the samples of an input, in order, once all `number` of them are complete."""
    unfinished: dict[str, dict[int, Written]] = {}
    for sample in samples:
        by_number = unfinished.setdefault(sample.item_id, {})
        by_number[sample.number] = sample
        if len(by_number) == number:
            del unfinished[sample.item_id]
            yield sample.item_id, [by_number[i] for i in sorted(by_number)]


def consensus(texts: Sequence[str], size: int) -> list[int]:
    """Return, per pool of `size` texts, the place of the text nearest to the others on average.

    This is minimum Bayes risk with the lexical-1 distance of lower-cased words as the loss. The
    first of several equally near texts is chosen; texts without words have distance 0.

    >>> consensus(["a b", "a b c", "x", "", "y z", ""], 3)
    [0, 3]
    """
    symbols = numbered([text.split() for text in texts], str.lower)
    losses = np.nan_to_num(ArrayNgrams(symbols, (size,)).distances(1), nan=0.0)
    risks = losses.mean(-1).round(9)  # rounding must not decide between equal risks
    return [*map(int, risks.argmin(-1) + size * np.arange(len(risks)))]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """The tokens of an input, the key of its random numbers, and how many tokens may follow."""

    item_id: str
    ids: Ids
    key: int
    room: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Samples first..stop-1 of a prompt."""

    prompt: TextPrompt
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Written:
    """The tokens of one sample; `is_cut` if it did not end by itself."""

    item_id: str
    number: int
    ids: Ids
    is_cut: bool


def key_of(seed: int, item_id: str, decoder: Decoder | TextDecoder) -> int:
    """Return the key of an item's random numbers."""
    rng = stream(seed, "texts", item_id, str(decoder))
    return int(rng.integers(-(1 << 63), (1 << 63) - 1, endpoint=True))


def packs_of(prompts: Iterable[TextPrompt], samples: int, rows: int) -> Iterator[list[Portion]]:
    """Yield packs of portions of prompts, at most `rows` samples per pack."""
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


def write_all(sampler: TextSampler, packs: Iterable[list[Portion]]) -> Iterator[Written]:
    """Yield all samples of all packs, as they end; a pack that does not fit in memory is halved."""
    for pack in packs:
        pending = [pack]
        while pending:
            now = pending.pop()
            missing = {id(portion): len(portion) for portion in now}
            try:
                for portion, written in sampler.write(now):
                    missing[id(portion)] -= 1
                    yield written
            except Exception as error:
                # A restarted pack repeats identical samples, so the caller gets some twice.
                pending += _halves([p for p in now if missing[id(p)]], error)


def _halves(pack: list[Portion], error: Exception) -> list[list[Portion]]:
    """Split the rest of a pack in two, the first part last; raise other errors."""
    base.recover_memory(error, sum(map(len, pack)) <= 1, "text", "shorter inputs")
    if len(pack) == 1:
        (portion,) = pack
        middle = (portion.first + portion.stop) // 2
        return [[replace(portion, first=middle)], [replace(portion, stop=middle)]]
    middle = len(pack) // 2
    return [pack[middle:], pack[:middle]]


@dataclass(frozen=True, slots=True)
class Rows:
    """State of a pack: per row its portion and tokens; per sample its portion, number and row."""

    portion: list[int]
    tokens: list[Ids]
    owner: Ints
    number: Ints
    row: Ints


class Beam(NamedTuple):
    """A text of a beam search: its log-probability, its tokens and its row in the step before."""

    score: float
    ids: Ids
    parent: int


class TextSampler:
    """Draws the next token of every sample until all texts have ended."""

    def __init__(self, network: TextNetwork, decoder: Decoder, stop: Sequence[str] = ()) -> None:
        self.network, self.decoder, self._stop = network, decoder, stop
        self._ends = frozenset(network.ends)

    def write(self, pack: Sequence[Portion]) -> Iterator[tuple[Portion, Written]]:
        """Yield the samples of a pack, as they end."""
        batch, logits = self.network.begin([portion.prompt.ids for portion in pack])
        owner = np.repeat(np.arange(len(pack)), [len(portion) for portion in pack])
        number = np.concatenate([np.arange(p.first, p.stop) for p in pack])
        rows = Rows(list(range(len(pack))), [()] * len(pack), owner, number, owner)
        for depth in count():
            drawn = self._draw(pack, rows, logits, depth)
            below, parents, endings = self._step(pack, rows, drawn)
            for portion, number, ending in zip(rows.owner, rows.number, endings, strict=True):
                if ending is not None:
                    item_id = pack[portion].prompt.item_id
                    yield pack[portion], Written(item_id, int(number), *ending)
            if not len(below.row):
                return
            last = np.array([ids[-1] for ids in below.tokens], dtype=np.int64)
            logits = batch.advance(*(self._on_device(x) for x in (parents, last)))
            rows = below

    def best(self, prompt: TextPrompt, width: int) -> list[Written]:
        """Return the `width` best texts of a beam search, by mean log-probability per token.

        As in transformers with length_penalty=1 and early_stopping=False, except that all tokens
        that end a text are one outcome.
        """
        batch, logits = self.network.begin([prompt.ids])
        beams, ended = [Beam(0.0, (), 0)], list[tuple[float, tuple[Ids, bool]]]()
        for length in count(1):
            going: list[Beam] = []
            for rank, beam in enumerate(self._continued(beams, logits, 2 * width)):
                ending = self._ending(beam.ids, prompt.room)
                if ending is None:
                    going.append(beam)
                elif rank < width:
                    ended.append((beam.score / length, ending))
            ended = sorted(ended, key=lambda scored: -scored[0])[:width]
            beams = going[:width]
            is_full = len(ended) == width
            if not beams or (is_full and beams[0].score / length <= ended[-1][0]):
                break
            rows = [[beam.parent for beam in beams], [beam.ids[-1] for beam in beams]]
            logits = batch.advance(*(self._on_device(np.array(row)) for row in rows))
        return [Written(prompt.item_id, i, *ending) for i, (_, ending) in enumerate(ended)]

    def _continued(self, beams: Sequence[Beam], logits: Tensor, number: int) -> list[Beam]:
        """Return the best continuations of beams by one token, the best first."""
        logp = self._with_one_end(widened(logits).double().log_softmax(-1))
        totals = logp + logp.new_tensor([beam.score for beam in beams])[:, None]
        scores, places = totals.flatten().topk(min(number, totals.numel()))
        if not scores[0].isfinite():
            raise ModelError("the model gave no probabilities (overflow); use --dtype float32.")
        found = zip(scores.tolist(), places.tolist(), strict=True)
        split = ((score, *divmod(place, logp.shape[-1])) for score, place in found)
        return [
            Beam(score, (*beams[row].ids, token), row)
            for score, row, token in split
            if score > -np.inf
        ]

    def _with_one_end(self, logp: Tensor) -> Tensor:
        """Give the first token that ends a text the probability of all of them."""
        ends = self._on_device(np.array(self.network.ends, dtype=np.int64))
        if len(ends):
            end = logp[:, ends].logsumexp(-1)
            logp[:, ends] = -torch.inf
            logp[:, ends[0]] = end
        return logp

    def _draw(self, pack: Sequence[Portion], rows: Rows, logits: Tensor, depth: int) -> Ints:
        prompt_keys = np.array([portion.prompt.key for portion in pack], dtype=np.int64)
        # The key of a sample does not depend on the batch.
        keys = child(child(prompt_keys[rows.owner], rows.number), depth)
        # A recurrence in steps differs more from whole texts: up to 4.4 times in tiny models.
        slack = slack_of(logits) * (8 if getattr(self.network, "plain", None) else 1)
        low, high = self.decoder.weights_between(widened(logits), slack)
        if len(bad := (~(high.sum(-1) > 0)).nonzero()):
            name = quoted(pack[rows.portion[int(bad[0, 0])]].prompt.item_id)
            problem = f"input {name}: the model gave no probabilities (overflow)"
            raise ModelError(f"{problem}; use --dtype float32.")
        where, numbers = self._on_device(rows.row), self._on_device(keys)
        marked = draw_between(low, high, where, numbers, slack / self.decoder.temperature)
        drawn: Ints = marked.cpu().numpy()
        for row in np.unique(rows.row[drawn < 0]).tolist():
            close = np.flatnonzero((drawn < 0) & (rows.row == row))
            # Rounding in another batch could change these draws: run the row by itself.
            alone = self.network.alone(pack[rows.portion[row]].prompt.ids, rows.tokens[row])
            zeros, numbers = (self._on_device(x) for x in (np.zeros_like(close), keys[close]))
            drawn[close] = draw(self.decoder.probs(widened(alone)), zeros, numbers).cpu().numpy()
        return drawn

    def _step(
        self, pack: Sequence[Portion], rows: Rows, drawn: Ints
    ) -> tuple[Rows, Ints, list[tuple[Ids, bool] | None]]:
        """The rows below, the row each comes from, and the ending of each sample."""
        wide = int(drawn.max()) + 1
        pairs, which = np.unique(rows.row * wide + drawn, return_inverse=True)
        parents, tokens = np.divmod(pairs, wide)
        owners = [rows.portion[parent] for parent in parents]
        texts = [(*rows.tokens[p], int(t)) for p, t in zip(parents, tokens, strict=True)]
        places = zip(texts, owners, strict=True)
        endings = [self._ending(text, pack[owner].prompt.room) for text, owner in places]
        is_open = np.array([ending is None for ending in endings])
        kept, going = np.flatnonzero(is_open), is_open[which]
        row = (np.cumsum(is_open) - 1)[which[going]]
        of_rows = [owners[i] for i in kept], [texts[i] for i in kept]
        below = Rows(*of_rows, rows.owner[going], rows.number[going], row)
        return below, parents[is_open], [endings[new] for new in which]

    def _ending(self, ids: Ids, room: int) -> tuple[Ids, bool] | None:
        """The tokens of a row that has ended, and whether it was cut; `None` if it continues."""
        if ids[-1] in self._ends:
            return ids[:-1], False
        if _stops(self.network, ids, self._stop):
            return ids, False
        return (ids, True) if len(ids) >= room else None

    def _on_device(self, values: Ints) -> Tensor:
        return torch.as_tensor(values).to(self.network.device)


def _stops(network: TextNetwork, ids: Ids, stop: Sequence[str]) -> bool:
    """Whether tokens contain a stop string."""
    return bool(stop) and any(map(network.decode(ids).__contains__, stop))


def slack_of(logits: Tensor) -> float:
    """How far another batch may move a logit; 0 if the precision is too low to tell.

    Measured on a model of 135M parameters: up to 2e-6 of the largest logit in float32.
    """
    share = {torch.float32: 2.0**-18, torch.float64: 2.0**-44}.get(logits.dtype, 0.0)
    return share and share * float(logits.nan_to_num(0.0, 0.0, 0.0).abs().max().clamp_min(1.0))
