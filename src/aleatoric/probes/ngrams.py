"""Distances between texts by shared n-grams, for many inputs in a few array operations.

Two texts with n-grams A and B are 1 - (occurrences in A of types of B + occurrences in B of types
of A) / (|A| + |B|) apart: 1 where one of them has no n-gram, undefined (NaN) where neither has.

Symbols are whole numbers, and so are n-grams: one of order n is the pair of one of order n - 1 and
the symbol that follows, numbered anew within its input by a sort. Of a text's occurrences by type
a matrix product makes all pairs of an input. A type that only one text has is no overlap and left
out, which drops most types of the higher orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats, Ints

Counts = NDArray[np.float32]
"""Whole numbers that float32 holds exactly, as matrix products want them."""
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Symbols:
    """The symbols of texts, end to end, and how many each text has."""

    ids: Ints
    lengths: Ints


def numbered(texts: Sequence[Sequence[str]], fold: Callable[[str], str]) -> Symbols:
    """Number the symbols of texts; those that `fold` makes equal share a number.

    >>> numbered([["The", "cat"], ["the"]], str.lower)
    Symbols(ids=array([0, 1, 0]), lengths=array([2, 1]))
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    table = _Numbers(fold)
    flat = map(table.__getitem__, chain.from_iterable(texts))
    return Symbols(np.fromiter(flat, np.int64, int(lengths.sum())), lengths)


class _Numbers(dict[str, int]):
    """Symbol -> number; a new symbol is folded and numbered when it is first looked up."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        self._fold = fold
        self._folded: dict[str, int] = {}

    def __missing__(self, symbol: str) -> int:
        number = self._folded.setdefault(self._fold(symbol), len(self._folded))
        self[symbol] = number
        return number


@dataclass(frozen=True)
class Rung:
    """The n-grams of one order: type by type, and within a type text by text.

    `kind` numbers them by the place where they begin (places too near a text's end have none);
    `kinds` and `texts` are sorted, one entry an occurrence.
    """

    kind: Ints
    kinds: Ints
    texts: Ints

    @property
    def n_kinds(self) -> int:
        """How many types there are, over all inputs."""
        return int(self.kinds[-1]) + 1 if len(self.kinds) else 0


class Ladder:
    """N-grams of rising order of inputs that have as many texts each.

    >>> texts = [["a", "b"], ["a", "c"], ["b"], ["b"]]
    >>> ladder = Ladder(numbered(texts, str), sizes=(2,))
    >>> ladder.distances(1).tolist()
    [[[0.0, 0.5], [0.5, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]
    >>> ladder.distances(2)[0].tolist(), ladder.distances(2)[1].tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[nan, nan], [nan, nan]])
    """

    def __init__(self, symbols: Symbols, sizes: tuple[int, ...]) -> None:
        self._sizes, self._width = sizes, sum(sizes)
        self._lengths = symbols.lengths
        self._text = np.repeat(np.arange(len(symbols.lengths)), symbols.lengths)
        ends = np.repeat(np.cumsum(symbols.lengths), symbols.lengths)
        self._places = np.arange(len(symbols.ids))
        self._left = ends - self._places
        n_symbols = int(symbols.ids.max(initial=0)) + 1
        keys = (self._text // max(self._width, 1)) * n_symbols + symbols.ids
        self._rungs = [self._rung(keys, self._places)]

    def distances(self, order: int) -> Floats:
        """(inputs, texts, texts): how far apart the texts of each input are; NaN where undefined.

        Pairs of two systems are not looked at: NaN.
        """
        while len(self._rungs) < order:
            self._rungs.append(self._next())
        overlap = self._overlap(self._rungs[order - 1])
        grams = np.maximum(self._lengths - order + 1, 0).reshape(overlap.shape[:2])
        with np.errstate(invalid="ignore"):  # two texts without n-grams: 0 / 0
            found: Floats = 1 - overlap / (grams[:, :, None] + grams[:, None, :])
        diagonal = np.arange(self._width)
        found[:, diagonal, diagonal] = np.where(grams > 0, 0.0, np.nan)
        return found

    def _next(self) -> Rung:
        first, last = self._rungs[0], self._rungs[-1]
        order = len(self._rungs) + 1
        places = self._places[self._left >= order]
        # Numbers of n-grams differ between inputs already, and so do those of longer ones.
        keys = last.kind[places] * first.n_kinds + first.kind[places + order - 1]
        return self._rung(keys, places)

    def _rung(self, keys: Ints, places: Ints) -> Rung:
        keys, places = sorted_by(keys, places)
        kinds = np.cumsum(differs(keys)) - 1
        kind = np.empty(len(self._places), np.int64)
        kind[places] = kinds
        return Rung(kind, kinds, self._text[places])

    def _overlap(self, rung: Rung) -> Floats:
        """Pair by pair, occurrences in one text of types of the other, both ways."""
        counts = self._counts(rung)
        present = np.minimum(counts, 1)
        if len(self._sizes) <= 2:
            return _both_ways(counts, present)
        found = np.full((len(counts), self._width, self._width), np.nan)
        for rows in people_and_system(self._sizes):
            found[:, rows[:, None], rows] = _both_ways(counts[:, rows], present[:, rows])
        return found

    def _counts(self, rung: Rung) -> Counts:
        """(inputs, texts, types): occurrences of the types that several texts of an input have."""
        starts = np.flatnonzero(differs(rung.kinds) | differs(rung.texts))
        occurrences = np.diff(starts, append=len(rung.kinds))
        kinds, texts = rung.kinds[starts], rung.texts[starts]
        shared = np.bincount(kinds)[kinds] > 1 if len(kinds) else np.zeros(0, bool)
        return self._dense(kinds[shared], texts[shared], occurrences[shared])

    def _dense(self, kinds: Ints, texts: Ints, occurrences: Ints) -> Counts:
        n_inputs = len(self._lengths) // max(self._width, 1)
        columns = np.cumsum(differs(kinds)) - 1
        inputs = texts // max(self._width, 1)
        # The types of an input lie together: its columns are counted from its first one.
        starts = np.flatnonzero(differs(inputs))
        columns -= np.repeat(columns[starts], np.diff(starts, append=len(inputs)))
        n_columns = int(columns.max(initial=-1)) + 1
        found = np.zeros((n_inputs, self._width, n_columns), np.float32)
        found.reshape(-1)[texts * n_columns + columns] = occurrences
        return found


def people_and_system(sizes: tuple[int, ...]) -> Iterable[Ints]:
    """The rows of people and of one system, system by system.

    >>> [rows.tolist() for rows in people_and_system((2, 1, 2))]
    [[0, 1, 2], [0, 1, 3, 4]]
    """
    people, *_ = ends = np.cumsum(sizes).tolist()
    for start, stop in pairwise(ends):
        yield np.concatenate([np.arange(people), np.arange(start, stop)])


def _both_ways(counts: Counts, present: Counts) -> Floats:
    one_way = np.matmul(counts, present.transpose(0, 2, 1))
    found: Floats = np.add(one_way, one_way.transpose(0, 2, 1), dtype=np.float64)
    return found


def sorted_by(keys: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Keys and places sorted by key, then by place; neither may be negative.

    >>> [column.tolist() for column in sorted_by(np.array([5, 3, 5]), np.array([1, 2, 7]))]
    [[3, 5, 5], [2, 1, 7]]
    """
    bits = int(places.max(initial=0)).bit_length()
    if bits + int(keys.max(initial=0)).bit_length() > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], places[order]
    # Both in one number: sorting numbers is several times faster than sorting places by them.
    both = np.sort((keys << bits) | places)
    return both >> bits, both & ((1 << bits) - 1)


def differs(values: Ints) -> Flags:
    """Where a value differs from the one before it; the first does.

    >>> differs(np.array([4, 4, 5])).tolist()
    [True, False, True]
    """
    found = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


class CompiledLadder:
    """N-grams of rising order of inputs that have as many texts each."""

    def __init__(self, symbols: Symbols, sizes: tuple[int, ...]) -> None:
        self._symbols = symbols
        self._parts = np.repeat(np.arange(len(sizes)), sizes)
        self._n_symbols = int(symbols.ids.max(initial=0)) + 1
        self._kinds = np.zeros(len(symbols.ids), np.int64)
        self._climbed: list[Floats] = []

    def distances(self, order: int) -> Floats:
        """(inputs, texts, texts): as `ngrams.Ladder.distances`."""
        while len(self._climbed) < order:
            self._climbed.append(self._next(len(self._climbed) + 1))
        return self._climbed[order - 1]

    def _next(self, order: int) -> Floats:
        from aleatoric.probes.ngrams_jit import climb

        ids, lengths, width = self._symbols.ids, self._symbols.lengths, len(self._parts)
        found = np.empty((len(lengths) // max(width, 1), width, width))
        climb(self._kinds, ids, self._n_symbols, lengths, self._parts, order, found)
        return found
