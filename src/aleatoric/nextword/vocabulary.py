"""Token tables: the effect of every vocabulary token on an unfinished word, read off logits.

There is one table per mode of the text (before the word, in it, after a joiner) and, for rare
nodes, per incomplete character. A table says which tokens end the word, which continue it and with
what letters, and which leave it open in a way that the letters do not tell ("loose" tokens: white
space before the word, an incomplete character, a combining mark).
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.models.attention import fetch, send
from aleatoric.models.decoding import Decoder, widened
from aleatoric.nextword import rules
from aleatoric.nextword.rules import DONE, JOIN, JOINS, LEAD, WordState, fold
from aleatoric.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.plain import LanguageModel

TableKey = tuple[int, bytes]
"""A table's mode, and the bytes of an incomplete character."""
STEM = 2
"""Number of letters by which tokens are grouped where they are too many to follow one by one."""
LOOSE = 32
"""The most loose tokens that are considered per node."""
ENTRY = np.dtype(
    [
        ("owner", np.int64),  # the context
        ("mass", np.float64),
        ("parent", np.int64),  # the node before it, -1 for the context itself
        ("token", np.int64),
        ("depth", np.int64),  # tokens after the context
        ("table", np.int64),  # the table of the next token
        ("cell", np.int64),  # the word so far
        ("base", np.int64),  # the word with an undecided joiner, -1 if no word continues so
    ]
)
Entries = NDArray[Any]
"""Token sequences that are not yet run, one `ENTRY` per row."""


@dataclass(frozen=True, eq=False)
class EffectTable:
    """The effect of every token on a word in one mode.

    After token t, `modes[t]` is the mode, `added[t]` the folded letters it adds, `joiners[t]` an
    undecided joiner and `pending[t]` the bytes of an incomplete character. `ends` are the tokens
    that settle the outcome without adding a letter, `grows[s]` those that add the letters s and
    leave the word open, `closes[s]` those that add s and end it, `loose` the other open tokens.
    """

    key: TableKey
    modes: NDArray[np.uint8]
    added: tuple[str, ...]
    joiners: tuple[str, ...]
    pending: tuple[bytes, ...]
    ends: Ints
    loose: Ints
    grows: dict[str, Ints]
    closes: dict[str, Ints]

    @cached_property
    def joins(self) -> Ints:
        """The number in `JOINS` of each token's undecided joiner."""
        return np.array([JOINS.index(mark) for mark in self.joiners], dtype=np.int64)

    @cached_property
    def stems(self) -> tuple[Ints, list[str]]:
        """The tokens grouped by the first letters that they add: numbers, and letters by number.

        Letters that a later mark could change are left out, so that a word keeps its stem.
        """
        starts = [letters[:STEM] for letters in self.added]
        stems = [start if start.isascii() and start.isalnum() else "" for start in starts]
        letters = sorted({*stems, ""})
        number = {stem: i for i, stem in enumerate(letters)}
        return _ids([number[stem] for stem in stems]), letters

    @cached_property
    def silent(self) -> Bools:
        """Which tokens add no letters."""
        return np.array([not letters for letters in self.added], dtype=np.bool_)


class Vocabulary:
    """The tables of a model's tokens, built on first use."""

    def __init__(self, pieces: Sequence[bytes | None], lead: rules.Lead = "skip") -> None:
        self.pieces, self.lead = tuple(pieces), lead
        self._tables: dict[TableKey, EffectTable] = {}
        self._after: dict[int, Ints] = {}
        self._numbers: dict[TableKey, int] = {(mode, b""): mode for mode in range(DONE)}

    def __len__(self) -> int:
        return len(self.pieces)

    def table(self, key: TableKey) -> EffectTable:
        """Return the table of a mode and an incomplete character."""
        if key not in self._tables:
            base, tokens = self._base(key)
            self._tables[key] = _patched(base, key, tokens, self._states(key, tokens))
        return self._tables[key]

    def number(self, key: TableKey) -> int:
        """Return the number of a table; without an incomplete character it is the mode."""
        return self._numbers.setdefault(key, len(self._numbers))

    def numbered(self, number: int) -> EffectTable:
        """Return a table by its number."""
        return self.table(list(self._numbers)[number])

    def after(self, number: int) -> Ints:
        """Return the number of the table after each token, -1 where the word has ended."""
        if number not in self._after:
            table = self.numbered(number)
            modes = table.modes.astype(np.int64)
            numbers = np.where(modes < DONE, modes, -1)
            for token in [t for t, rest in enumerate(table.pending) if rest]:
                numbers[token] = self.number((int(table.modes[token]), table.pending[token]))
            self._after[number] = numbers
        return self._after[number]

    def _base(self, key: TableKey) -> tuple[EffectTable, Ints]:
        """The effects of most tokens, and the tokens that may have others."""
        size = len(self.pieces)
        blank, ids = ("",) * size, np.arange(size)
        modes = np.full(size, rules.WORDLESS if key[0] == LEAD else DONE, dtype=np.uint8)
        base = EffectTable(key, modes, blank, blank, (b"",) * size, ids, ids[:0], {}, {})
        if not key[1]:
            return base, ids
        # Tokens that do not continue an incomplete character turn it into a non-letter, which
        # ends a word and is skipped before one.
        if key[0] == LEAD and self.lead == "skip":
            base = self.table((LEAD, b""))
        starts = [b"end" if piece is None else piece[:1] for piece in self.pieces]
        # An empty token, or one that may be the next part of an incomplete character.
        return base, np.flatnonzero([not start or b"\x80" <= start < b"\xc0" for start in starts])

    def _states(self, key: TableKey, tokens: Ints) -> list[WordState]:
        """The state after each token, from an empty word in the given mode."""
        mode, pending = key
        start = WordState(mode, "", "-" if mode == JOIN else "", pending)
        return [rules.advance(start, self.pieces[token], self.lead) for token in tokens.tolist()]


@lru_cache(maxsize=8)
def vocabulary_of(pieces: tuple[bytes | None, ...], lead: rules.Lead = "skip") -> Vocabulary:
    """Return the tables of a model's tokens; building them takes seconds."""
    return Vocabulary(pieces, lead)


def _patched(
    base: EffectTable, key: TableKey, tokens: Ints, states: list[WordState]
) -> EffectTable:
    """Return the table `base` with the effects of some tokens replaced."""
    modes, added = base.modes.copy(), list(base.added)
    joiners, pending = list(base.joiners), list(base.pending)
    lead_joiner = "-" if key[0] == JOIN else ""
    for token, state in zip(tokens.tolist(), states, strict=True):
        modes[token], pending[token] = state.mode, state.pending
        added[token] = fold(state.word).removeprefix(lead_joiner) if state.word else ""
        undecided = state.mode == JOIN and (state.word or key[0] != JOIN)
        joiners[token] = fold(state.joiner) if undecided else ""
    replaced = np.zeros(len(modes), dtype=np.bool_)
    replaced[tokens] = True
    touched = {"", *(base.added[token] for token in tokens.tolist())}
    tables = {"": base.ends}, {"": base.loose}, dict(base.grows), dict(base.closes)
    fresh = _sorted_by_effect(key, tokens, modes, added, pending)
    for table, new in zip(tables, fresh, strict=True):
        table |= {s: table[s][~replaced[table[s]]] for s in touched & table.keys()}
        table |= {s: _ids([*table.get(s, ()), *ids]) for s, ids in new.items()}
    ends, loose = (np.sort(table[""]) for table in tables[:2])
    effects = (tuple(added), tuple(joiners), tuple(pending))
    return EffectTable(key, modes, *effects, ends, loose, *tables[2:])


def _sorted_by_effect(
    key: TableKey, tokens: Ints, modes: NDArray[np.uint8], added: list[str], pending: list[bytes]
) -> list[dict[str, list[int]]]:
    """Sort tokens into (ends, loose, grows, closes) by the letters that they add."""
    tables: list[dict[str, list[int]]] = [defaultdict(list) for _ in range(4)]
    ends, loose, grows, closes = tables
    for token, mode in zip(tokens.tolist(), modes[tokens].tolist(), strict=True):
        letters = added[token]
        # A combining mark may change places with one before it. A token without letters after an
        # undecided joiner leaves it undecided.
        is_unclear = unicodedata.combining(letters[0]) > 0 if letters else key[0] == JOIN
        if mode >= DONE and not letters:
            ends[""].append(token)
        elif mode == LEAD or pending[token] or is_unclear:
            loose[""].append(token)
        else:
            (closes if mode == DONE else grows)[letters].append(token)
    return tables


def _ids(tokens: list[int]) -> Ints:
    return np.array(tokens, dtype=np.int64)


@dataclass(slots=True)
class Entry:
    """A token sequence with its mass, its parent node and the state of its word.

    `word` is the folded word so far, `joiner` an undecided apostrophe or hyphen, `number` the
    node's number once it is run (-1 before, and for the context itself). The default is the
    context itself, with all the mass.
    """

    mass: float = 1.0
    parent: int = -1
    token: int = -1
    key: TableKey = (LEAD, b"")
    word: str = ""
    joiner: str = ""
    number: int = -1
    depth: int = 0


def follow(entry: Entry, table: EffectTable, token: int, mass: float) -> Entry:
    """Return the entry after one more token; its word may have ended."""
    letters = table.added[token]
    key = (int(table.modes[token]), table.pending[token])
    if letters:
        word, joiner = fold(entry.word + entry.joiner + letters), table.joiners[token]
    else:  # an incomplete character leaves an undecided joiner undecided
        word, joiner = entry.word, table.joiners[token] or entry.joiner
    return Entry(mass, entry.number, token, key, word, joiner, depth=entry.depth + 1)


@dataclass(frozen=True, slots=True)
class Digest:
    """Shares of the next-token mass of some nodes.

    `ends[i]` is the share of the tokens that settle node i's outcome, `planned` the shares of the
    planned tokens of all nodes one after another, `loose_tokens[i]` the likeliest loose tokens
    with their shares `loose[i]`, `loose_rest[i]` the share of the other loose tokens.
    """

    ends: Floats
    planned: Floats
    loose_tokens: Ints
    loose: Floats
    loose_rest: Floats


@dataclass(frozen=True, slots=True)
class Branches:
    """What follows one node: the ending share, and the likeliest tokens that do not end it.

    `stems` are the shares of all tokens that do not end it, per stem; only before a word.
    """

    ends: float
    tokens: Ints
    shares: Floats
    stems: Floats


class LogitReader:
    """Reads next-token logits on the device, under a decoder. Nodes refer to tables by number."""

    def __init__(
        self, lm: LanguageModel, vocabulary: Vocabulary, decoder: Decoder | None = None
    ) -> None:
        self.vocabulary, self.decoder = vocabulary, decoder or Decoder()
        self._device = lm.device
        self._columns: dict[int, int] = {}
        """Table -> its column of `_ends`, the masks of the tokens that end the word."""
        self._ends: Tensor
        self._loose: dict[int, Tensor] = {}
        self._stems: dict[int, Tensor] = {}

    def probabilities(self, logits: Any) -> Tensor:
        """Next-token probabilities under the decoder, in float32 at least."""
        return self.decoder.probs(widened(logits))

    def read(self, logits: Any, tables: Ints, rows: Ints, tokens: Ints) -> Callable[[], Digest]:
        """Digest nodes with the given tables, and planned tokens in the given rows.

        The work is queued on the device; calling the result waits for it.
        """
        import torch

        probs = self.probabilities(logits)
        loose_tokens, loose, rest = self._loose_of(probs, tables)
        planned = probs[send(rows, probs.device), send(tokens, probs.device)]
        parts = [self._ends_of(probs, tables), planned, loose.flatten(), rest]
        shares, numbers = fetch(torch.cat(parts)), fetch(loose_tokens)
        cuts = np.cumsum([len(part) for part in parts])[:-1]

        def arrive() -> Digest:
            ends, planned, flat, loose_rest = np.split(shares().astype(np.float64), cuts)
            return Digest(ends, planned, numbers(), flat.reshape(-1, LOOSE), loose_rest)

        return arrive

    def branches(self, logits: Any, tables: Ints, k: int) -> list[Branches]:
        """Return, per row, the ending share and the k likeliest tokens that do not end the word."""
        probs = self.probabilities(logits)
        ends = self._ends_of(probs, tables)
        stems: list[Floats] = [np.zeros(0)] * len(tables)
        for number in np.unique(tables).tolist():
            places = np.flatnonzero(tables == number)
            rows = send(places, probs.device)
            probs[rows] *= 1.0 - self._ends[:, self._columns[number]].to(probs.dtype)
            table = self.vocabulary.numbered(number)
            if table.key[0] == LEAD:
                numbers, letters = table.stems
                if number not in self._stems:
                    self._stems[number] = send(numbers, self._device)
                sums = probs.new_zeros((len(rows), len(letters)))
                sums.index_add_(1, self._stems[number], probs[rows])
                for place, by_stem in zip(places, sums.double().cpu().numpy(), strict=True):
                    stems[place] = by_stem
        top = probs.topk(min(k, probs.shape[-1]), -1)
        columns = ends.double(), top.indices, top.values.double()
        by_row = zip(*(column.cpu().numpy() for column in columns), stems, strict=True)
        return [Branches(float(end), *row) for end, *row in by_row]

    def _ends_of(self, probs: Tensor, tables: Ints) -> Tensor:
        """The ending share of each row: one product with the tables' masks."""
        import torch

        numbers, places = np.unique(tables, return_inverse=True)
        fresh = [number for number in numbers.tolist() if number not in self._columns]
        masks = [self._ends] if self._columns else []
        for number in fresh:
            self._columns[number] = len(self._columns)
            mask = torch.zeros((len(self.vocabulary), 1), device=self._device)
            mask[send(self.vocabulary.numbered(number).ends, self._device)] = 1.0
            masks.append(mask)
        self._ends = torch.cat(masks, 1) if fresh else self._ends
        by_table = probs @ self._ends.to(probs.dtype)
        columns = np.array([self._columns[n] for n in numbers.tolist()], dtype=np.int64)[places]
        return by_table.gather(1, send(columns, probs.device)[:, None])[:, 0]

    def _loose_of(self, probs: Tensor, tables: Ints) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest loose tokens of each row, their shares, and the share of the others."""
        import torch

        tokens = torch.zeros((len(tables), LOOSE), dtype=torch.long, device=probs.device)
        shares = probs.new_zeros((len(tables), LOOSE))
        rest = probs.new_zeros(len(tables))
        for number in np.unique(tables).tolist():
            if number not in self._loose:
                self._loose[number] = send(self.vocabulary.numbered(number).loose, self._device)
            rows, loose = send(np.flatnonzero(tables == number), probs.device), self._loose[number]
            part = probs[rows[:, None], loose[None, :]]
            top = part.topk(min(LOOSE, len(loose)), -1)
            tokens[rows, : top.values.shape[1]] = loose[top.indices]
            shares[rows, : top.values.shape[1]] = top.values
            rest[rows] = (part.sum(-1) - top.values.sum(-1)).clamp_min(0.0)
        return tokens, shares, rest


class NodeCache:
    """Remembers what follows the nodes of a tree that have at least the mass `least`."""

    def __init__(self, reader: LogitReader, branch: int, least: float = 0.0) -> None:
        self._reader, self._branch, self._least = reader, branch, least
        self._nodes: dict[tuple[int, int, int], tuple[int, Branches]] = {}

    def add(self, nodes: Entries, numbers: Ints, logits: Any) -> None:
        """Remember nodes that have just been run."""
        rows = np.flatnonzero(nodes["mass"] >= self._least)
        if not len(rows):
            return
        chosen = logits if len(rows) == len(nodes) else logits[rows]
        branches = self._reader.branches(chosen, nodes["table"][rows], self._branch)
        columns = (nodes[rows][name].tolist() for name in ("owner", "parent", "token"))
        values = zip(numbers[rows].tolist(), branches, strict=True)
        self._nodes.update(zip(zip(*columns, strict=True), values, strict=True))

    def find(self, context: int, parent: int, token: int) -> tuple[int, Branches] | None:
        """Return a node's number and what follows it, or `None` if it is not remembered."""
        return self._nodes.get((context, parent, token))
