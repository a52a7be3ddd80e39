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


COUNT, CONFIDENCE, ACCURACY, SQUARE = range(4)
N_COLUMNS = 4


def token_columns(confidence: Floats, accuracy: Floats) -> Floats:
    """What each token adds to the sums of its bin: (tokens, 4).

    >>> token_columns(np.array([0.75]), np.array([0.5])).tolist()
    [[1.0, 0.75, 0.5, 0.25]]
    """
    return np.stack([np.ones_like(confidence), confidence, accuracy, accuracy**2], axis=-1)


def bin_sums(confidence: Floats, accuracy: Floats, bins: NDArray[np.intp], n_bins: int) -> Floats:
    """The sums of each bin: (bins, 4).

    >>> bin_sums(np.array([0.25, 0.75]), np.array([0.0, 1.0]), np.array([0, 1]), 2)[:, 1].tolist()
    [0.25, 0.75]
    """
    columns = token_columns(confidence, accuracy).T
    return np.stack([np.bincount(bins, own, minlength=n_bins) for own in columns], axis=-1)


def ece_of(sums: Floats) -> Floats:
    """Expected calibration error: Σ |bin| / N · |accuracy − confidence|; NaN without tokens.

    >>> ece_of(np.array([[2.0, 1.5, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])).tolist()
    0.25
    """
    gaps = np.abs(sums[..., CONFIDENCE] - sums[..., ACCURACY]).sum(axis=-1)
    return divide(gaps, sums[..., COUNT].sum(axis=-1))


def mce_of(sums: Floats) -> Floats:
    """Maximum calibration error: the largest |accuracy − confidence| of a bin that holds a token.

    >>> mce_of(np.array([[2.0, 1.5, 1.0, 1.0], [1.0, 0.75, 0.0, 0.0]])).tolist()
    0.75
    """
    gaps = np.abs(divide(sums[..., CONFIDENCE] - sums[..., ACCURACY], sums[..., COUNT]))
    largest: Floats = np.where(np.isnan(gaps), -np.inf, gaps).max(axis=-1)
    return np.where(np.isfinite(largest), largest, np.nan)


def squared_ece_debiased_of(sums: Floats) -> Floats:
    """The mean square of the bins' gaps, less what noise adds to it (Bröcker 2012, Kumar 2019).

    From a bin's squared gap the sampling variance of its mean accuracy is taken away, so that the
    result is unbiased and may be below 0. Bins of one token have no variance and are left out.

    >>> round(float(squared_ece_debiased_of(np.array([[4.0, 2.0, 2.0, 2.0]]))), 6)
    -0.083333
    """
    count = sums[..., COUNT]
    mean = divide(sums[..., ACCURACY], count)
    gap = divide(sums[..., CONFIDENCE], count) - mean
    variance = divide(divide(sums[..., SQUARE], count) - mean**2, count - 1)
    used = count > 1
    terms = np.where(used, count * (gap**2 - variance), 0.0).sum(axis=-1)
    return divide(terms, np.where(used, count, 0.0).sum(axis=-1))


def ece_debiased_of(sums: Floats) -> Floats:
    """The root of the debiased mean squared gap, 0 where that is negative.

    A root mean square: compare it with other root mean squares, not with `ece_of`, which averages
    absolute gaps.

    >>> float(ece_debiased_of(np.array([[4.0, 2.0, 2.0, 2.0]])))
    0.0
    """
    squared = squared_ece_debiased_of(sums)
    root: Floats = np.sqrt(np.maximum(squared, 0.0))
    return np.where(np.isnan(squared), np.nan, root)


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


GRID = 1 << 14


def smooth_ece(cells: Floats) -> float:
    """Smooth ECE of (cells, 4) sums; a cell's tokens lie at their mean confidence.

    >>> half_right = np.array([[10.0, 8.0, 5.0, 5.0]])
    >>> round(smooth_ece(half_right), 6)
    0.3
    """
    from scipy.optimize import brentq

    spectrum = _spectrum(cells)

    def excess(sigma: float) -> float:
        return _smoothed(spectrum, sigma) - sigma

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, 1.0, xtol=1e-9))


def smooth_ece_at(cells: Floats, sigma: float) -> float:
    """Smooth ECE with a kernel of given width.

    >>> round(smooth_ece_at(np.array([[10.0, 8.0, 5.0, 5.0]]), 0.01), 6)
    0.3
    """
    return _smoothed(_spectrum(cells), sigma)


def _spectrum(cells: Floats) -> Floats:
    """Cosines continue a function at 0 and 1 by reflection, as the kernel does."""
    from scipy.fft import dct

    found: Floats = dct(_gaps(cells), type=2)
    return found


def _gaps(cells: Floats) -> Floats:
    """Accuracy less confidence on a fine grid, shared between the two nearest grid cells."""
    used = cells[cells[:, COUNT] > 0]
    place = divide(used[:, CONFIDENCE], used[:, COUNT]).clip(0, 1) * GRID - 0.5
    left = np.floor(place).astype(np.int64)
    share = place - left
    gap = (used[:, ACCURACY] - used[:, CONFIDENCE]) / used[:, COUNT].sum()
    low = np.bincount(left.clip(0, GRID - 1), gap * (1 - share), minlength=GRID)
    high = np.bincount((left + 1).clip(0, GRID - 1), gap * share, minlength=GRID)
    return np.asarray(low + high, dtype=np.float64)


def _smoothed(spectrum: Floats, sigma: float) -> float:
    """The integral of the absolute gap after smoothing: a reflected Gaussian is a product here."""
    from scipy.fft import idct

    damping = np.exp(-0.5 * (np.pi * np.arange(GRID) * sigma) ** 2)
    return float(np.abs(idct(spectrum * damping, type=2)).sum())
