"""What every token of a vocabulary does to an unfinished word, worked out once.

A table belongs to a mode of the word machine (before the word, in it, after a joiner), and for
rare nodes also to the first bytes of an incomplete character. It says which tokens end the word at
once (a mask, so that their mass is one masked sum over the vocabulary), which continue it and
with what letters (an index by folded letters), and which leave it open in a way that letters
cannot tell: a lead that goes on, an incomplete character, a combining mark.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .machine import DONE, JOIN, LEAD, Lead, Mode, State, advance, fold

Ids = NDArray[np.int64]
Key = tuple[Mode, bytes]
"""A table's name: the mode, and the bytes of an incomplete character."""


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
        self._first: list[State] = []

    def __len__(self) -> int:
        return len(self.pieces)

    def table(self, key: Key) -> Table:
        """The table of a mode and the bytes of an incomplete character."""
        if key not in self._tables:
            self._tables[key] = self._build(key)
        return self._tables[key]

    def _build(self, key: Key) -> Table:
        states = list(self._states(key))
        joiner = "-" if key[0] == JOIN else ""
        modes = np.array([state.mode for state in states], dtype=np.uint8)
        added = tuple(fold(s.word).removeprefix(joiner) if s.word else "" for s in states)
        joiners = tuple(fold(s.joiner) if s.mode == JOIN else "" for s in states)
        return _table(key, modes, added, joiners, tuple(state.pending for state in states))

    def _states(self, key: Key) -> Iterable[State]:
        """The state after each token, from an empty word in the given mode.

        An incomplete character is given up when a token does not go on with it, and then stands
        for a character that is no letter.
        """
        mode, pending = key
        start = State(mode, "", "-" if mode == JOIN else "", pending)
        for token, piece in enumerate(self.pieces):
            if pending and not _goes_on(piece):
                yield self._given_up(start, token)
            else:
                yield advance(start, piece, self.lead)

    def _given_up(self, start: State, token: int) -> State:
        if start.mode != LEAD or self.lead == "condition":
            return advance(start, None)
        if not self._first:
            self._first = list(self._states((LEAD, b"")))
        return self._first[token]


def _goes_on(piece: bytes | None) -> bool:
    """Whether a token may be the next part of an incomplete character."""
    return piece is not None and (piece == b"" or 0x80 <= piece[0] < 0xC0)


def _table(
    key: Key,
    modes: NDArray[np.uint8],
    added: tuple[str, ...],
    joiners: tuple[str, ...],
    pending: tuple[bytes, ...],
) -> Table:
    grows: dict[str, list[int]] = defaultdict(list)
    closes: dict[str, list[int]] = defaultdict(list)
    ends: list[int] = []
    loose: list[int] = []
    for token, (mode, letters) in enumerate(zip(modes.tolist(), added, strict=True)):
        if mode >= DONE and not letters:
            ends.append(token)
        elif mode == LEAD or pending[token] or _joins_backwards(letters):
            loose.append(token)
        elif mode == DONE:
            closes[letters].append(token)
        else:
            grows[letters].append(token)
    lists = (_ids(ends), _ids(loose), _indexed(grows), _indexed(closes))
    return Table(key, modes, added, joiners, pending, *lists)


def _joins_backwards(letters: str) -> bool:
    """Whether the first character may change places with a mark before it."""
    return bool(letters) and unicodedata.combining(letters[0]) > 0


def _indexed(groups: dict[str, list[int]]) -> dict[str, Ids]:
    return {letters: _ids(tokens) for letters, tokens in groups.items()}


def _ids(tokens: list[int]) -> Ids:
    return np.array(tokens, dtype=np.int64)
