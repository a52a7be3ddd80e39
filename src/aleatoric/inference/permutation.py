"""Paired permutation test: if two systems were the same, their groups could be swapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from aleatoric.streams import stream
from aleatoric.types import Floats

N_PERMUTATIONS = 9999
EXACT_GROUPS = 14
"""Up to so many groups every one of the 2^13 different swaps is tried."""
_CELLS_AT_ONCE = 1_000_000
_TOLERANCE = 1e-9
"""Equal statistics differ by rounding: one so near to the observed one counts as equal to it."""


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """A two-sided p-value, and over how many permutations it was counted."""

    p: float
    n_permutations: int
    exact: bool

    @property
    def smallest(self) -> float:
        """The smallest p-value that so many permutations could have given."""
        return 1 / self.n_permutations if self.exact else 1 / (self.n_permutations + 1)

    @property
    def method(self) -> str:
        """In words."""
        how = "all" if self.exact else "random"
        return f"swap of groups, {self.n_permutations} {how} permutations"


def paired_permutation(
    first: Floats,
    second: Floats,
    value: Callable[[Floats], Floats],
    seed: int,
    n_permutations: int = N_PERMUTATIONS,
) -> PermutationTest | None:
    """Whether `value` of two systems differs, against swapping them in random groups.

    `first` and `second` are (groups, k) sums of the same groups; `value` maps (n, k) sums to (n,)
    values. For a mean this is the sign-flip test. Exact with few groups; `None` with fewer than
    two, or where the observed difference is undefined.

    >>> low, high = np.array([[1.0], [2.0], [1.0]]), np.array([[3.0], [3.0], [4.0]])
    >>> paired_permutation(low, high, lambda sums: sums[:, 0], seed=0).p
    0.25
    """
    observed = float((value(first.sum(0)[None]) - value(second.sum(0)[None]))[0])
    if len(first) < 2 or np.isnan(observed):
        return None
    exact = len(first) <= EXACT_GROUPS
    swaps = _all_swaps(len(first)) if exact else _random_swaps(len(first), n_permutations, seed)
    reached = sum(_at_least(observed, _differences(s, first, second, value)) for s in swaps)
    if exact:
        n_permutations = 2 ** (len(first) - 1)
        return PermutationTest(reached / n_permutations, n_permutations, True)
    return PermutationTest((reached + 1) / (n_permutations + 1), n_permutations, False)


def _differences(
    swapped: Floats, first: Floats, second: Floats, value: Callable[[Floats], Floats]
) -> Floats:
    """The difference of the two systems after each swap, a row of 0 and 1 by group."""
    moved = swapped @ (second - first)
    return value(first.sum(0) + moved) - value(second.sum(0) - moved)


def _at_least(observed: float, differences: Floats) -> int:
    limit = abs(observed) * (1 - _TOLERANCE) - 1e-15
    return int((np.abs(differences) >= limit).sum())


def _all_swaps(n_groups: int) -> Iterator[Floats]:
    """Every swap, the first group held: swapping all groups only changes the sign."""
    numbers = np.arange(2 ** (n_groups - 1))
    bits = (numbers[:, None] >> np.arange(n_groups - 1)) & 1
    yield np.hstack([np.zeros((len(bits), 1)), bits])


def _random_swaps(n_groups: int, n_permutations: int, seed: int) -> Iterator[Floats]:
    """Random swaps some at a time: the same for all pairs that have as many groups."""
    rng = stream(seed, "permutation", n_groups)
    at_once = max(1, _CELLS_AT_ONCE // n_groups)
    for start in range(0, n_permutations, at_once):
        size = (min(at_once, n_permutations - start), n_groups)
        yield rng.integers(0, 2, size=size, dtype=np.int8).astype(np.float64)
