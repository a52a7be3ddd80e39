"""What the probes of one run share: each text of a batch is cut and tagged once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from aleatoric.nlp.taggers import TextTagger
from aleatoric.nlp.tokenisers import Tokeniser
from aleatoric.probes.base import Block
from aleatoric.probes.kernels.compiled import CompiledLadder
from aleatoric.probes.ngrams import Ladder, Symbols, numbered
from aleatoric.types import Floats, Ints

Tokens = list[str]
TokensOf = Callable[[Iterable[str]], dict[str, Tokens]]
"""Texts -> the tokens of each distinct one."""
CHUNK = 128
"""Inputs that are worked through at once: their arrays fit in a core's cache."""
PLACES = 2**17
"""Most tokens of a chunk, if every input had as many as its longest."""


class Reader:
    """Cuts, tags and numbers the texts of a batch when they are first asked for.

    It remembers the latest batch, for which every probe of a run asks in its turn, and the tokens
    of the texts that it was last told to remember.
    """

    def __init__(self, tokeniser: Tokeniser, tagger: TextTagger) -> None:
        self._tokeniser, self._tagger = tokeniser, tagger
        self._remembered: dict[str, Tokens] = {}
        self._batch = Batch((), self.tokens, tagger)

    @property
    def label(self) -> str:
        """The name of the tokeniser, for signatures."""
        return self._tokeniser.label

    def read(self, blocks: Sequence[Block]) -> Batch:
        """The batch of these blocks."""
        if self._batch.blocks != tuple(blocks):
            self._batch = Batch(tuple(blocks), self.tokens, self._tagger)
        return self._batch

    def remember(self, texts: Iterable[str]) -> None:
        """Keep the tokens of these texts, and of no others, so that they are cut only once."""
        self._remembered = self.tokens(texts)

    def tokens(self, texts: Iterable[str]) -> dict[str, Tokens]:
        """Each distinct text's tokens."""
        distinct = list(dict.fromkeys(texts))
        new = [text for text in distinct if text not in self._remembered]
        known = self._remembered | dict(zip(new, self._tokeniser.cut(new), strict=True))
        return {text: known[text] for text in distinct}


class Batch:
    """The texts of some blocks, as tokens and tags."""

    def __init__(self, blocks: tuple[Block, ...], tokens_of: TokensOf, tagger: TextTagger) -> None:
        self.blocks = blocks
        self._tokens_of, self._tagger = tokens_of, tagger

    def lexical(self, order: int) -> list[Floats]:
        """Block by block the distances by n-grams of lower-cased tokens."""
        return _matrices(self._words, order, len(self.blocks))

    def syntactic(self, order: int) -> list[Floats]:
        """Block by block the distances by n-grams of part-of-speech tags."""
        return _matrices(self._classes, order, len(self.blocks))

    @cached_property
    def tokens(self) -> dict[str, Tokens]:
        """Each distinct text's tokens."""
        return self._tokens_of(text for block in self.blocks for text in block.texts)

    @cached_property
    def tags(self) -> dict[str, list[str]]:
        """Each distinct text's tags."""
        return dict(zip(self.tokens, self._tagger(list(self.tokens.values())), strict=True))

    @cached_property
    def _words(self) -> list[Rows]:
        return self._ladders(self.tokens, str.lower)

    @cached_property
    def _classes(self) -> list[Rows]:
        return self._ladders(self.tags, str)

    def _ladders(self, symbols: dict[str, list[str]], fold: Callable[[str], str]) -> list[Rows]:
        shapes = [block.sizes for block in self.blocks]
        texts = [symbols[text] for block in self.blocks for text in block.texts]
        n_texts = np.fromiter(map(sum, shapes), np.int64, len(shapes))
        everything = Divided(numbered(texts, fold), n_texts)
        return [
            (rows, climbing(everything.of(rows), shapes[rows[0]]))
            for rows in chunks(shapes, everything.sizes.tolist())
            if sum(shapes[rows[0]])
        ]


class Climbing(Protocol):
    """N-grams of rising order of inputs of one shape."""

    def distances(self, order: int) -> Floats:
        """(inputs, texts, texts): how far apart the texts of each input are."""
        ...


def climbing(symbols: Symbols, sizes: tuple[int, ...]) -> Climbing:
    """The compiled n-grams where numba is installed, else those of array operations.

    Both give the same bits.
    """
    return CompiledLadder(symbols, sizes) if find_spec("numba") else Ladder(symbols, sizes)


class Divided:
    """The symbols of a batch, divided into blocks of so many texts.

    >>> batch = Divided(Symbols(np.array([7, 8, 9]), np.array([1, 0, 2])), np.array([1, 2]))
    >>> batch.sizes.tolist(), batch.of([1])
    ([1, 2], Symbols(ids=array([8, 9]), lengths=array([0, 2])))
    """

    def __init__(self, symbols: Symbols, n_texts: Ints) -> None:
        self._symbols = symbols
        self._texts = _bounds(n_texts)
        self._places = _bounds(symbols.lengths)[self._texts]
        self.sizes = np.diff(self._places)

    def of(self, rows: Sequence[int]) -> Symbols:
        """The symbols of some blocks alone."""
        ids = [self._symbols.ids[self._places[r] : self._places[r + 1]] for r in rows]
        lengths = [self._symbols.lengths[self._texts[r] : self._texts[r + 1]] for r in rows]
        return Symbols(np.concatenate(ids), np.concatenate(lengths))


def _bounds(sizes: Ints) -> Ints:
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), sizes]))


Rows = tuple[list[int], Climbing]
"""Which blocks of a batch, all of one shape; and their n-grams."""


def chunks(shapes: Sequence[Hashable], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Rows of one shape, in chunks that are not too large; the order within a shape stays.

    >>> list(chunks(["a", "b", "a"], [1, 1, 1]))
    [[0, 2], [1]]
    """
    groups: dict[Hashable, list[int]] = {}
    for row, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(row)
    for rows in groups.values():
        yield from _limited(rows, sizes)


def _limited(rows: list[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    chunk: list[int] = []
    largest = 0
    for row in rows:
        largest = max(largest, sizes[row])
        if chunk and (len(chunk) == CHUNK or largest * (len(chunk) + 1) > PLACES):
            yield chunk
            chunk, largest = [], sizes[row]
        chunk.append(row)
    yield chunk


def _matrices(ladders: list[Rows], order: int, n_blocks: int) -> list[Floats]:
    found: list[Floats] = [np.empty((0, 0))] * n_blocks
    for rows, ladder in ladders:
        for row, matrix in zip(rows, ladder.distances(order), strict=True):
            found[row] = matrix
    return found
