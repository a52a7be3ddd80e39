"""Expected calibration error over confidence bins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.reduction import Chunk, divide
from aleatoric.types import Floats

N_BINS = 10


def equal_width_edges(n_bins: int = N_BINS) -> tuple[float, ...]:
    """The inner edges of bins of equal width.

    >>> equal_width_edges(4)
    (0.25, 0.5, 0.75)
    """
    return tuple(i / n_bins for i in range(1, n_bins))


def equal_mass_edges(
    confidences: Iterable[float], n: int, n_bins: int = N_BINS
) -> tuple[float, ...]:
    """The inner edges of bins of equal mass; `confidences` come sorted, and are read once.

    Equal confidences never part: an edge opens the bin of the value it equals.

    >>> equal_mass_edges([0.125, 0.25, 0.5, 0.75], n=4, n_bins=2)
    (0.5,)
    """
    starts = {round(i * n / n_bins) for i in range(1, n_bins)}
    # In single precision, like the confidences that are placed: an edge opens its own value's bin.
    found = (float(np.float32(c)) for i, c in enumerate(confidences) if i in starts and i > 0)
    return tuple(dict.fromkeys(found))


def bin_index(
    confidences: Floats, edges: tuple[float, ...], closed: bool = True
) -> NDArray[np.intp]:
    """The bin of each confidence; with `closed=False` a confidence of 1 is in no bin (-1).

    A confidence that should equal an edge (28 of 40 = .7) is placed by its single-precision
    value: that is how the published numbers were made, and no double falls on an edge by rounding.

    >>> bin_index(np.array([0.05, 0.95, 1.0]), equal_width_edges(), closed=False).tolist()
    [0, 9, -1]
    """
    index = np.searchsorted(np.array(edges), confidences.astype(np.float32), side="right")
    return index if closed else np.where(confidences >= 1, -1, index)


@dataclass(frozen=True)
class Bins:
    """Bins of confidence: their inner edges, and whether the last holds a confidence of 1."""

    edges: tuple[float, ...]
    closed: bool = True

    @property
    def n_places(self) -> int:
        """Bins, and a last place for what is in none."""
        return len(self.edges) + 2

    def places(self, confidences: Floats) -> NDArray[np.intp]:
        """The bin of each confidence, or the last place.

        >>> Bins((0.5,), closed=False).places(np.array([0.2, 0.9, 1.0])).tolist()
        [0, 1, 2]
        """
        places: NDArray[np.intp] = bin_index(confidences, self.edges, self.closed) % self.n_places
        return places


@dataclass(frozen=True, eq=False)
class Binned:
    """Confidence and correctness of items, 0 where undefined, and their bins, there -1."""

    confidence: Floats
    correct: Floats
    known: NDArray[np.bool_]
    index: NDArray[np.intp]


def binned(chunk: Chunk, correct: str, edges: tuple[float, ...], closed: bool) -> Binned:
    """The items of a chunk by their confidence.

    >>> chunk = {"confidence": np.array([[0.7], [np.nan]]), "right": np.array([[1.0], [1.0]])}
    >>> binned(chunk, "right", (0.5,), True).index.tolist()
    [[1], [-1]]
    """
    sure, right = np.broadcast_arrays(chunk["confidence"], chunk[correct])
    known = np.isfinite(sure) & np.isfinite(right)
    # Undefined items go to no bin, like a confidence of 1 where the last bin is open.
    index = np.where(known, bin_index(sure, edges, closed), -1)
    return Binned(np.where(known, sure, 0.0), np.where(known, right, 0.0), known, index)


@dataclass(frozen=True)
class ECE:
    """Expected calibration error as a reduction: bin by confidence, compare with correctness.

    >>> ece = ECE("correct", equal_width_edges())
    >>> chunk = {"confidence": np.array([[0.75], [0.75]]), "correct": np.array([[1.0], [0.0]])}
    >>> ece.values(ece.columns(chunk).sum(axis=0)).tolist()
    [0.25]
    """

    correct: str
    edges: tuple[float, ...]
    closed: bool = True

    def columns(self, chunk: Chunk) -> Floats:
        """By bin and split, confidence minus correctness; then the number of items by split."""
        own = binned(chunk, self.correct, self.edges, self.closed)
        member = own.index[:, None, :] == np.arange(len(self.edges) + 1)[None, :, None]
        gap = own.confidence - own.correct
        gaps = (member * gap[:, None, :]).reshape(len(gap), member.shape[1] * member.shape[2])
        return np.concatenate([gaps, own.known], axis=1)

    def values(self, sums: Floats) -> Floats:
        """Sum over bins of |sum of gaps|, over the number of items, by split."""
        n_splits = sums.shape[-1] // (len(self.edges) + 2)
        gaps, counts = sums[..., :-n_splits], sums[..., -n_splits:]
        by_bin = gaps.reshape(*sums.shape[:-1], len(self.edges) + 1, n_splits)
        return divide(np.abs(by_bin).sum(axis=-2), counts)

    def defined(self, sums: Floats) -> int:
        """Items with a confidence and a correctness."""
        n_splits = sums.shape[-1] // (len(self.edges) + 2)
        return int(sums[..., -n_splits:].max())


def ece(
    confidences: Floats, correct: Floats, edges: tuple[float, ...], closed: bool = True
) -> float | None:
    """ECE of plain arrays; `None` for no items.

    >>> ece(np.array([0.75, 0.75]), np.array([1.0, 0.0]), equal_width_edges())
    0.25
    """
    reduction = ECE("correct", edges, closed)
    chunk = {"confidence": confidences[:, None], "correct": correct[:, None]}
    value = float(reduction.values(reduction.columns(chunk).sum(axis=0))[0])
    return None if np.isnan(value) else value
