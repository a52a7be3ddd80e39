"""Time of 10,000 bootstrap replicates of 20 statistics over 2687 contexts.

Once with the contexts of 55 passages, as in Provo, and once with every context as its own group,
which is the most expensive case.
"""

from __future__ import annotations

import time

import numpy as np

from aleatoric.inference.bootstrap import replicates
from aleatoric.metrics.reduction import Mean

CONTEXTS, STATISTICS, REPLICATES = 2687, 20, 10_000


def seconds(n_groups: int) -> float:
    """Wall time of summing by group and resampling, the groups not yet drawn."""
    rng = np.random.default_rng(0)
    values = rng.random((CONTEXTS, STATISTICS))
    mean = Mean("all")
    start = time.perf_counter()
    columns = mean.columns({"all": values})
    sums = np.zeros((n_groups, columns.shape[1]))
    np.add.at(sums, np.arange(CONTEXTS) % n_groups, columns)
    found = replicates(sums, mean.values, n_groups, REPLICATES)
    assert found.shape == (REPLICATES, STATISTICS)
    return time.perf_counter() - start


def main() -> None:
    """Print the seconds of both groupings; a second is the bound."""
    seconds(7)  # imports and first touches are not the bootstrap's
    for n_groups in (55, CONTEXTS):
        took = seconds(n_groups)
        print(
            f"{REPLICATES} replicates of {CONTEXTS} contexts x {STATISTICS} statistics, "
            f"{n_groups} groups: {took:.2f} s"
        )


if __name__ == "__main__":
    main()
