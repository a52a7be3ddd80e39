"""What the probes of one run share: each text of a batch is cut and tagged once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property

import numpy as np

from aleatoric.nlp.taggers import TextTagger
from aleatoric.nlp.tokenisers import Tokeniser
from aleatoric.probes.base import Block, Floats
from aleatoric.probes.ngrams import Ladder, numbered

Tokens = list[str]
CHUNK = 128
"""Inputs that are worked through at once: their arrays fit in a core's cache."""
PLACES = 2**17
"""Most tokens of a chunk, if every input had as many as its longest."""


class Reader:
    """Cuts, tags and numbers the texts of a batch when they are first asked for.

    It remembers the latest batch, for which every probe of a run asks in its turn.
    """

    def __init__(self, tokeniser: Tokeniser, tagger: TextTagger) -> None:
        self._tokeniser, self._tagger = tokeniser, tagger
        self._batch = Batch((), tokeniser, tagger)

    def read(self, blocks: Sequence[Block]) -> Batch:
        """The batch of these blocks."""
        if self._batch.blocks != tuple(blocks):
            self._batch = Batch(tuple(blocks), self._tokeniser, self._tagger)
        return self._batch


class Batch:
    """The texts of some blocks, as tokens and tags."""

    def __init__(self, blocks: tuple[Block, ...], tokeniser: Tokeniser, tagger: TextTagger) -> None:
        self.blocks = blocks
        self._tokeniser, self._tagger = tokeniser, tagger

    def lexical(self, order: int) -> list[Floats]:
        """Block by block the distances by n-grams of lower-cased tokens."""
        return _matrices(self._words, order, len(self.blocks))

    def syntactic(self, order: int) -> list[Floats]:
        """Block by block the distances by n-grams of part-of-speech tags."""
        return _matrices(self._classes, order, len(self.blocks))

    @cached_property
    def tokens(self) -> dict[str, Tokens]:
        """Each distinct text's tokens."""
        texts = list(dict.fromkeys(text for block in self.blocks for text in block.texts))
        return dict(zip(texts, self._tokeniser.cut(texts), strict=True))

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
        sizes = [sum(len(symbols[text]) for text in block.texts) for block in self.blocks]
        return [
            (rows, Ladder(numbered(self._texts(rows, symbols), fold), self.blocks[rows[0]].sizes))
            for rows in chunks([block.sizes for block in self.blocks], sizes)
            if sum(self.blocks[rows[0]].sizes)
        ]

    def _texts(self, rows: Sequence[int], symbols: dict[str, list[str]]) -> list[list[str]]:
        return [symbols[text] for row in rows for text in self.blocks[row].texts]


Rows = tuple[list[int], Ladder]
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
