"""Prefixes of the words asked about, numbered, and the tokens that lead from one to another."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.nextword.rules import JOINS, LEAD, fold, normalise
from aleatoric.types import Bools, Ints

if TYPE_CHECKING:
    from aleatoric.nextword.vocabulary import Vocabulary

MARKS = 6
"""A letter with more combining marks than this is matched with its marks in their order only."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row i is `values[starts[i]:starts[i + 1]]`."""

    starts: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Ints]) -> Ragged:
        """Store the given rows."""
        return cls(np.cumsum([0, *map(len, rows)]), np.concatenate([_NONE, *rows]))

    @classmethod
    def grouped(cls, owners: Ints, values: Ints, count: int) -> Ragged:
        """Collect `values` by their owners 0..count-1, each in the order given."""
        order = np.argsort(owners, kind="stable")
        sizes = np.bincount(owners, minlength=count)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), values[order])

    def take(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return (which of `rows` a value belongs to, value) for all values of some rows."""
        counts = self.starts[rows + 1] - self.starts[rows]
        which = np.repeat(np.arange(len(rows)), counts)
        places = np.arange(len(which)) + (self.starts[rows] - np.cumsum(counts) + counts)[which]
        return which, self.values[places]


class Beginnings:
    """Numbers every folded prefix of every word; 0 is the empty prefix.

    `letters[i]` is the i-th prefix, `paths` holds the numbers of each word's prefixes, `ends[j]`
    is the number of the j-th word itself.
    """

    def __init__(self, words: Sequence[str]) -> None:
        folded = [fold(normalise(word)) for word in words]
        self._numbers = {"": 0}
        paths: dict[str, Ints] = {}
        for word in dict.fromkeys([*sorted(filter(str.isascii, folded)), *folded]):
            prefixes = dict.fromkeys(beginnings(word))
            path = [self._numbers.setdefault(p, len(self._numbers)) for p in prefixes]
            paths[word] = np.array(path, dtype=np.int64)
        self.letters = list(self._numbers)
        self.paths = Ragged.of([paths[word] for word in folded])
        self.ends = np.array([self._numbers[word] for word in folded], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.letters)

    def find(self, letters: str) -> int:
        """Return the number of a prefix, -1 if no word starts with it."""
        return self._numbers.get(letters, -1)

    @cached_property
    def joined(self) -> Ints:
        """`joined[i, j]`: the i-th prefix followed by the j-th of `JOINS`; -1 for none."""
        table = np.full((len(self), len(JOINS)), -1, dtype=np.int64)
        table[:, 0] = np.arange(len(self))
        for number, letters in enumerate(self.letters):
            if letters[-1:] in JOINS[1:] and letters[:-1] in self._numbers:
                table[self._numbers[letters[:-1]], JOINS.index(letters[-1])] = number
        return table

    @cached_property
    def lengths(self) -> Ints:
        """The number of letters of each prefix."""
        return np.array([len(letters) for letters in self.letters], dtype=np.int64)


def beginnings(folded: str) -> Iterator[str]:
    """Yield every string that a prefix of the word may fold to, including "" and the word.

    Folding sorts the marks on a letter, so a text that has written only some of them stands at the
    letter with any subset of its marks.
    """
    if folded.isascii():
        yield from (folded[:stop] for stop in range(len(folded) + 1))
        return
    yield ""
    starts = [i for i, c in enumerate(folded) if i == 0 or not unicodedata.combining(c)]
    for start, stop in zip(starts, [*starts[1:], len(folded)], strict=True):
        base, marks = folded[: start + 1], folded[start + 1 : stop]
        if len(marks) > MARKS:
            yield from (base + marks[:size] for size in range(len(marks) + 1))
            continue
        for size in range(len(marks) + 1):
            for chosen in itertools.combinations(marks, size):
                yield base + "".join(chosen)


@dataclass(frozen=True, eq=False)
class Cells:
    """The prefixes of each context's own words: a cell is a context at a prefix.

    `owner` (the context), `beginning` and `completes` (a place among the words, or -1) describe the
    cells in ascending order of (context, prefix); `through` are the places of the words that a text
    at a cell can still become, `of_context` the cells of each context.
    """

    owner: Ints
    beginning: Ints
    completes: Ints
    through: Ragged
    of_context: Ragged
    _codes: Ints
    _size: int

    @classmethod
    def of(cls, beginnings: Beginnings, words: Ints, owners: Ints, contexts: int) -> Cells:
        """Build the cells of contexts that ask about `words` (places in `beginnings`)."""
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
        return cls(owner, beginning, completes, through, of_context, codes, size)

    def __len__(self) -> int:
        return len(self.beginning)

    def find(self, owners: Ints, beginnings: Ints) -> Ints:
        """Return the cells of contexts at prefixes, -1 where a context has no such prefix."""
        codes = owners * self._size + beginnings
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        good: Bools = (beginnings >= 0) & (self._codes[places] == codes)
        return np.where(good, places, -1)


Effect = Literal["grows", "closes"]
"""Tokens that leave the word open at the target, or that end it there (fields of tables)."""
_NONE = np.zeros(0, dtype=np.int64)


class TokenPlans:
    """Finds tokens by (table, current prefix of a text, target prefix)."""

    def __init__(self, vocabulary: Vocabulary, beginnings: Beginnings) -> None:
        self._vocabulary, self._beginnings = vocabulary, beginnings
        self._from_start: dict[Effect, Ragged] = {}
        self._known: dict[Effect, dict[int, Ints]] = {"grows": {}, "closes": {}}

    def tokens(self, effect: Effect, tables: Ints, bases: Ints, targets: Ints) -> tuple[Ints, Ints]:
        """Return (which of the given steps, token) for every token that makes one of them."""
        start = (bases == 0) & (tables == LEAD)
        first, others = np.flatnonzero(start), np.flatnonzero(~start)
        if effect not in self._from_start:
            # The tokens that write each prefix right after a context, which is the common case.
            index = getattr(self._vocabulary.numbered(LEAD), effect)
            rows = [index.get(letters, _NONE) for letters in self._beginnings.letters]
            self._from_start[effect] = Ragged.of(rows)
        which, begun = self._from_start[effect].take(targets[first])
        inside, going = self._inside(effect, tables[others], bases[others], targets[others])
        return np.concatenate([first[which], others[inside]]), np.concatenate([begun, going])

    def _inside(
        self, effect: Effect, tables: Ints, bases: Ints, targets: Ints
    ) -> tuple[Ints, Ints]:
        size = len(self._beginnings)
        # If the text is already at its target, the prefix does not matter.
        staying = bases == targets
        bases, targets = np.where(staying, 0, bases), np.where(staying, 0, targets)
        codes, which = np.unique((tables * size + bases) * size + targets, return_inverse=True)
        cached, letters = self._known[effect], self._beginnings.letters
        for code in codes.tolist():
            if code not in cached:
                table, steps = divmod(code, size * size)
                before, after = letters[steps // size], letters[steps % size]
                index = getattr(self._vocabulary.numbered(table), effect)
                grown = after.startswith(before)
                cached[code] = index.get(after[len(before) :], _NONE) if grown else _NONE
        return Ragged.of([cached[code] for code in codes.tolist()]).take(which)
