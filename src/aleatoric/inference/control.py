"""The human control: people against people, on disjoint random halves."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.streams import stream
from aleatoric.types import Ints


@dataclass(frozen=True)
class Half:
    """One half of an item's answers under every split: counts, and each split's majority.

    `counts` is (splits, outcomes). Of equally frequent answers the one that was complete first in
    the half's random order is the majority: the order of the full list would let the whole sample
    decide ties, and the halves would not be independent.
    """

    counts: Ints
    majority: Ints

    @property
    def n(self) -> int:
        """How many answers the half of one item holds."""
        return int(self.counts[0].sum())


@dataclass(frozen=True)
class Halves:
    """Two disjoint halves: one is the target, the other plays the model."""

    target: Half
    player: Half


def independent_orders(n: int, n_splits: int, seed: int, item_id: str) -> Ints:
    """Random orders of an item's answers, one a split, from the item's own stream.

    >>> independent_orders(4, 2, 0, "1:2").shape
    (2, 4)
    """
    orders = np.broadcast_to(np.arange(n), (n_splits, n))
    return stream(seed, "oracle", item_id).permuted(orders, axis=1)


def shared_orders(n: int, n_splits: int, seed: int) -> Ints:
    """The published procedure: re-seeded for every context, so all share their random numbers.

    >>> bool((shared_orders(4, 1, 0) == shared_orders(4, 1, 0)).all())
    True
    """
    first = [sorted(random.Random(seed + s).sample(range(n), n // 2)) for s in range(n_splits)]
    others = [np.setdiff1d(np.arange(n), half, assume_unique=True) for half in first]
    orders = [np.append(half, rest) for half, rest in zip(first, others, strict=True)]
    return np.array(orders, dtype=np.int64).reshape(n_splits, n)


def split_halves(codes: Ints, orders: Ints) -> Halves:
    """Count both halves of coded answers under each order; the odd one goes to the player.

    >>> halves = split_halves(np.array([0, 0, 1]), np.array([[2, 0, 1]]))
    >>> halves.target.counts.tolist(), halves.player.counts.tolist()
    ([[0, 1]], [[2, 0]])
    """
    return split_all([codes], [orders])


def split_all(codes: Sequence[Ints], orders: Sequence[Ints]) -> Halves:
    """`split_halves` of many items: the rows of each one after another, filled up with outcomes
    that nobody gave.

    >>> orders = [np.array([[2, 0, 1]]), np.array([[1, 0]])]
    >>> split_all([np.array([0, 0, 1]), np.array([0, 0])], orders).player.counts.tolist()
    [[2, 0], [1, 0]]
    """
    ordered = [own[order] for own, order in zip(codes, orders, strict=True)]
    k = max(int(own.max()) for own in codes) + 1
    middles = [own.shape[1] // 2 for own in ordered]
    target = [own[:, :middle] for own, middle in zip(ordered, middles, strict=True)]
    player = [own[:, middle:] for own, middle in zip(ordered, middles, strict=True)]
    return Halves(_half(target, k), _half(player, k))


def batches(widths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Places of items whose rows fill a table of at most `most` cells each, like beside like.

    >>> list(batches([3, 1, 9, 2], 6))
    [[1, 3], [0], [2]]
    """
    batch: list[int] = []
    for place in sorted(range(len(widths)), key=widths.__getitem__):
        if batch and (len(batch) + 1) * widths[place] > most:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _half(answers: Sequence[Ints], k: int) -> Half:
    """One half of every item, from its answers in order, (splits, answers)."""
    n = np.repeat([own.shape[1] for own in answers], [len(own) for own in answers])
    starts = np.cumsum(n) - n
    rows = np.repeat(np.arange(len(n)), n)
    cells = np.concatenate([own.ravel() for own in answers]) + k * rows
    counts = np.bincount(cells, minlength=len(n) * k).reshape(len(n), k)
    last = np.zeros(len(n) * k, dtype=np.int64)
    np.maximum.at(last, cells, np.arange(len(cells)) - starts[rows])
    return Half(counts, (counts * (n + 1)[:, None] - last.reshape(counts.shape)).argmax(axis=1))
