"""A reliability curve: bin sums of confidence and accuracy, in all and by resampling unit.

Beside its bins of equal width a curve keeps fine cells, each bin cut into equal parts, about 4096
in all: errors that choose their own bins (equal mass, sweep, smooth) read those. Their edges then
lie on cell borders, 1/4096 apart; exact cells take their place where rows are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.bins import N_COLUMNS, ece_debiased_of, ece_of, mce_of, token_columns
from aleatoric.metrics.calibration import bin_index, equal_width_edges
from aleatoric.metrics.cells import ece_mass, ece_sweep
from aleatoric.metrics.reduction import divide
from aleatoric.metrics.smooth import smooth_ece
from aleatoric.tokens.units import UnitSums
from aleatoric.types import Floats

N_CELLS = 4096


@dataclass(frozen=True)
class Curve:
    """What a reliability diagram shows, and every error that can be read off it.

    `bins` and `cells` are (…, 4) sums: tokens, confidence, accuracy, squared accuracy.
    """

    bins: Floats
    cells: Floats

    @property
    def edges(self) -> tuple[float, ...]:
        """The borders of the bins, from 0 to 1."""
        return (0.0, *equal_width_edges(len(self.bins)), 1.0)

    @property
    def counts(self) -> Floats:
        """Tokens by bin."""
        return self.bins[:, 0]

    @property
    def confidence(self) -> Floats:
        """Mean confidence by bin; NaN where a bin is empty."""
        return divide(self.bins[:, 1], self.bins[:, 0])

    @property
    def accuracy(self) -> Floats:
        """Mean accuracy by bin; NaN where a bin is empty."""
        return divide(self.bins[:, 2], self.bins[:, 0])

    def errors(self) -> dict[str, float]:
        """Every calibration error of the curve by name: ece, mce and the rest, as fractions."""
        return {
            "ece": float(ece_of(self.bins)),
            "ece_mass": ece_mass(self.cells, len(self.bins)),
            "ece_debiased": float(ece_debiased_of(self.bins)),
            "ece_sweep": ece_sweep(self.cells),
            "ece_smooth": smooth_ece(self.cells),
            "mce": float(mce_of(self.bins)),
        }


class CurveSums:
    """The growing sums of one curve; their size does not depend on the number of tokens."""

    def __init__(self, n_bins: int) -> None:
        self._n_bins = n_bins
        self._parts = -(-N_CELLS // n_bins)
        self.cells: Floats = np.zeros((n_bins * self._parts, N_COLUMNS))
        self.units = UnitSums(n_bins * N_COLUMNS)

    def add(self, units: NDArray[np.int64], confidence: Floats, accuracy: Floats) -> None:
        """Add a chunk of tokens."""
        columns = token_columns(confidence, accuracy)
        bins = bin_index(confidence, equal_width_edges(self._n_bins)).astype(np.int64)
        cells = cell_index(confidence, bins, self._n_bins, self._parts)
        for j in range(N_COLUMNS):
            self.cells[:, j] += np.bincount(cells, columns[:, j], minlength=len(self.cells))
        self.units.add_binned(units, bins, columns)

    def merge(self, other: CurveSums, moved: NDArray[np.int64]) -> None:
        """Add another curve, whose units go to `moved`."""
        self.cells += other.cells
        self.units.add(moved[: len(other.units.table)], other.units.table)

    def curve(self) -> Curve:
        """The curve of all units together."""
        shape = (self._n_bins, self._parts, N_COLUMNS)
        return Curve(self.cells.reshape(shape).sum(axis=1), self.cells.copy())

    def binned_units(self) -> Floats:
        """(units, bins, columns): the bin sums of each unit."""
        return self.units.table.reshape(-1, self._n_bins, N_COLUMNS)

    def by_unit(self, error: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        """`error` of bin sums as a function of rows of the unit table."""
        return lambda rows: error(rows.reshape(*rows.shape[:-1], self._n_bins, N_COLUMNS))


def cell_index(
    confidence: Floats, bins: NDArray[np.int64], n_bins: int, parts: int
) -> NDArray[np.int64]:
    """The cell of each confidence: its bin's, at its place inside the bin.

    >>> cell_index(np.array([0.0, 0.6, 1.0]), np.array([0, 1, 1]), 2, 4).tolist()
    [0, 4, 7]
    """
    inside = ((confidence * n_bins - bins) * parts).astype(np.int64).clip(0, parts - 1)
    index: NDArray[np.int64] = bins * parts + inside
    return index
