"""The human control: people against people, on disjoint random halves."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.streams import stream


@dataclass(frozen=True)
class Half:
    """One half of an item's answers under every split: counts, and each split's majority.

    `counts` is (splits, outcomes). Of equally frequent answers the one that came first in the
    half's random order is the majority: the order of the full list would let the whole sample
    decide ties, and the halves would not be independent.
    """

    counts: NDArray[np.int64]
    majority: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many answers the half holds."""
        return int(self.counts[0].sum())


@dataclass(frozen=True)
class Halves:
    """Two disjoint halves: one is the target, the other plays the model."""

    target: Half
    player: Half


def independent_orders(n: int, n_splits: int, seed: int, item_id: str) -> NDArray[np.int64]:
    """Random orders of an item's answers, one a split, from the item's own stream.

    >>> independent_orders(4, 2, 0, "1:2").shape
    (2, 4)
    """
    orders = np.tile(np.arange(n), (n_splits, 1))
    return stream(seed, "oracle", item_id).permuted(orders, axis=1)


def shared_orders(n: int, n_splits: int, seed: int) -> NDArray[np.int64]:
    """The published procedure: re-seeded for every context, so all share their random numbers.

    >>> bool((shared_orders(4, 1, 0) == shared_orders(4, 1, 0)).all())
    True
    """
    first = [sorted(random.Random(seed + s).sample(range(n), n // 2)) for s in range(n_splits)]
    orders = [[*half, *(i for i in range(n) if i not in set(half))] for half in first]
    return np.array(orders, dtype=np.int64).reshape(n_splits, n)


def split_halves(codes: NDArray[np.int64], orders: NDArray[np.int64]) -> Halves:
    """Count both halves of coded answers under each order; the odd one goes to the player.

    >>> halves = split_halves(np.array([0, 0, 1]), np.array([[2, 0, 1]]))
    >>> halves.target.counts.tolist(), halves.player.counts.tolist()
    ([[0, 1]], [[2, 0]])
    """
    middle = orders.shape[1] // 2
    k = int(codes.max()) + 1
    ordered = codes[orders]
    return Halves(_half(ordered[:, :middle], k), _half(ordered[:, middle:], k))


def _half(answers: NDArray[np.int64], k: int) -> Half:
    n_splits, n = answers.shape
    splits = np.arange(n_splits)[:, None]
    flat = (answers + k * splits).ravel()
    counts = np.bincount(flat, minlength=n_splits * k).reshape(n_splits, k)
    first = np.full((n_splits, k), n)
    # Written from the last answer to the first, so that the first stays.
    first[splits, answers[:, ::-1]] = np.arange(n)[::-1]
    return Half(counts, (counts * (n + 1) - first).argmax(axis=1))
