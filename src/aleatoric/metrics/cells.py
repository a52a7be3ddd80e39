"""Calibration errors that choose their own bins, from fine cells in the order of confidence.

Cells are (cells, 4) bin sums (`aleatoric.metrics.bins`), narrow enough to stand for the
distribution of confidences: a fixed fine grid, or one cell for each distinct confidence, which
makes every result here exact. Cells never part: an edge between bins lies between two cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.bins import ACCURACY, COUNT, bin_sums, ece_of
from aleatoric.metrics.reduction import divide
from aleatoric.types import Floats


def exact_cells(confidence: Floats, accuracy: Floats) -> Floats:
    """One cell for each distinct confidence, in order.

    Confidences are told apart in single precision, as everywhere where they are placed in bins.

    >>> exact_cells(np.array([0.5, 0.25, 0.5]), np.array([1.0, 0.0, 0.0]))[:, :3].tolist()
    [[1.0, 0.25, 0.0], [2.0, 1.0, 1.0]]
    """
    distinct, cell = np.unique(confidence.astype(np.float32), return_inverse=True)
    return bin_sums(confidence, accuracy, cell, len(distinct))


def mass_bins(cells: Floats, n_bins: int) -> Floats:
    """Sums of at most `n_bins` bins of equal mass, as far as the cells allow.

    >>> cells = np.array([[1.0, 0.125, 0, 0], [1, 0.25, 0, 0], [1, 0.5, 1, 1], [1, 0.75, 1, 1]])
    >>> mass_bins(cells, 2)[:, 1].tolist()
    [0.375, 1.25]
    """
    return merged(cells, mass_starts(cells[:, COUNT], n_bins))


def mass_starts(counts: Floats, n_bins: int) -> NDArray[np.intp]:
    """The cells that open a bin: those of the tokens at i/n_bins of all, in order.

    >>> mass_starts(np.array([1.0, 1.0, 1.0, 1.0]), 2).tolist()
    [0, 2]
    """
    below = np.cumsum(counts)
    total = float(below[-1]) if len(below) else 0.0
    tokens = np.array([float(round(i * total / n_bins)) for i in range(1, n_bins)])
    # The cell of token t (from 0) is the first with more than t tokens up to its end.
    opened = np.searchsorted(below, tokens[tokens > 0], side="right")
    first = np.flatnonzero(counts)[:1]
    return np.unique(np.concatenate([first, opened[opened < len(counts)]])).astype(np.intp)


def merged(cells: Floats, starts: NDArray[np.intp]) -> Floats:
    """Sums of the cells from each start to the next; cells before the first must be empty."""
    sums: Floats = np.add.reduceat(cells, starts, axis=0) if len(starts) else cells[:0]
    return sums


def ece_mass(cells: Floats, n_bins: int) -> float:
    """ECE over bins of equal mass.

    >>> cells = np.array([[1.0, 0.25, 0, 0], [1, 0.5, 0, 0], [1, 0.5, 1, 1], [1, 0.75, 1, 1]])
    >>> ece_mass(cells, 2)
    0.375
    """
    return float(ece_of(mass_bins(cells, n_bins)))


def sweep_bins(cells: Floats) -> Floats:
    """The most bins of equal mass whose accuracies still rise (Roelofs et al. 2022).

    The number of bins grows by one until accuracy falls from one bin to the next.

    >>> cells = np.array([[1.0, 0.25, 0, 0], [1, 0.5, 1, 1], [1, 0.5, 0, 0], [1, 0.75, 1, 1]])
    >>> len(sweep_bins(cells))
    3
    """
    best = mass_bins(cells, 1)
    most = int(min(np.count_nonzero(cells[:, COUNT]), cells[:, COUNT].sum()))
    for n_bins in range(2, most + 1):
        found = mass_bins(cells, n_bins)
        if np.any(np.diff(divide(found[:, ACCURACY], found[:, COUNT])) < 0):
            break
        best = found
    return best


def ece_sweep(cells: Floats) -> float:
    """ECE over the bins of `sweep_bins`.

    >>> ece_sweep(np.array([[1.0, 0.25, 0, 0], [1, 0.5, 1, 1], [1, 0.5, 0, 0], [1, 0.75, 1, 1]]))
    0.125
    """
    return float(ece_of(sweep_bins(cells)))
