"""Distances between texts by shared n-grams, for many inputs in a few array operations.

The distance of two texts with n-grams A and B is 1 - (occurrences in A of types of B + occurrences
in B of types of A) / (|A| + |B|): 1 if one of them has no n-gram, undefined (NaN) if neither has.

An n-gram of order n is the pair of one of order n - 1 and the next symbol, numbered within its
input. Types that only one text has never overlap and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats, Ints

Counts = NDArray[np.float32]
"""Integers that float32 represents exactly, for matrix products."""
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Symbols:
    """The symbols of texts, concatenated, and the number of symbols of each text."""

    ids: Ints
    lengths: Ints


def numbered(texts: Sequence[Sequence[str]], fold: Callable[[str], str]) -> Symbols:
    """Number the symbols of texts; symbols that are equal after `fold` share a number."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    folded: dict[str, int] = {}

    @cache
    def number(symbol: str) -> int:
        return folded.setdefault(fold(symbol), len(folded))

    flat = map(number, chain.from_iterable(texts))
    return Symbols(np.fromiter(flat, np.int64, int(lengths.sum())), lengths)


class Ngrams(NamedTuple):
    """The n-grams of one order, sorted by type and within a type by text.

    `kind` maps the position where an n-gram starts to its type (positions too near a text's end
    have none); `kinds` and `texts` are sorted, one entry per occurrence.
    """

    kind: Ints
    kinds: Ints
    texts: Ints


class ArrayNgrams:
    """N-gram distances for inputs with the same numbers of texts, by array operations."""

    def __init__(self, symbols: Symbols, sizes: tuple[int, ...]) -> None:
        self._sizes, self._width = sizes, sum(sizes)
        self._lengths = symbols.lengths
        self._text = np.repeat(np.arange(len(symbols.lengths)), symbols.lengths)
        ends = np.repeat(np.cumsum(symbols.lengths), symbols.lengths)
        self._places = np.arange(len(symbols.ids))
        self._left = ends - self._places
        n_symbols = int(symbols.ids.max(initial=0)) + 1
        keys = (self._text // max(self._width, 1)) * n_symbols + symbols.ids
        self._orders = [self._sorted_ngrams(keys, self._places)]

    def distances(self, order: int) -> Floats:
        """(inputs, texts, texts) distances; NaN if undefined, and between two systems."""
        while (last := len(self._orders)) < order:
            places = self._places[self._left > last]
            # Numbers of n-grams differ between inputs, and so do those of longer ones.
            n_kinds = int(self._orders[0].kinds.max(initial=-1)) + 1
            keys = self._orders[-1].kind[places] * n_kinds + self._orders[0].kind[places + last]
            self._orders.append(self._sorted_ngrams(keys, places))
        overlap = self._overlap(self._orders[order - 1])
        grams = np.maximum(self._lengths - order + 1, 0).reshape(overlap.shape[:2])
        with np.errstate(invalid="ignore"):  # two texts without n-grams: 0 / 0
            distances: Floats = 1 - overlap / (grams[:, :, None] + grams[:, None, :])
        diagonal = np.arange(self._width)
        distances[:, diagonal, diagonal] = np.where(grams > 0, 0.0, np.nan)
        return distances

    def _sorted_ngrams(self, keys: Ints, places: Ints) -> Ngrams:
        keys, places = sorted_by(keys, places)
        kinds = np.cumsum(differs(keys)) - 1
        kind = np.empty(len(self._places), np.int64)
        kind[places] = kinds
        return Ngrams(kind, kinds, self._text[places])

    def _overlap(self, ngrams: Ngrams) -> Floats:
        """Occurrences in one text of types of the other, in both directions, per pair."""
        counts = self._counts(ngrams)
        present = np.minimum(counts, 1)
        if len(self._sizes) <= 2:
            return _both_ways(counts, present)
        overlaps = np.full((len(counts), self._width, self._width), np.nan)
        people, *_ = ends = np.cumsum(self._sizes).tolist()
        for start, stop in pairwise(ends):  # the rows of people and of each system
            rows = np.concatenate([np.arange(people), np.arange(start, stop)])
            overlaps[:, rows[:, None], rows] = _both_ways(counts[:, rows], present[:, rows])
        return overlaps

    def _counts(self, ngrams: Ngrams) -> Counts:
        """(inputs, texts, types): occurrences of the types that several texts of an input have."""
        starts = np.flatnonzero(differs(ngrams.kinds) | differs(ngrams.texts))
        occurrences = np.diff(starts, append=len(ngrams.kinds))
        kinds, texts = ngrams.kinds[starts], ngrams.texts[starts]
        shared = np.bincount(kinds)[kinds] > 1 if len(kinds) else np.zeros(0, bool)
        kinds, texts, occurrences = kinds[shared], texts[shared], occurrences[shared]
        n_inputs = len(self._lengths) // max(self._width, 1)
        columns = np.cumsum(differs(kinds)) - 1
        inputs = texts // max(self._width, 1)
        # The types of an input are adjacent: its columns are counted from its first one.
        starts = np.flatnonzero(differs(inputs))
        columns -= np.repeat(columns[starts], np.diff(starts, append=len(inputs)))
        n_columns = int(columns.max(initial=-1)) + 1
        counts = np.zeros((n_inputs, self._width, n_columns), np.float32)
        counts.reshape(-1)[texts * n_columns + columns] = occurrences
        return counts


def _both_ways(counts: Counts, present: Counts) -> Floats:
    one_way = np.matmul(counts, present.transpose(0, 2, 1))
    total: Floats = np.add(one_way, one_way.transpose(0, 2, 1), dtype=np.float64)
    return total


def sorted_by(keys: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Keys and places sorted by key, then by place; neither may be negative."""
    bits = int(places.max(initial=0)).bit_length()
    if bits + int(keys.max(initial=0)).bit_length() > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], places[order]
    # Both in one number: sorting is several times faster than an argsort.
    packed = np.sort((keys << bits) | places)
    return packed >> bits, packed & ((1 << bits) - 1)


def differs(values: Ints) -> Flags:
    """Whether each value differs from the one before it; True for the first."""
    flags = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=flags[1:])
    return flags


class CompiledNgrams:
    """The same distances, compiled with numba."""

    def __init__(self, symbols: Symbols, sizes: tuple[int, ...]) -> None:
        self._symbols = symbols
        self._parts = np.repeat(np.arange(len(sizes)), sizes)
        self._n_symbols = int(symbols.ids.max(initial=0)) + 1
        self._kinds = np.zeros(len(symbols.ids), np.int64)
        self._distances: list[Floats] = []

    def distances(self, order: int) -> Floats:
        """(inputs, texts, texts): as `ArrayNgrams.distances`."""
        from aleatoric.probes.ngrams_jit import climb

        ids, lengths, width = self._symbols.ids, self._symbols.lengths, len(self._parts)
        while (last := len(self._distances)) < order:
            matrices = np.empty((len(lengths) // max(width, 1), width, width))
            climb(self._kinds, ids, self._n_symbols, lengths, self._parts, last + 1, matrices)
            self._distances.append(matrices)
        return self._distances[order - 1]
