"""Estimates of the distribution that people's counted answers were drawn from.

- plug-in: people's own shares; nothing is unseen.
- Good-Turing: room for unseen words.
- Chao: seen words discounted, the unseen mass on Chao1 many words (Chao et al. 2015).

Many items are estimated side by side: their rows lie one after another in one array, and every sum
is over a row alone, so that an estimate does not depend on its company.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[Any]
"""Counts or shares."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of unequal lengths, none empty: row i is `values[starts[i]:starts[i + 1]]`."""

    values: Numbers
    starts: Counts

    @classmethod
    def of(cls, rows: Sequence[Numbers]) -> Rows:
        """The given rows.

        >>> Rows.of([np.array([1, 2]), np.array([3])]).sums().tolist()
        [3, 3]
        """
        return cls(np.concatenate(rows), starts_of(np.fromiter(map(len, rows), np.int64)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def split(self) -> list[Floats]:
        """The rows, one by one."""
        return [self.values[a:b] for a, b in pairwise(self.starts.tolist())]

    def sums(self) -> Numbers:
        """The sum of each row."""
        return sums(self.values, self.starts)

    def owners(self) -> Counts:
        """Of each value the number of its row."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


def starts_of(lengths: Counts) -> Counts:
    """Where rows of these lengths begin, and where the last one ends.

    >>> starts_of(np.array([2, 1])).tolist()
    [0, 2, 3]
    """
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def sums(values: Numbers, starts: Counts) -> Numbers:
    """Sums of rows that lie one after another.

    >>> sums(np.array([1, 2, 3]), np.array([0, 2, 3])).tolist()
    [3, 3]
    """
    found: Numbers = np.add.reduceat(values, starts[:-1])
    return found


def plug_in(counts: Counts) -> Floats:
    """People's own distribution as the truth: it has no unseen words, so a floor is too low.

    >>> plug_in(np.array([3, 1])).tolist()
    [0.75, 0.25]
    """
    shares: Floats = counts / counts.sum()
    return shares


def plug_in_rows(counts: Rows) -> Rows:
    """`plug_in` of every row of counts.

    >>> plug_in_rows(Rows.of([np.array([3, 1])])).values.tolist()
    [0.75, 0.25]
    """
    return Rows(counts.values / counts.sums()[counts.owners()], counts.starts)


def all_different_rows(counts: Rows) -> Rows:
    """Of every row of counts seen words, and one cell for all unseen ones: there they never meet.

    >>> all_different_rows(Rows.of([np.array([2, 1, 1])])).values.tolist()
    [0.25, 0.125, 0.125, 0.5]
    """
    n = counts.sums()
    once = sums(np.where(counts.values == 1, 1, 0), counts.starts)
    unseen = np.minimum(once, n - 1) / n
    seen = (1 - unseen)[counts.owners()] * plug_in_rows(counts).values
    return _with_unseen(seen, counts.starts, np.ones(len(counts), dtype=np.int64), unseen)


def good_turing(counts: Counts) -> Floats:
    """People's distribution with room for unseen words: Good-Turing mass over Chao1 many of them.

    >>> good_turing(np.array([2, 1, 1])).round(3).tolist()
    [0.25, 0.125, 0.125, 0.5]
    """
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    if once == 0:
        return plug_in(counts)
    mass = unseen_mass(counts)
    unseen = max(1, round(once * (once - 1) / (2 * (twice + 1))))
    return np.concatenate([(1 - mass) * plug_in(counts), np.full(unseen, mass / unseen)])


def unseen_mass(counts: Counts) -> float:
    """Good-Turing; all answers different would leave nothing to what was seen: one is known.

    >>> unseen_mass(np.array([2, 1, 1]))
    0.5
    """
    n = int(counts.sum())
    return min(int((counts == 1).sum()), n - 1) / n


def chao(counts: Counts) -> Floats:
    """Chao et al. (2015): rare seen words are discounted most; Chao1 many words are unseen.

    >>> chao(np.array([2, 1, 1])).round(3).tolist()
    [0.438, 0.093, 0.093, 0.188, 0.188]
    """
    return chao_rows(Rows.of([counts])).split()[0]


def chao_rows(counts: Rows) -> Rows:
    """`chao` of every row of counts.

    >>> chao_rows(Rows.of([np.array([2, 1, 1]), np.array([5])])).starts.tolist()
    [0, 5, 6]
    """
    owner, n = counts.owners(), counts.sums()
    once, twice = (sums(np.where(counts.values == k, 1, 0), counts.starts) for k in (1, 2))
    shares = counts.values / n[owner]
    some = (once > 0) & (n > 1)  # where some words must be unseen
    covered = np.where(some, np.maximum(_coverage(n, once, twice), 1 / n), 1.0)
    seen = np.where(some[owner], _discounted(shares, counts.starts, owner, n, covered), shares)
    pairs = np.where(twice > 0, once * once / np.maximum(2 * twice, 1), once * (once - 1) / 2)
    unseen = np.where(some, np.maximum(1, np.ceil((n - 1) / n * pairs)), 0).astype(np.int64)
    return _with_unseen(seen, counts.starts, unseen, (1 - covered) / np.maximum(unseen, 1))


def _coverage(n: Numbers, once: Numbers, twice: Numbers) -> Floats:
    """The mass of the words that were seen (Chao & Jost 2012)."""
    has = twice > 0
    most = (n - 1) * np.where(has, once, once - 1)
    again = np.where(has, 2 * twice, 2)
    covered: Floats = 1 - once / n * (most / np.maximum(most + again, 1))
    return covered


def _discounted(
    shares: Floats, starts: Counts, owner: Counts, n: Numbers, covered: Floats
) -> Floats:
    """Shares that sum to what is covered; those of words seen once lose most."""
    loss = shares * (1 - shares) ** n[owner]
    lost = sums(loss, starts)
    rate = np.divide(1 - covered, lost, out=np.zeros_like(covered), where=lost > 0)
    kept = shares - rate[owner] * loss
    too_much = np.minimum.reduceat(kept, starts[:-1]) <= 0
    kept = np.where(too_much[owner], shares, kept)
    seen: Floats = kept * (covered / sums(kept, starts))[owner]
    return seen


def _with_unseen(seen: Floats, starts: Counts, unseen: Counts, share: Floats) -> Rows:
    """Rows with so many words of equal share behind each."""
    lengths = np.diff(starts)
    wider = starts_of(lengths + unseen)
    values = np.empty(wider[-1])
    is_seen = np.zeros(len(values) + 1, dtype=np.int64)
    np.add.at(is_seen, wider[:-1], 1)
    np.add.at(is_seen, wider[:-1] + lengths, -1)
    mine = np.cumsum(is_seen)[:-1] > 0
    values[mine], values[~mine] = seen, np.repeat(share, unseen)
    return Rows(values, wider)


def drawn_again(truth: Floats, n_people: int, rng: np.random.Generator, times: int) -> list[Counts]:
    """Counts of as many people drawn from an estimated truth, words that came up alone.

    >>> drawn_again(np.array([1.0]), 40, np.random.default_rng(0), 1)[0].tolist()
    [40]
    """
    return [row[row > 0] for row in rng.multinomial(n_people, truth, size=times)]


def tables(estimates: Sequence[Rows]) -> list[Floats]:
    """Of each item a table, a row an estimate, filled up with outcomes that never happen.

    >>> sure, unsure = Rows.of([np.array([1.0])]), Rows.of([np.array([0.5, 0.5])])
    >>> tables([sure, unsure])[0].tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    widths = np.max([np.diff(own.starts) for own in estimates], axis=0)
    starts = starts_of(len(estimates) * widths)
    cells = np.zeros(starts[-1])
    for place, own in enumerate(estimates):
        moved = starts[:-1] + place * widths - own.starts[:-1]
        cells[np.arange(len(own.values)) + moved[own.owners()]] = own.values
    return [cells[a:b].reshape(len(estimates), -1) for a, b in pairwise(starts.tolist())]
