"""The human control (random halves of the answers), and tests of one distribution per item."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, gcd

import numpy as np

from aleatoric.rng import stream
from aleatoric.types import Floats, Ints

HUMAN, ORACLE = "human", "oracle"
"""Systems that are people: all of them, and one random half scored against the other."""
CONTROLS = (HUMAN, ORACLE)
N_PERMUTATIONS = 1999
EXACT_CELLS = 4_000_000
"""The exact distribution is computed if it takes no more additions than this."""
_TOLERANCE = 1e-9
_CELLS_AT_ONCE = 4_000_000
"""Random samples are drawn in parts of this many answers, to bound memory."""


@dataclass(frozen=True)
class Half:
    """One half of an item's answers: (splits, outcomes) counts, and each split's majority.

    Of equally frequent answers, the majority is the one whose count was complete first in the
    half's random order: with the order of the full list, the halves would not be independent.
    """

    counts: Ints
    majority: Ints

    @property
    def n(self) -> int:
        """The number of answers in the half of one item."""
        return int(self.counts[0].sum())


@dataclass(frozen=True)
class Halves:
    """Two disjoint halves: `target` plays people, `player` plays the model."""

    target: Half
    player: Half


def independent_orders(n: int, n_splits: int, seed: int, item_id: str) -> Ints:
    """Random orders of an item's answers, one per split, from the random stream of the item."""
    orders = np.broadcast_to(np.arange(n), (n_splits, n))
    return stream(seed, "oracle", item_id).permuted(orders, axis=1)


def shared_orders(n: int, n_splits: int, seed: int) -> Ints:
    """The published procedure: re-seeded for every context, so all share their random numbers."""
    first = [sorted(random.Random(seed + s).sample(range(n), n // 2)) for s in range(n_splits)]
    others = [np.setdiff1d(np.arange(n), half, assume_unique=True) for half in first]
    orders = [np.append(half, rest) for half, rest in zip(first, others, strict=True)]
    return np.array(orders, dtype=np.int64).reshape(n_splits, n)


def split_all(codes: Sequence[Ints], orders: Sequence[Ints]) -> Halves:
    """Count both halves of items' coded answers under each order; an odd answer is the player's.

    The rows of all items are concatenated and padded with unused outcomes.
    """
    ordered = [answers[order] for answers, order in zip(codes, orders, strict=True)]
    k = max(int(answers.max()) for answers in codes) + 1
    halves = [np.split(answers, [answers.shape[1] // 2], axis=1) for answers in ordered]
    return Halves(*(_half(half, k) for half in zip(*halves, strict=True)))


def batches(widths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Indices of items in batches whose padded table has at most `most` cells, by width."""
    batch: list[int] = []
    for place in sorted(range(len(widths)), key=widths.__getitem__):
        if batch and (len(batch) + 1) * widths[place] > most:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class ItemTest:
    """The p-value of one item, and whether it is exact or from random draws."""

    p: float
    exact: bool


def one_population(
    people: Ints, model: Ints, rng: np.random.Generator, n_permutations: int = N_PERMUTATIONS
) -> ItemTest | None:
    """Test whether two lists of counts could come from one distribution; `None` if one is empty."""
    if not people.sum() or not model.sum():
        return None
    # The smaller side is drawn: fewer steps, and the distance is the same.
    small = people if people.sum() <= model.sum() else model
    used = people + model > 0
    small, pooled = small[used], (people + model)[used]
    n = int(small.sum())
    n_steps = int(np.minimum(pooled, n).sum()) + len(pooled)
    if n_steps * (n + 1) * (_width(pooled, n) + 1) <= EXACT_CELLS:
        return ItemTest(_exact_p(small, pooled), True)
    return ItemTest(_sampled_p(small, pooled, rng, n_permutations), False)


def _sampled_p(small: Ints, pooled: Ints, rng: np.random.Generator, n_permutations: int) -> float:
    n = int(small.sum())
    observed = int((small**2).sum() * pooled.sum() - 2 * n * (small @ pooled))
    codes, reached = np.repeat(np.arange(len(pooled)), pooled), 0
    for m in _part_sizes(n_permutations, len(codes)):
        drawn = codes[_samples(len(codes), n, m, rng)]
        # The squared distance, up to factors and terms that are the same for all samples.
        squares = _squares(counted(drawn, len(pooled))) * len(codes)
        reached += int((squares - 2 * n * pooled[drawn].sum(axis=1) >= observed).sum())
    return (reached + 1) / (n_permutations + 1)


def fits(
    people: Ints,
    probs: Floats,
    rest: float,
    rng: np.random.Generator,
    n_draws: int = N_PERMUTATIONS,
) -> ItemTest | None:
    """Test whether people's counts could be draws from known probabilities of the same words.

    `rest` is the probability of all other words together; each draw of one is taken as a word of
    its own with a probability near 0. `None` without people.
    """
    if not (n := int(people.sum())):
        return None
    # n² times the squared distance, without the terms that are the same for all draws.
    observed = float((people**2).sum() - 2 * n * (people @ probs))
    steps, reached = np.cumsum(np.append(probs, max(rest, 0.0))), 0
    for m in _part_sizes(n_draws, max(n, len(steps))):
        codes = np.searchsorted(steps, rng.random((m, n)) * steps[-1], side="right")
        counts = counted(codes, len(steps))
        drawn = _squares(counts[:, :-1]) + counts[:, -1] - 2 * n * (counts[:, :-1] @ probs)
        reached += int((drawn >= observed - _TOLERANCE * n).sum())
    return ItemTest((reached + 1) / (n_draws + 1), False)


def counted(codes: Ints, k: int) -> Ints:
    """The number of times each of `k` codes occurs, per row."""
    flat = codes + k * np.arange(len(codes))[:, None]
    return np.bincount(flat.ravel(), minlength=len(codes) * k).reshape(len(codes), k)


def _half(answers: Sequence[Ints], k: int) -> Half:
    """One half of every item, from its (splits, answers) in order."""
    n = np.repeat([part.shape[1] for part in answers], [len(part) for part in answers])
    starts = np.cumsum(n) - n
    rows = np.repeat(np.arange(len(n)), n)
    cells = np.concatenate([part.ravel() for part in answers]) + k * rows
    counts = np.bincount(cells, minlength=len(n) * k).reshape(len(n), k)
    last = np.zeros(len(n) * k, dtype=np.int64)
    np.maximum.at(last, cells, np.arange(len(cells)) - starts[rows])
    return Half(counts, (counts * (n + 1)[:, None] - last.reshape(counts.shape)).argmax(axis=1))


def _part_sizes(n_samples: int, width: int) -> list[int]:
    """The numbers of samples, of `width` cells each, that are drawn at once."""
    most = max(1, _CELLS_AT_ONCE // width)
    return [min(most, n_samples - start) for start in range(0, n_samples, most)]


def _samples(total: int, n: int, n_samples: int, rng: np.random.Generator) -> Ints:
    """Rows of `n` distinct numbers below `total`: the first steps of many shuffles at once."""
    if n > n_samples:  # fewer rows than steps: whole shuffles are faster
        return rng.permuted(np.tile(np.arange(total), (n_samples, 1)), axis=1)[:, :n]
    order = np.tile(np.arange(total)[:, None], (1, n_samples))
    columns = np.arange(n_samples)
    n_remaining = total - np.arange(n)[:, None]
    steps = (rng.random((n, n_samples)) * n_remaining).astype(np.int64) + np.arange(n)[:, None]
    for i, chosen in enumerate(steps):
        taken = order[chosen, columns]
        order[chosen, columns] = order[i]
        order[i] = taken
    return np.ascontiguousarray(order[:n].T)


def _squares(counts: Ints) -> Ints:
    sums: Ints = np.einsum("ij,ij->i", counts, counts)
    return sums


def _gain(taken: int, count: int, n: int, total: int) -> int:
    """One word's squared difference of shares, in the smallest integer units."""
    unit = gcd(n, total)
    return ((taken * total - count * n) // unit) ** 2


def _width(pooled: Ints, n: int) -> int:
    """The largest value that the statistic can have."""
    total = int(pooled.sum())
    ends = [(_gain(0, c, n, total), _gain(min(c, n), c, n, total)) for c in pooled.tolist()]
    return sum(map(max, ends))


def _exact_p(small: Ints, pooled: Ints) -> float:
    """The share of all samples whose distance is no smaller, computed word by word.

    `table[s, d]` is the weight of samples with `s` answers and a distance of `d` among the words so
    far: independent binomials, which given their sum are a sample without replacement.
    """
    n, total = int(small.sum()), int(pooled.sum())
    words = zip(small.tolist(), pooled.tolist(), strict=True)
    observed = sum(_gain(taken, count, n, total) for taken, count in words)
    table = np.zeros((n + 1, _width(pooled, n) + 1))
    table[0, 0] = 1.0
    (height, width), share = table.shape, n / total
    for count in pooled.tolist():  # of which 0 to `count` answers are drawn
        before, table = table, np.zeros_like(table)
        for taken in range(min(count, n) + 1):
            gain = _gain(taken, count, n, total)
            weight = comb(count, taken) * share**taken * (1 - share) ** (count - taken)
            table[taken:, gain:] += weight * before[: height - taken, : width - gain]
    last = table[n]
    return min(1.0, float(last[observed:].sum() / last.sum()))
