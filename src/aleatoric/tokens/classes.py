"""Class-wise sums over a vocabulary, for SCE and ACE, without a tokens × vocabulary table.

At predicted classes only the (class, cell) pairs that occur are kept, each of the bins cut into
`PARTS` cells for ACE. Nixon's formula takes all classes at all tokens: class × bin sums for SCE,
and for ACE class × cell sums on `LOG_CELLS` cells of equal ratio from e^-24 up, so that ranges of
equal mass have borders a factor of 1.45 apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.bins import bin_sums
from aleatoric.metrics.calibration import bin_index, equal_width_edges
from aleatoric.metrics.classwise import ace_of, predicted_class_errors, sce_of
from aleatoric.tokens.curves import cell_index
from aleatoric.tokens.kernels import dense
from aleatoric.types import Floats

PARTS = 8
LOG_CELLS = 64
_BUFFER = 1 << 16
_CELLS_AT_ONCE = 1 << 23


class PredictedClasses:
    """Sums by (predicted class, cell), only for pairs that occur.

    >>> own = PredictedClasses(n_bins=2)
    >>> own.add(np.array([3, 3, 7]), np.array([0.75, 0.75, 0.5]), np.array([1.0, 0.0, 1.0]))
    >>> {name: round(value, 4) for name, value in own.errors().items()}
    {'sce_predicted': 0.375, 'ace_predicted': 0.375, 'sce_weighted': 0.3333, 'ace_weighted': 0.3333}
    """

    def __init__(self, n_bins: int) -> None:
        self._n_bins = n_bins
        self._keys = np.zeros(0, dtype=np.int64)
        self._sums: Floats = np.zeros((0, 3))
        self._waiting: list[tuple[NDArray[np.int64], Floats]] = []
        self._n_waiting = 0

    def add(self, predicted: NDArray[np.int64], confidence: Floats, correct: Floats) -> None:
        """Add a chunk of tokens."""
        bins = bin_index(confidence, equal_width_edges(self._n_bins)).astype(np.int64)
        cells = cell_index(confidence, bins, self._n_bins, PARTS)
        keys = predicted * (self._n_bins * PARTS) + cells
        self._wait(keys, np.stack([np.ones_like(confidence), confidence, correct], axis=-1))

    def merge(self, other: PredictedClasses) -> None:
        """Add another's sums."""
        other._settle()
        self._wait(other._keys, other._sums)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All sums, to be saved."""
        self._settle()
        return {"keys": self._keys, "sums": self._sums}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over saved sums in place of own ones."""
        self._keys, self._sums = arrays["keys"], arrays["sums"]
        self._waiting, self._n_waiting = [], 0

    def errors(self) -> dict[str, float]:
        """SCE and ACE as means over predicted classes of the class's ECE, plain and weighted."""
        self._settle()
        classes, cells = np.divmod(self._keys, self._n_bins * PARTS)
        _, row = np.unique(classes, return_inverse=True)
        # Keys are sorted, so a class's cells come together and in order.
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        place = row * self._n_bins + cells // PARTS
        size = (len(starts), self._n_bins)
        sums = [np.bincount(place, own, minlength=size[0] * size[1]) for own in self._sums.T]
        table = np.stack(sums, axis=-1).astype(np.float64).reshape(*size, 3)
        return predicted_class_errors(table, np.split(self._sums, starts[1:]), self._n_bins)

    def _wait(self, keys: NDArray[np.int64], sums: Floats) -> None:
        self._waiting.append((keys, sums))
        self._n_waiting += len(keys)
        if self._n_waiting > max(_BUFFER, len(self._keys)):
            self._settle()

    def _settle(self) -> None:
        keys = np.concatenate([self._keys, *(own for own, _ in self._waiting)])
        sums = np.concatenate([self._sums, *(own for _, own in self._waiting)])
        self._keys, place = np.unique(keys, return_inverse=True)
        totals = [np.bincount(place, own, minlength=len(self._keys)) for own in sums.T]
        self._sums = np.stack(totals, axis=-1) if len(self._keys) else np.zeros((0, 3))
        self._waiting, self._n_waiting = [], 0


class AllClasses:
    """Sums by class and bin over every class at every token (Nixon et al. 2019).

    Nearly every probability lies in the lowest bin: only the others are placed one by one, and
    the lowest bin has what they leave of the class's total.

    >>> own = AllClasses(n_classes=2, n_bins=2)
    >>> own.add(np.log(np.array([[0.75, 0.25], [0.75, 0.25]])), np.array([0, 1]))
    >>> errors = own.errors()
    >>> round(errors["sce"], 6), round(errors["ace"], 6)
    (0.25, 0.125)
    """

    def __init__(self, n_classes: int, n_bins: int) -> None:
        self._n_bins = n_bins
        self._n_tokens = 0
        self._upper: Floats = np.zeros((n_classes, n_bins, 3))
        self._cells: Floats = np.zeros((3, LOG_CELLS, n_classes))

    def add(self, values: Any, targets: NDArray[np.int64]) -> None:
        """Add a chunk of logits or log-probabilities, some rows at a time."""
        step = max(1, _CELLS_AT_ONCE // len(self._upper))
        for start in range(0, len(targets), step):
            part = values[start : start + step]
            found = dense.of_rows(part, targets[start : start + step], LOG_CELLS, 1 / self._n_bins)
            self._add(found)
        self._n_tokens += len(targets)

    def merge(self, other: AllClasses) -> None:
        """Add another's sums."""
        self._upper += other._upper
        self._cells += other._cells
        self._n_tokens += other._n_tokens

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All sums that are not 0, to be saved: bits say where they stand."""
        found: dict[str, NDArray[Any]] = {"n_tokens": np.array(self._n_tokens)}
        for name, table in self._tables().items():
            held = table != 0
            found |= {f"{name}/held": np.packbits(held), f"{name}/sums": _narrow(table[held])}
        return found

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over saved sums in place of own ones."""
        self._n_tokens = int(arrays["n_tokens"])
        for name, table in self._tables().items():
            bits = np.unpackbits(arrays[f"{name}/held"], count=table.size)
            held = bits.astype(bool).reshape(table.shape)
            table[...] = 0.0
            table[held] = arrays[f"{name}/sums"]

    def errors(self) -> dict[str, float]:
        """SCE and ACE by Nixon's formula."""
        cells = np.moveaxis(self._cells, (0, 1, 2), (2, 1, 0))
        bins = self._upper.copy()
        bins[:, 0] = cells.sum(axis=1) - bins[:, 1:].sum(axis=1)
        n_classes = len(bins)
        static = sce_of(bins, n_classes, self._n_tokens)
        return {"sce": static, "ace": ace_of(cells, n_classes, self._n_bins)}

    def unseen_share(self) -> float:
        """The share of classes that are the reference of no token.

        >>> own = AllClasses(n_classes=4, n_bins=2)
        >>> own.add(np.zeros((3, 4)), np.array([0, 1, 1]))
        >>> own.unseen_share()
        0.5
        """
        _, _, hits = self._cells
        return float((hits.sum(axis=0) == 0).mean())

    def _add(self, found: dense.RowSums) -> None:
        counts, probs, hits = self._cells
        counts += found.counts
        probs += found.probs
        np.add.at(hits.reshape(-1), found.hits, 1.0)
        bins = bin_index(found.upper_probs, equal_width_edges(self._n_bins))
        place = found.upper_classes * self._n_bins + bins
        sums = bin_sums(found.upper_probs, found.upper_correct, place, self._upper[..., 0].size)
        self._upper += sums[:, :3].reshape(self._upper.shape)
        # What single precision places in the lowest bin after all is counted there as the rest.
        self._upper[:, 0] = 0.0

    def _tables(self) -> dict[str, Floats]:
        return {
            "upper": self._upper,
            "counts": self._cells[0],
            "probs": self._cells[1],
            "hits": self._cells[2],
        }


def _narrow(sums: Floats) -> NDArray[Any]:
    """Counts as whole numbers of half the size; anything else as it is."""
    whole = sums.astype(np.int32) if sums.max(initial=0) < 2**31 else sums
    return whole if np.array_equal(whole, sums) else sums
