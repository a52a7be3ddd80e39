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

from .machine import Lead, Mode, State, advance, fold

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
    >>> vocabulary.table((Mode.WORD, b"")).ends.tolist()
    [0, 1, 3, 4]
    """

    def __init__(self, pieces: Sequence[bytes | None], lead: Lead = "skip") -> None:
        self.pieces = tuple(pieces)
        self.lead = lead
        self._tables: dict[Key, Table] = {}

    def __len__(self) -> int:
        return len(self.pieces)

    def table(self, key: Key) -> Table:
        """The table of a mode and the bytes of an incomplete character."""
        if key not in self._tables:
            self._tables[key] = self._build(key)
        return self._tables[key]

    def _build(self, key: Key) -> Table:
        states = list(self._states(key))
        modes = np.array([state.mode for state in states], dtype=np.uint8)
        joiner = _straight_joiner(key)
        added = tuple(fold(state.word).removeprefix(joiner) for state in states)
        joiners = tuple(fold(state.joiner) for state in states)
        pending = tuple(state.pending for state in states)
        return _table(key, modes, added, joiners, pending)

    def _states(self, key: Key) -> Iterable[State]:
        """The state after each token, from an empty word in the given mode."""
        mode, pending = key
        start = State(mode, "", "-" if mode is Mode.JOIN else "", pending)
        for piece in self.pieces:
            yield advance(start, piece, self.lead)


def _straight_joiner(key: Key) -> str:
    return "-" if key[0] is Mode.JOIN else ""


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
    for token, (mode, letters) in enumerate(zip(modes, added, strict=True)):
        if mode >= Mode.DONE and not letters:
            ends.append(token)
        elif mode == Mode.LEAD or pending[token] or _joins_backwards(letters):
            loose.append(token)
        elif mode == Mode.DONE:
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
