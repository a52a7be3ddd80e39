"""Multiple testing: adjusted p-values, and letters for systems that do not differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from string import ascii_lowercase

import numpy as np

from aleatoric.types import Floats, Ints

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
