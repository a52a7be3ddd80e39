"""What every token of a vocabulary does to an unfinished word, worked out once.

A table belongs to a mode of the word machine (before the word, in it, after a joiner), and for
rare nodes also to the first bytes of an incomplete character. It says which tokens end the word at
once (a mask, so that their mass is one masked sum over the vocabulary), which continue it and
with what letters (an index by folded letters), and which leave it open in a way that letters
cannot tell: a lead that goes on, an incomplete character, a combining mark.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.nextword.rules import JOINERS, STRAIGHT, is_alphanumeric, is_word_character
from aleatoric.types import Ints

Lead = Literal["skip", "condition"]


Mode = int
LEAD, WORD, JOIN, DONE, FAILED = range(5)
"""Where the text stands: before the word, in it, after an undecided joiner, done, wordless."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the first word after some bytes.

    `word` is the word so far, `joiner` an apostrophe, hyphen or the like that is inner only if a
    letter or digit follows, `pending` the first bytes of a character not yet complete.
    """

    mode: Mode = LEAD
    word: str = ""
    joiner: str = ""
    pending: bytes = b""

    @property
    def settled(self) -> bool:
        """Whether nothing that follows can change the word."""
        return self.mode >= DONE


def advance(state: State, piece: bytes | None, lead: Lead = "skip") -> State:
    """The state after one more token; `piece=None` ends the text.

    >>> advance(State(), b" it'").joiner
    "'"
    >>> advance(advance(State(), b" it'"), b"s ").word
    "it's"
    """
    if state.settled:
        return state
    if piece is None:
        return _finish(state)
    text, pending = decode(state.pending + piece)
    if state.pending and text:
        state = State(state.mode, state.word, state.joiner)
    for character in text:
        state = _step(state, character, lead)
        if state.settled:
            return state
    return replace(state, pending=pending) if pending else state


def _finish(state: State) -> State:
    """The text ends: the word so far stands, and without a word there is none."""
    if state.mode == LEAD:
        return State(FAILED)
    return State(DONE, state.word)


def _step(state: State, character: str, lead: Lead) -> State:
    if state.mode == LEAD:
        if is_alphanumeric(character):
            return State(WORD, character)
        at_once = lead == "condition" and not character.isspace()
        return State(FAILED) if at_once else state
    if state.mode == JOIN:
        if is_alphanumeric(character):
            return State(WORD, state.word + state.joiner + character)
        return State(DONE, state.word)
    if is_word_character(character):
        return State(WORD, state.word + character)
    if character in JOINERS:
        return State(JOIN, state.word, character)
    return State(DONE, state.word)


def decode(data: bytes) -> tuple[str, bytes]:
    """The complete characters of UTF-8 `data` and the bytes of an incomplete last one.

    >>> decode("é".encode()[:1])
    ('', b'\\xc3')
    """
    try:
        return data.decode(), b""  # the common case, and fast
    except UnicodeDecodeError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        return text, decoder.getstate()[0]


def fold(text: str) -> str:
    """Case-folded, decomposed, with straight marks: equal where `rules.normalise` is equal.

    Decomposed, because then a part of a word folds to a part of the folded word.

    >>> fold("É") == "e\\u0301"
    True
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", text).casefold()
    return unicodedata.normalize("NFD", folded.translate(STRAIGHT))


def compose(folded: str) -> str:
    """A folded word as `rules.normalise` writes it.

    >>> compose(fold("CAFÉ"))
    'café'
    """
    return unicodedata.normalize("NFC", folded)


Ids = NDArray[np.int64]
Key = tuple[Mode, bytes]
"""A table's name: the mode, and the bytes of an incomplete character."""
JOINS = ("", "'", "-", "_")
"""What may stand undecided behind a word, by number; invisible joiners fold to nothing."""


STEM = 2
"""Letters by which tokens are grouped where they are too many to look at one by one."""


@dataclass(frozen=True, eq=False)
class Stems:
    """Tokens grouped by their first letters: token t begins with `letters[numbers[t]]`.

    Letters that a later mark could change are left out, so that a word keeps its stem.

    >>> Stems.of(["many", "man", "é", ""]).letters
    ('', 'ma')
    """

    numbers: Ids
    letters: tuple[str, ...]

    @classmethod
    def of(cls, added: Sequence[str]) -> Stems:
        """The stems of the folded letters that each token adds."""
        stems = [_stem(letters) for letters in added]
        names = sorted(set(stems) | {""})
        place = {name: number for number, name in enumerate(names)}
        return cls(np.array([place[stem] for stem in stems], dtype=np.int64), tuple(names))


def _stem(letters: str) -> str:
    """At most two letters or digits at the start, without those that marks may follow or change."""
    start = letters[:STEM]
    return start if start.isascii() and start.isalnum() else ""


@dataclass(frozen=True, eq=False)
class Table:
    """The effect of every token on a word in one mode.

    `modes[t]`, `added[t]`, `joiners[t]` and `pending[t]` are, after token t, the mode, the folded
    letters it adds, an undecided joiner and the bytes of an incomplete character. `ends`
    are the tokens that settle the outcome without adding a letter. `grows[s]` are the tokens that
    add the letters s and leave the word open, `closes[s]` those that add s and end it. `loose` are
    the open tokens that must be looked at one by one.
    """

    key: Key
    modes: NDArray[np.uint8]
    added: tuple[str, ...]
    joiners: tuple[str, ...]
    pending: tuple[bytes, ...]
    ends: Ids
    loose: Ids
    grows: dict[str, Ids]
    closes: dict[str, Ids]

    @cached_property
    def joins(self) -> NDArray[np.int64]:
        """The number in `JOINS` of each token's undecided joiner."""
        return np.array([JOINS.index(mark) for mark in self.joiners], dtype=np.int64)

    @cached_property
    def stems(self) -> Stems:
        """The tokens grouped by the first letters that they add."""
        return Stems.of(self.added)

    @cached_property
    def silent(self) -> NDArray[np.bool_]:
        """Which tokens add no letters."""
        return np.array([not letters for letters in self.added], dtype=np.bool_)


class Vocabulary:
    """The tables of a model's tokens, made when first asked for.

    >>> vocabulary = Vocabulary([b" many", b" ", b"s", b".", None])
    >>> vocabulary.table((WORD, b"")).ends.tolist()
    [0, 1, 3, 4]
    """

    def __init__(self, pieces: Sequence[bytes | None], lead: Lead = "skip") -> None:
        self.pieces = tuple(pieces)
        self.lead = lead
        self._tables: dict[Key, Table] = {}
        self._after: dict[int, Ids] = {}
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        for mode in (LEAD, WORD, JOIN):  # so that such a table's number is its mode
            self.number((mode, b""))

    def __len__(self) -> int:
        return len(self.pieces)

    def table(self, key: Key) -> Table:
        """The table of a mode and the bytes of an incomplete character."""
        if key not in self._tables:
            self._tables[key] = self._build(key)
        return self._tables[key]

    def number(self, key: Key) -> int:
        """The number of a table; with no incomplete character it is the mode itself."""
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def numbered(self, number: int) -> Table:
        """A table by its number."""
        return self.table(self._keys[number])

    def after(self, number: int) -> Ids:
        """The number of the table after each token, -1 where the word has ended."""
        if number not in self._after:
            table = self.numbered(number)
            modes = table.modes.astype(np.int64)
            found = np.where(modes < DONE, modes, -1)
            for token in [t for t, rest in enumerate(table.pending) if rest]:
                found[token] = self.number((int(table.modes[token]), table.pending[token]))
            self._after[number] = found
        return self._after[number]

    def _build(self, key: Key) -> Table:
        everything = np.arange(len(self.pieces))
        if not key[1]:
            return _patched(
                self._nothing_but_ends(key), key, everything, self._states(key, everything)
            )
        going = np.array([t for t, piece in enumerate(self.pieces) if _goes_on(piece)], np.int64)
        return _patched(self._given_up(key), key, going, self._states(key, going))

    def _states(self, key: Key, tokens: Ids) -> list[State]:
        """The state after each token, from an empty word in the given mode."""
        mode, pending = key
        start = State(mode, "", "-" if mode == JOIN else "", pending)
        return [advance(start, self.pieces[token], self.lead) for token in tokens.tolist()]

    def _given_up(self, key: Key) -> Table:
        """What tokens do that do not go on with an incomplete character.

        The character then stands for one that is no letter: it ends a word, and leads to none.
        """
        if key[0] == LEAD and self.lead == "skip":
            return self.table((LEAD, b""))
        return self._nothing_but_ends(key)

    def _nothing_but_ends(self, key: Key) -> Table:
        size = len(self.pieces)
        modes = np.full(size, FAILED if key[0] == LEAD else DONE, dtype=np.uint8)
        blank, ids = ("",) * size, np.arange(size)
        return Table(key, modes, blank, blank, (b"",) * size, ids, ids[:0], {}, {})


def _goes_on(piece: bytes | None) -> bool:
    """Whether a token may be the next part of an incomplete character."""
    return piece is not None and (piece == b"" or 0x80 <= piece[0] < 0xC0)


def _patched(base: Table, key: Key, tokens: Ids, states: list[State]) -> Table:
    """The table `base` with the effects of some tokens replaced."""
    modes, added = base.modes.copy(), list(base.added)
    joiners, pending = list(base.joiners), list(base.pending)
    lead_joiner = "-" if key[0] == JOIN else ""
    for token, state in zip(tokens.tolist(), states, strict=True):
        modes[token], pending[token] = state.mode, state.pending
        added[token] = fold(state.word).removeprefix(lead_joiner) if state.word else ""
        undecided = state.mode == JOIN and (state.word or key[0] != JOIN)
        joiners[token] = fold(state.joiner) if undecided else ""
    kept = _without(base, tokens)
    fresh = _sorted_by_effect(key, tokens, modes, added, pending)
    ends, loose = (_ids(sorted([*old, *new])) for old, new in zip(kept[:2], fresh[:2], strict=True))
    grows, closes = (
        old | {s: _ids([*old.get(s, ()), *ids]) for s, ids in new.items()}
        for old, new in zip(kept[2:], fresh[2:], strict=True)
    )
    return Table(
        key, modes, tuple(added), tuple(joiners), tuple(pending), ends, loose, grows, closes
    )


def _without(
    base: Table, tokens: Ids
) -> tuple[list[int], list[int], dict[str, Ids], dict[str, Ids]]:
    """A table's lists without some tokens."""
    gone = np.zeros(len(base.modes), dtype=np.bool_)
    gone[tokens] = True
    touched = {base.added[token] for token in tokens.tolist()}
    grows, closes = (
        {s: ids[~gone[ids]] if s in touched else ids for s, ids in index.items()}
        for index in (base.grows, base.closes)
    )
    ends, loose = (ids[~gone[ids]].tolist() for ids in (base.ends, base.loose))
    return ends, loose, grows, closes


def _sorted_by_effect(
    key: Key, tokens: Ids, modes: NDArray[np.uint8], added: list[str], pending: list[bytes]
) -> tuple[list[int], list[int], dict[str, list[int]], dict[str, list[int]]]:
    ends: list[int] = []
    loose: list[int] = []
    grows: dict[str, list[int]] = defaultdict(list)
    closes: dict[str, list[int]] = defaultdict(list)
    for token, mode in zip(tokens.tolist(), modes[tokens].tolist(), strict=True):
        letters = added[token]
        if mode >= DONE and not letters:
            ends.append(token)
        elif mode == LEAD or pending[token] or _joins_backwards(letters, key[0]):
            loose.append(token)
        else:
            (closes if mode == DONE else grows)[letters].append(token)
    return ends, loose, grows, closes


def _joins_backwards(letters: str, mode: Mode) -> bool:
    """Whether the first character may change places with a mark before it.

    So does, after an undecided joiner, a token without any: it leaves the joiner undecided.
    """
    if not letters:
        return mode == JOIN
    return unicodedata.combining(letters[0]) > 0


def _ids(tokens: list[int]) -> Ids:
    return np.array(tokens, dtype=np.int64)


ROOT: Key = (LEAD, b"")


@dataclass(slots=True)
class Entry:
    """A token sequence with its mass, where it hangs, and how its word stands.

    `word` is the folded word so far, `joiner` an apostrophe or hyphen not yet decided, `number`
    the node's number once it is run (-1 before, and for the context itself).
    """

    mass: float
    parent: int
    token: int
    key: Key
    word: str = ""
    joiner: str = ""
    number: int = -1
    depth: int = 0

    @property
    def base(self) -> str:
        """The letters to which further letters are added."""
        return self.word + self.joiner


def root() -> Entry:
    """The context itself, with all the mass."""
    return Entry(1.0, -1, -1, ROOT)


def follow(entry: Entry, table: Table, token: int, mass: float) -> Entry:
    """The entry after one more token; its key's mode may be a settled one."""
    letters = table.added[token]
    key = (int(table.modes[token]), table.pending[token])
    if letters:
        word, joiner = fold(entry.base + letters), table.joiners[token]
    else:  # an incomplete character leaves an undecided joiner undecided
        word, joiner = entry.word, table.joiners[token] or entry.joiner
    return Entry(mass, entry.number, token, key, word, joiner, depth=entry.depth + 1)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i is `values[starts[i]:starts[i + 1]]`.

    >>> rows = Ragged.of([np.array([7, 8]), np.array([9])])
    >>> which, values = rows.take(np.array([1, 0, 0]))
    >>> which.tolist(), values.tolist()
    ([0, 1, 1, 2, 2], [9, 7, 8, 7, 8])
    """

    starts: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Ints]) -> Ragged:
        """The given rows."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
        values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        return cls(starts, values.astype(np.int64, copy=False))

    @classmethod
    def grouped(cls, owners: Ints, values: Ints, count: int) -> Ragged:
        """`values` collected by their owners 0..count-1, each in the order given."""
        order = np.argsort(owners, kind="stable")
        sizes = np.bincount(owners, minlength=count)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), values[order])

    def take(self, rows: Ints) -> tuple[Ints, Ints]:
        """The values of some rows, with which of the rows each belongs to."""
        counts = self.starts[rows + 1] - self.starts[rows]
        which = np.repeat(np.arange(len(rows)), counts)
        before = np.cumsum(counts) - counts
        places = np.arange(len(which)) + (self.starts[rows] - before)[which]
        return which, self.values[places]
