"""Group bootstrap on cached sums: contexts of one passage are not independent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aleatoric.streams import stream
from aleatoric.types import Interval

Floats = NDArray[np.float64]
LEVEL = 0.95
N_REPLICATES = 2000
_CELLS_AT_ONCE = 500_000


def group_bootstrap(
    sums: Floats,
    value: Callable[[Floats], Floats],
    seed: int,
    n_replicates: int = N_REPLICATES,
    level: float = LEVEL,
) -> Interval | None:
    """Percentile interval of `value` over resampled groups; `None` with fewer than two groups.

    `sums` is (groups, k); `value` maps (replicates, k) to (replicates,). The same seed resamples
    the same groups, so that systems scored on the same groups are resampled together.

    >>> sums = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]])
    >>> interval = group_bootstrap(sums, lambda s: s[:, 0] / s[:, 1], seed=0)
    >>> 0.5 <= interval.low < interval.high <= 1.5
    True
    """
    return group_bootstraps([sums], [value], seed, n_replicates, level)[0]


def group_bootstraps(
    tables: Sequence[Floats],
    values: Sequence[Callable[[Floats], Floats]],
    seed: int,
    n_replicates: int = N_REPLICATES,
    level: float = LEVEL,
) -> list[Interval | None]:
    """The intervals of several statistics of the same groups, which are resampled together.

    Each is what `group_bootstrap` gives for it; to draw the groups takes longer than the sums.

    >>> sums = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]])
    >>> one, two = group_bootstraps([sums, sums], [lambda s: s[:, 0], lambda s: s[:, 1]], seed=0)
    >>> (two.low, two.high)
    (6.0, 6.0)
    """
    (n_groups,) = {len(table) for table in tables} or {0}
    if n_groups < 2:
        return [None] * len(tables)
    found: list[list[Floats]] = [[] for _ in tables]
    for part in _resampled_weights(n_groups, n_replicates, seed):
        for own, table, value in zip(found, tables, values, strict=True):
            own.append(value(part @ table))
    return [_interval(np.concatenate(own), level) for own in found]


def _interval(values: Floats, level: float) -> Interval | None:
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, "group bootstrap, percentile")


def _resampled_weights(n_groups: int, n_replicates: int, seed: int) -> Iterator[Floats]:
    """How often each group is drawn in each replicate, some replicates at a time."""
    if n_groups * n_replicates <= _CELLS_AT_ONCE:
        yield _all_weights(n_groups, n_replicates, seed)
        return
    rng = stream(seed, "bootstrap", n_groups)
    at_once = max(1, _CELLS_AT_ONCE // n_groups)
    for start in range(0, n_replicates, at_once):
        yield _weights(rng, n_groups, min(at_once, n_replicates - start))


@lru_cache(maxsize=2)
def _all_weights(n_groups: int, n_replicates: int, seed: int) -> Floats:
    """Every metric of a run resamples the same groups: they are drawn once."""
    weights = _weights(stream(seed, "bootstrap", n_groups), n_groups, n_replicates)
    weights.flags.writeable = False
    return weights


def _weights(rng: np.random.Generator, n_groups: int, size: int) -> Floats:
    chances = np.full(n_groups, 1 / n_groups)
    return rng.multinomial(n_groups, chances, size=size).astype(np.float64)
