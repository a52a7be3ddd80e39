"""Permutation tests of two samples of texts, for many items at once; multiple testing.

`means_test` asks whether two means are equal, `population_tests` whether both samples come from one
population, `spread_test` whether the mean distances within both are equal. Rows are items whose
first `n_first` entries are one sample, the rest the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from string import ascii_lowercase

import numpy as np
from scipy.special import stdtr

from aleatoric.rng import stream
from aleatoric.types import Floats, Ints

N_PERMUTATIONS = 1999
FEWEST = 3
"""Values per sample that a test needs."""
ALPHA = 0.05
_TOLERANCE = 1e-9
"""Statistics that differ by less are equal: they differ by rounding."""
_CELLS_AT_ONCE = 2**16
"""Permuted statistics that are computed at once: they fit in a processor's cache."""
_PAIRS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Permutations:
    """Ways to divide `n_first` + m values: (permutations, values), 1 for the second sample."""

    second: Floats
    n_first: int
    exact: bool
    """Whether these are all divisions, not random ones."""

    @property
    def width(self) -> int:
        """The number of values of both samples."""
        return int(self.second.shape[1])

    @property
    def observed(self) -> Floats:
        """The observed division, as a single permutation."""
        return (np.arange(self.width) >= self.n_first).astype(np.float64)[None]

    @property
    def can_reject(self) -> bool:
        """Whether the samples are large enough for a p-value of at most 5%."""
        n, m = self.n_first, self.width - self.n_first
        # Divisions of samples of equal size come in pairs with the same statistic.
        return min(n, m) >= FEWEST and (1 + (n == m)) / comb(n + m, n) <= ALPHA

    def p_values(self, reached: Ints) -> Floats:
        """Return p-values of how many permutations reached the observed statistic, per item."""
        extra = 0 if self.exact else 1
        return np.asarray((reached + extra) / (len(self.second) + extra), np.float64)


def permutations(n: int, m: int, most: int, seed: int) -> Permutations:
    """Return all divisions into n and m values, or `most` random ones if there are more."""
    if comb(n + m, m) <= most + 1:
        places = np.array(list(combinations(range(n + m), m)), np.int64).reshape(-1, m)
        second = np.zeros((len(places), n + m))
        np.put_along_axis(second, places, 1.0, axis=1)
        return Permutations(second, n, exact=True)
    base = np.tile((np.arange(n + m) >= n).astype(np.float64), (most, 1))
    # The divisions are shared by all items, whose values are put in random orders of their own.
    return Permutations(stream(seed, "divisions", n, m).permuted(base, axis=1), n, exact=False)


def orders(width: int, item_ids: Sequence[str], seed: int, kind: str) -> Ints:
    """Return a random order of the values per item, from the item's own random stream."""
    drawn = [stream(seed, kind, item_id).permutation(width) for item_id in item_ids]
    return np.array(drawn, dtype=np.int64).reshape(len(item_ids), width)


def pseudo_values(distances: Floats) -> Floats:
    """Return jackknife pseudo-values of the mean pair distance: (items, n, n) -> (items, n).

    Their mean is the mean over pairs, and the variance of their mean estimates its variance.
    Undefined (NaN) distances are left out; NaN if leaving one text out leaves no distance.
    """
    n = distances.shape[1]
    off = np.where(np.eye(n, dtype=bool), np.nan, distances)
    known = ~np.isnan(off)
    sums, numbers = np.where(known, off, 0.0).sum(axis=2), known.sum(axis=2)
    total, number = sums.sum(axis=1, keepdims=True) / 2, numbers.sum(axis=1, keepdims=True) / 2
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0
        values: Floats = n * total / number - (n - 1) * (total - sums) / (number - numbers)
    return values


def means_test(values: Floats, ways: Permutations, order: Ints) -> Floats:
    """Return two-sided p-values of equal means of (items, values), by Welch's statistic.

    Studentized, so that it is approximately valid where only the means of the two distributions are
    equal too; exact where the distributions are.
    """
    floor = (_TOLERANCE * np.abs(values).max(axis=1, initial=0.0)) ** 2 + 1e-300
    centred = values - values.mean(axis=1, keepdims=True)
    shuffled = np.take_along_axis(centred, order, axis=1)
    reached = np.zeros(len(values), np.int64)
    for part in _batches(len(values), len(ways.second)):
        observed = _welch(centred[part], ways.observed, floor[part]) - _TOLERANCE
        permuted = _welch(shuffled[part], ways.second, floor[part])
        reached[part] = (permuted >= observed).sum(axis=1)
    return np.where(np.isnan(values).any(axis=1), np.nan, ways.p_values(reached))


def _batches(n: int, width: int, cells: int = _CELLS_AT_ONCE) -> Iterator[slice]:
    """Slices of n rows of some width that have about `cells` cells."""
    step = max(1, cells // max(1, width))
    return (slice(start, start + step) for start in range(0, n, step))


def _welch(values: Floats, second: Floats, floor: Floats) -> Floats:
    """(items, divisions): d² / (d² + variance of d), which grows with Welch's |t|, from 0 to 1.

    The values of an item have the mean 0, so that both sums of a division are opposite.
    """
    m = int(second[0].sum())
    n = second.shape[1] - m
    sums, squares = values @ second.T, values**2 @ second.T
    # Variances of both means: (squares / m - (sums / m)²) / (m - 1), and of the rest likewise.
    spread = squares * (1 / (m * (m - 1)) - 1 / (n * (n - 1)))
    spread += (values**2).sum(axis=1, keepdims=True) / (n * (n - 1))
    np.square(sums, out=sums)
    spread -= sums * (1 / (m * m * (m - 1)) + 1 / (n * n * (n - 1)))
    sums *= (1 / m + 1 / n) ** 2
    share: Floats = sums / (sums + np.maximum(spread, 0.0, out=spread) + floor[:, None])
    return share


def within(distances: Floats, n_first: int) -> tuple[Floats, Floats]:
    """Return the distances within the first sample, and within the second."""
    return distances[:, :n_first, :n_first], distances[:, n_first:, n_first:]


def spread_test(distances: Floats, n_first: int) -> Floats:
    """Return two-sided p-values of equal mean distances within both of (items, values, values).

    Welch's t test of jackknife pseudo-values: approximate, wherever the populations lie.
    """
    first, second = map(pseudo_values, within(distances, n_first))
    difference = np.abs(second.mean(axis=1) - first.mean(axis=1))
    rounding = _TOLERANCE * np.abs(np.concatenate([first, second], axis=1)).max(axis=1)
    sizes = np.array([[first.shape[1]], [second.shape[1]]])
    variances = np.stack([own.var(axis=1, ddof=1) for own in (first, second)]) / sizes
    variance = np.maximum(variances.sum(axis=0), rounding**2 + 1e-300)
    freedom = 1 / np.maximum(((variances / variance) ** 2 / (sizes - 1)).sum(axis=0), 1e-9)
    p: Floats = 2 * stdtr(freedom, -difference / np.sqrt(variance))
    return np.where(difference <= rounding, 1.0, p)


def population_tests(distances: Floats, ways: Permutations, order: Ints) -> tuple[Floats, Floats]:
    """Return p-values of "one population" from (items, values, values), by two statistics.

    They are the energy distance, and the difference of the mean distances within both samples.
    Undefined (NaN) distances are left out of the means.
    """
    n_items, pairs = len(distances), np.triu_indices(ways.width, 1)
    whole = distances[:, pairs[0], pairs[1]]
    observed = _statistics(whole, *_members(ways.observed, pairs))[:, :, 0]
    limit = observed - _TOLERANCE * np.abs(np.nan_to_num(whole)).max(axis=1, initial=0.0)
    items = np.arange(n_items)[:, None]
    shuffled = distances[items, order[:, pairs[0]], order[:, pairs[1]]]
    reached = np.zeros((2, n_items), np.int64)
    for ways_of in _batches(len(ways.second), len(pairs[0]), _PAIRS_AT_ONCE):
        members = _members(ways.second[ways_of], pairs)
        for part in _batches(n_items, len(members[0])):
            # An undefined permuted statistic counts as reached.
            is_below = _statistics(shuffled[part], *members) < limit[:, part, None]
            reached[:, part] += (~is_below).sum(axis=2)
    energy, spread = np.where(np.isnan(observed), np.nan, ways.p_values(reached))
    return energy, spread


def _members(second: Floats, pairs: tuple[Ints, Ints]) -> tuple[Floats, Floats]:
    """(divisions, pairs): 1 for pairs within the second sample, and within the first one."""
    first = 1 - second
    left, right = pairs
    return second[:, left] * second[:, right], first[:, left] * first[:, right]


def _statistics(distances: Floats, own: Floats, other: Floats) -> Floats:
    """(2, items, divisions): 2 mean C - mean M - mean H and |mean M - mean H| of (items, pairs)."""
    known = ~np.isnan(distances)
    sums = _sums(np.where(known, distances, 0.0), own, other)
    # Without undefined distances, all items and divisions have the same numbers of pairs.
    weights = known.astype(np.float64), own, other
    numbers = _sums(*(part[:1] for part in weights)) if known.all() else _sums(*weights)
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: no defined distance
        cross, within, others = (a / b for a, b in zip(sums, numbers, strict=True))
    return np.stack([2 * cross - within - others, np.abs(within - others)])


def _sums(pairs: Floats, own: Floats, other: Floats) -> tuple[Floats, Floats, Floats]:
    """Sums over pairs between the samples, within the second one and within the first one."""
    within, others = pairs @ own.T, pairs @ other.T
    return pairs.sum(axis=1, keepdims=True) - within - others, within, others


PValues = Sequence[float | None]


def holm(p_values: PValues) -> list[float | None]:
    """Holm's adjusted p-values (family-wise error rate); missing tests (`None`) do not count."""
    present = np.array([p for p in p_values if p is not None])
    order = np.argsort(present, kind="stable")
    raised = present[order] * np.arange(len(present), 0, -1)
    return _filled(p_values, order, np.maximum.accumulate(raised))


def benjamini_hochberg(p_values: PValues) -> list[float | None]:
    """Benjamini and Hochberg's adjusted p-values, which control the false discovery rate.

    As `scipy.stats.false_discovery_control`, whose import takes a second.
    """
    present = np.array([p for p in p_values if p is not None])
    order, n = np.argsort(present), len(present)
    raised = present[order] * (n / np.arange(1, n + 1))
    return _filled(p_values, order, np.minimum.accumulate(raised[::-1])[::-1])


def _filled(p_values: PValues, order: Ints, ordered: Floats) -> list[float | None]:
    """Adjusted p-values in the given order, back in the order of the tests."""
    adjusted = iter(ordered[np.argsort(order)].clip(0.0, 1.0).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


Pairs = Collection[frozenset[str]]


def letters(systems: Sequence[str], different: Pairs) -> dict[str, str]:
    """A letter for each maximal set of systems of which no two differ.

    Two systems share a letter if and only if they are not among `different`. The set of the first
    system is called `a`. After Piepho (2004): insert and absorb, then drop redundant sets.
    """
    sets = [frozenset(systems)]
    for pair in different:
        parts = dict.fromkeys(part for members in sets for part in _split(members, pair))
        sets = [members for members in parts if not any(members < other for other in parts)]
    place = {name: i for i, name in enumerate(systems)}
    ordered = sorted(_needed(sets), key=lambda members: sorted(place[name] for name in members))
    rounds = ("", *map(str, range(1, len(ordered))))
    labels = [letter + number for number in rounds for letter in ascii_lowercase]  # a, ..., z, a1
    return {
        name: "".join(labels[i] for i, members in enumerate(ordered) if name in members)
        for name in systems
    }


def different_pairs(p_values: Mapping[frozenset[str], float | None], alpha: float) -> Pairs:
    """The pairs that differ significantly; a pair without a p-value does not."""
    return {pair for pair, p in p_values.items() if p is not None and p <= alpha}


def _split(members: frozenset[str], pair: frozenset[str]) -> list[frozenset[str]]:
    return [members - {name} for name in sorted(pair)] if pair <= members else [members]


def _needed(sets: list[frozenset[str]]) -> list[frozenset[str]]:
    """Drop sets all of whose pairs (or whose only member) occur together in other sets."""
    kept = sorted(sets, key=len, reverse=True)
    for members in sorted(sets, key=len):
        others = [other for other in kept if other != members]
        bonds = [frozenset(pair) for pair in combinations(members, 2)] or [members]
        if all(any(bond <= other for other in others) for bond in bonds):
            kept = others
    return kept
