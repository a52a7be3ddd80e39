"""What a crowd's answers tell of the kind of truth behind them, in a few numbers.

How often the first word and the second were said, how many different words, and whether two halves
of the crowd made the same first choice: enough to tell kinds of truth apart, and coarse enough that
chances are known from a few hundred simulated crowds of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.shapes import Shape

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST = 100
"""People of a crowd that are looked at: more tell little more of its truth, and cost time."""
FIRSTS = (*range(1, 9), *(round(8 * 1.25**step) for step in range(1, 12)))
"""Where classes of the first word's count begin."""
LEADS = (0, 1, 2, 3, 5, 9, 17)
"""Where classes of its lead over the second begin."""
N_SPLITS = 8
"""Into halves, of a crowd that was seen: one would add a toss of a coin to each."""
DIVERSITIES = 5
"""Classes of the number of different words: one word alone, then by quarters of all that may be."""
N_CELLS = len(FIRSTS) * len(LEADS) * DIVERSITIES


@dataclass(frozen=True, eq=False)
class Crowds:
    """The numbers of several crowds."""

    n: Counts
    first: Counts
    second: Counts
    kinds: Counts
    agreed: Floats
    """How often two random halves had the same first choice; of equals, any."""

    def tally(self) -> Floats:
        """(cells, 2): how many crowds lie in each cell, disagreeing and agreeing.

        >>> one = np.array([1])
        >>> Crowds(40 * one, 40 * one, 0 * one, one, 0.75 * one).tally().sum(axis=0).tolist()
        [0.25, 0.75]
        """
        cells = self._cells()
        sides = [np.bincount(cells, own, N_CELLS) for own in (1 - self.agreed, self.agreed)]
        return np.stack(sides, axis=1)

    def _cells(self) -> Counts:
        """The cell of each crowd: those that tell the same share one."""
        first = np.searchsorted(FIRSTS, self.first, side="right") - 1
        lead = np.searchsorted(LEADS, self.first - self.second, side="right") - 1
        quarters = DIVERSITIES - 1
        diverse = 1 + np.minimum(quarters * (self.kinds - 1) // np.maximum(self.n, 1), quarters - 1)
        diverse = np.where(self.kinds == 1, 0, diverse)
        cells: Counts = (first * len(LEADS) + lead) * DIVERSITIES + diverse
        return cells


def crowd_of(counts: Counts, rng: np.random.Generator) -> tuple[int, int, int, float]:
    """First, second, kinds and agreement of one item's counted answers, or of a sample of them.

    >>> crowd_of(np.array([30, 10]), np.random.default_rng(0))
    (30, 10, 2, 1.0)
    """
    # In an order of their own: who answered first must not matter.
    ordered = np.sort(counts)[::-1]
    words = rng.permutation(np.repeat(np.arange(len(ordered)), ordered))[:MOST]
    said = np.sort(np.bincount(words, minlength=2))
    agreed = _agreement(words, len(ordered), rng)
    return int(said[-1]), int(said[-2]), int((said > 0).sum()), agreed


def _agreement(words: Counts, n_words: int, rng: np.random.Generator) -> float:
    """How often the first choices of two random halves are the same."""
    half = len(words) // 2
    mixed = rng.permuted(np.tile(words, (N_SPLITS, 1)), axis=1)[:, : 2 * half]
    halves = mixed.reshape(2 * N_SPLITS, half)
    tables = _tables(halves, np.ones(halves.shape, dtype=bool), n_words)
    one, other = _first_choices(tables, rng).reshape(N_SPLITS, 2).T
    return float((one == other).mean())


def simulated(shape: Shape, sizes: Counts, rng: np.random.Generator) -> Crowds:
    """Crowds of these sizes, each drawn from a truth of one kind.

    >>> from aleatoric.inference.shapes import shapes
    >>> simulated(shapes()[0], np.array([40, 5]), np.random.default_rng(0)).first.tolist()
    [40, 5]
    """
    halves = sizes // 2
    words = _renamed(_words(shape, len(sizes), int(sizes.max()), rng))
    place, n_words = np.arange(words.shape[1]), int(words.max()) + 1
    parts = [
        _tables(words, (place >= start[:, None]) & (place < end[:, None]), n_words)
        for start, end in ((0 * sizes, halves), (halves, 2 * halves), (2 * halves, sizes))
    ]
    choices = [_first_choices(own, rng) for own in parts[:2]]
    whole = parts[0] + parts[1] + parts[2]
    first = whole.max(axis=1)
    leader = whole.argmax(axis=1)
    kinds = (whole > 0).sum(axis=1)
    whole[np.arange(len(whole)), leader] = 0
    return Crowds(sizes, first, whole.max(axis=1), kinds, (choices[0] == choices[1]).astype(float))


def _words(shape: Shape, n_crowds: int, n_people: int, rng: np.random.Generator) -> Counts:
    """(crowds, people): everybody's word, by its number."""
    n_variants, n_words = shape.truths.shape
    # The variants' cumulative shares, one after another: one search for all.
    steps = shape.truths.cumsum(axis=1)
    steps /= steps[:, -1:]
    ladder = (steps + np.arange(n_variants)[:, None]).ravel()
    variant = np.arange(n_crowds) % n_variants
    found = np.searchsorted(ladder, rng.random((n_crowds, n_people)) + variant[:, None], "right")
    words: Counts = np.minimum(found - variant[:, None] * n_words, n_words - 1)
    return words


def _renamed(words: Counts) -> Counts:
    """The same crowds, no word's number above that of people: tables need not be wide."""
    if words.max() < 2 * words.shape[1]:
        return words
    order = words.argsort(axis=1)
    ordered = np.take_along_axis(words, order, axis=1)
    numbers = np.zeros_like(words)
    numbers[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(axis=1)
    renamed = np.empty_like(words)
    np.put_along_axis(renamed, order, numbers, axis=1)
    return renamed


def _tables(words: Counts, chosen: NDArray[np.bool_], n_words: int) -> Counts:
    """(crowds, words): how often the chosen people said each word."""
    rows = np.arange(len(words))[:, None] * n_words
    cells = (words + rows)[chosen]
    return np.bincount(cells, minlength=len(words) * n_words).reshape(len(words), n_words)


def _first_choices(tables: Counts, rng: np.random.Generator) -> Counts:
    shaken = tables + rng.random(tables.shape, dtype=np.float32)
    chosen: Counts = shaken.argmax(axis=1)
    return chosen
