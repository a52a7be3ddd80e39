"""The n-gram distances of `ngrams.Ladder`, compiled; needs numba."""

from __future__ import annotations

import numpy as np

from aleatoric.probes.ngrams import Symbols
from aleatoric.types import Floats


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
        from aleatoric.probes.kernels.ngrams_jit import climb

        ids, lengths, width = self._symbols.ids, self._symbols.lengths, len(self._parts)
        found = np.empty((len(lengths) // max(width, 1), width, width))
        climb(self._kinds, ids, self._n_symbols, lengths, self._parts, order, found)
        return found
