"""Group bootstrap on cached sums: contexts of one passage are not independent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    if len(sums) < 2:
        return None
    weights = _resampled_weights(len(sums), n_replicates, seed)
    values = np.concatenate([value(part @ sums) for part in weights])
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
