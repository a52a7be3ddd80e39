"""The words asked about, and the beginnings through which a text can reach them."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import UsageError
from aleatoric.nextword.rules import normalise
from aleatoric.nextword.vocabulary import JOINS, LEAD, Ragged, Vocabulary, fold
from aleatoric.types import Ints

MARKS = 6
"""A letter with more marks than this is looked for with its marks in their order alone."""


LONG = 64
"""Words with more letters are numbered one by one: a table of letters is as wide as the longest."""


class Beginnings:
    """Every folded beginning of every word has a number; 0 is the empty one.

    `letters[i]` is the i-th beginning, `paths` holds the numbers of each word's beginnings, and
    `ends[j]` the number of the j-th word itself. A word that many contexts ask about is here once.

    >>> found = Beginnings(["many", "man"])
    >>> found.letters
    ['', 'm', 'ma', 'man', 'many']
    >>> found.paths.take(np.array([1]))[1].tolist(), found.ends.tolist()
    ([0, 1, 2, 3], [4, 3])
    """

    def __init__(self, words: Sequence[str]) -> None:
        folded = [fold(normalise(word)) for word in words]
        plain = sorted(word for word in set(folded) if word.isascii() and len(word) <= LONG)
        self.letters, rows = _plain_beginnings(plain)
        paths = dict(zip(plain, rows, strict=True))
        self._numbers = {letters: number for number, letters in enumerate(self.letters)}
        for word in folded:
            if word not in paths:
                path = [self._number(b) for b in dict.fromkeys(beginnings(word))]
                paths[word] = np.array(path, dtype=np.int64)
        self.paths = Ragged.of([paths[word] for word in folded])
        self.ends = np.array([self._numbers[word] for word in folded], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.letters)

    def _number(self, letters: str) -> int:
        number = self._numbers.setdefault(letters, len(self.letters))
        if number == len(self.letters):
            self.letters.append(letters)
        return number

    def find(self, letters: str) -> int:
        """The number of a beginning, -1 for what begins no word."""
        return self._numbers.get(letters, -1)

    @cached_property
    def joined(self) -> Ints:
        """`joined[i, j]`: the i-th beginning with the j-th of `JOINS` behind it; -1 for none."""
        found = np.full((len(self), len(JOINS)), -1, dtype=np.int64)
        found[:, 0] = np.arange(len(self))
        for number, letters in enumerate(self.letters):
            if letters[-1:] in JOINS[1:] and letters[:-1] in self._numbers:
                found[self._numbers[letters[:-1]], JOINS.index(letters[-1])] = number
        return found

    @cached_property
    def lengths(self) -> Ints:
        """How many letters each beginning has."""
        return np.array([len(letters) for letters in self.letters], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Cells:
    """The beginnings of each context's own words: a cell is a context at a beginning.

    `beginning` and `completes` (a place among the words, or -1) describe the cells in ascending
    order of (context, beginning); `through` are the places of the words that a text at a
    cell can still become, `of_context` the cells of each context.
    """

    beginning: Ints
    completes: Ints
    through: Ragged
    of_context: Ragged
    _codes: Ints
    _size: int

    @classmethod
    def of(cls, beginnings: Beginnings, words: Ints, owners: Ints, contexts: int) -> Cells:
        """The cells of contexts that ask about `words` (places in `beginnings`)."""
        size = len(beginnings)
        place, path = beginnings.paths.take(words)
        codes, cell = np.unique(owners[place] * size + path, return_inverse=True)
        ends = owners * size + beginnings.ends[words]
        completes = np.full(len(codes), -1, dtype=np.int64)
        completes[np.searchsorted(codes, ends)] = np.arange(len(words))
        if (completes >= 0).sum() < len(words):
            raise UsageError("two of the words asked about differ only in case or form.")
        owner, beginning = np.divmod(codes, size)
        through = Ragged.grouped(cell, place, len(codes))
        of_context = Ragged.grouped(owner, np.arange(len(codes)), contexts)
        return cls(beginning, completes, through, of_context, codes, size)

    def __len__(self) -> int:
        return len(self.beginning)

    def find(self, owners: Ints, beginnings: Ints) -> Ints:
        """The cells of contexts at beginnings, -1 where a context has no such beginning."""
        codes = owners * self._size + beginnings
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        good: NDArray[np.bool_] = (beginnings >= 0) & (self._codes[places] == codes)
        return np.where(good, places, -1)


def _plain_beginnings(words: Sequence[str]) -> tuple[list[str], list[Ints]]:
    """All beginnings of sorted ASCII words, the empty one first, and those of each word.

    Sorted, a word begins as the one before it up to some letter: the beginnings up to there have
    numbers already, and those behind it get the next ones.

    >>> letters, paths = _plain_beginnings(["a", "ab"])
    >>> letters, [path.tolist() for path in paths]
    (['', 'a', 'ab'], [[0, 1], [0, 1, 2]])
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    width = int(lengths.max(initial=0)) + 1
    table = np.array(words, dtype=f"S{width}").view(np.uint8).reshape(-1, width)
    same = np.zeros(table.shape, dtype=np.bool_)
    same[1:] = np.logical_and.accumulate(table[1:] == table[:-1], axis=1)
    size = 1 + np.arange(width)  # of the beginning that ends in a column
    fresh = ~same & (size <= lengths[:, None])
    number = np.maximum.accumulate(np.cumsum(fresh).reshape(fresh.shape) * fresh, axis=0)
    row, column = np.nonzero(fresh)
    letters = [words[i][:stop] for i, stop in zip(row.tolist(), (column + 1).tolist(), strict=True)]
    paths = np.column_stack([np.zeros(len(words), dtype=np.int64), number])
    stops = (lengths + 1).tolist()
    return ["", *letters], [path[:stop] for path, stop in zip(paths, stops, strict=True)]


def beginnings(folded: str) -> Iterator[str]:
    """Every string that a beginning of the word may fold to, the empty one and itself included.

    Marks on one letter are kept in a fixed order, so a text that has written only some of them
    stands at the letter with any of its marks.

    >>> list(beginnings("ab"))
    ['', 'a', 'ab']
    """
    if folded.isascii():
        yield from (folded[:stop] for stop in range(len(folded) + 1))
        return
    yield ""
    for start, stop in _clusters(folded):
        base, marks = folded[: start + 1], folded[start + 1 : stop]
        if len(marks) > MARKS:
            yield from (base + marks[:size] for size in range(len(marks) + 1))
            continue
        for size in range(len(marks) + 1):
            for chosen in itertools.combinations(marks, size):
                yield base + "".join(chosen)


def _clusters(folded: str) -> Iterable[tuple[int, int]]:
    """(start, stop) of each character with the combining marks after it."""
    starts = [i for i, c in enumerate(folded) if i == 0 or not unicodedata.combining(c)]
    return zip(starts, [*starts[1:], len(folded)], strict=True)


Kind = Literal["grows", "closes"]
"""Tokens that leave the word open at the target, or that end it there."""
_NONE = np.zeros(0, dtype=np.int64)


class Plans:
    """Tokens by (table, beginning where a text stands, beginning where it is to stand)."""

    def __init__(self, vocabulary: Vocabulary, beginnings: Beginnings) -> None:
        self._vocabulary = vocabulary
        self._beginnings = beginnings
        self._from_start: dict[Kind, Ragged] = {}
        self._known: dict[Kind, dict[int, Ints]] = {"grows": {}, "closes": {}}

    def tokens(self, kind: Kind, tables: Ints, bases: Ints, targets: Ints) -> tuple[Ints, Ints]:
        """(which of the given steps, token) for every token that makes one of them."""
        start = (bases == 0) & (tables == LEAD)
        first, others = np.flatnonzero(start), np.flatnonzero(~start)
        which, begun = self._starting(kind).take(targets[first])
        inside, going = self._inside(kind, tables[others], bases[others], targets[others])
        return np.concatenate([first[which], others[inside]]), np.concatenate([begun, going])

    def _starting(self, kind: Kind) -> Ragged:
        """The tokens that write each beginning right after a context: asked for most often."""
        if kind not in self._from_start:
            index = self._index(kind, LEAD)
            rows = [index.get(letters, _NONE) for letters in self._beginnings.letters]
            self._from_start[kind] = Ragged.of(rows)
        return self._from_start[kind]

    def _inside(self, kind: Kind, tables: Ints, bases: Ints, targets: Ints) -> tuple[Ints, Ints]:
        size = len(self._beginnings)
        # Where the text stands at its target already, the beginning does not matter.
        staying = bases == targets
        bases, targets = np.where(staying, 0, bases), np.where(staying, 0, targets)
        codes, which = np.unique((tables * size + bases) * size + targets, return_inverse=True)
        known = self._known[kind]
        self._learn(kind, [code for code in codes.tolist() if code not in known])
        return Ragged.of([known[code] for code in codes.tolist()]).take(which)

    def _learn(self, kind: Kind, codes: list[int]) -> None:
        """Look up steps not met before."""
        rest, targets = np.divmod(np.array(codes, dtype=np.int64), len(self._beginnings))
        tables, bases = np.divmod(rest, len(self._beginnings))
        letters, known = self._beginnings.letters, self._known[kind]
        indices = {table: self._index(kind, table) for table in np.unique(tables).tolist()}
        steps = zip(codes, tables.tolist(), bases.tolist(), targets.tolist(), strict=True)
        for code, table, base, target in steps:
            before, after = letters[base], letters[target]
            there = after.startswith(before)
            known[code] = indices[table].get(after[len(before) :], _NONE) if there else _NONE

    def _index(self, kind: Kind, table: int) -> dict[str, Ints]:
        found = self._vocabulary.numbered(table)
        return found.grows if kind == "grows" else found.closes
