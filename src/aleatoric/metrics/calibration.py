"""Calibration errors over confidence bins: ECE and its variants, and class-wise SCE and ACE.

SCE and ACE come in three forms. Nixon's formula (2019) takes every class at every token, which over
a vocabulary of thousands is tiny. The other two take each token at its predicted class only and
average the ECE of these classes: `predicted` weighs them equally, `weighted` by their tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.reduction import Chunk, divide
from aleatoric.types import Floats

N_BINS = 10
Edges = tuple[float, ...]
Binned = tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.intp]]


def confidence_edges(binning: str, pages: Iterable[Floats]) -> Edges:
    """The inner edges of bins of equal width, or of equal mass of the finite confidences."""
    if binning == "equal-width":
        return equal_width_edges()
    confidences = [c for c in np.sort(np.concatenate([*pages])).tolist() if math.isfinite(c)]
    return equal_mass_edges(confidences, len(confidences))


def equal_width_edges(n_bins: int = N_BINS) -> Edges:
    """The inner edges of bins of equal width: (0.25, 0.5, 0.75) for four."""
    return tuple(i / n_bins for i in range(1, n_bins))


def equal_mass_edges(confidences: Iterable[float], n: int, n_bins: int = N_BINS) -> Edges:
    """The inner edges of bins of equal mass of sorted confidences; equal ones stay together."""
    starts = {round(i * n / n_bins) for i in range(1, n_bins)}
    # In single precision, like the confidences in `bin_index`: an edge belongs to the bin above it.
    edges = (float(np.float32(c)) for i, c in enumerate(confidences) if i in starts and i > 0)
    return tuple(dict.fromkeys(edges))


def bin_index(confidences: Floats, edges: Edges, closed: bool = True) -> NDArray[np.intp]:
    """The bin of each confidence; with `closed=False` a confidence of 1 is in no bin (-1).

    A confidence that should equal an edge (28 of 40 = .7) is placed by its single-precision value:
    the published numbers were computed this way, and rounding puts no double on an edge.
    """
    index = np.searchsorted(np.array(edges), confidences.astype(np.float32), side="right")
    return index if closed else np.where(confidences >= 1, -1, index)


def binned(chunk: Chunk, correct: str, edges: Edges, closed: bool) -> Binned:
    """Confidence and correctness (0 if undefined), whether both are defined, and bins (else -1)."""
    confidence, is_correct = np.broadcast_arrays(chunk["confidence"], chunk[correct])
    defined = np.isfinite(confidence) & np.isfinite(is_correct)
    # Undefined items go to no bin, like a confidence of 1 if the last bin is open.
    index = np.where(defined, bin_index(confidence, edges, closed), -1)
    return np.where(defined, confidence, 0.0), np.where(defined, is_correct, 0.0), defined, index


@dataclass(frozen=True)
class ECE:
    """Expected calibration error as a reduction: gaps of confidence and correctness by bin."""

    correct: str
    edges: Edges
    closed: bool = True

    def columns(self, chunk: Chunk) -> Floats:
        """Confidence minus correctness by bin and split, then the number of items by split."""
        confidence, correct, defined, index = binned(chunk, self.correct, self.edges, self.closed)
        member = index[:, None, :] == np.arange(len(self.edges) + 1)[None, :, None]
        gaps = member * (confidence - correct)[:, None, :]
        return np.concatenate([gaps.reshape(len(gaps), math.prod(gaps.shape[1:])), defined], axis=1)

    def values(self, sums: Floats) -> Floats:
        """Sum over bins of |sum of gaps|, divided by the number of items, per split."""
        n_splits = sums.shape[-1] // (len(self.edges) + 2)
        gaps, counts = sums[..., :-n_splits], sums[..., -n_splits:]
        by_bin = gaps.reshape(*sums.shape[:-1], len(self.edges) + 1, n_splits)
        return divide(np.abs(by_bin).sum(axis=-2), counts)

    def defined(self, sums: Floats) -> int:
        """Items with a confidence and a correctness."""
        n_splits = sums.shape[-1] // (len(self.edges) + 2)
        return int(sums[..., -n_splits:].max())


@dataclass(frozen=True)
class DebiasedECE(ECE):
    """The debiased ECE (Bröcker 2012, Kumar et al. 2019) as a reduction.

    A root mean square, not comparable with `ECE`, which averages absolute gaps. The correction for
    noise treats the items of a bin as independent; the interval accounts for groups.
    """

    def columns(self, chunk: Chunk) -> Floats:
        """Bin sums by split, bin and kind, flattened."""
        confidence, correct, _, index = binned(chunk, self.correct, self.edges, self.closed)
        member = index[:, :, None] == np.arange(len(self.edges) + 1)
        cube: Floats = member[..., None] * token_columns(confidence, correct)[:, :, None, :]
        return cube.reshape(len(cube), -1)

    def values(self, sums: Floats) -> Floats:
        """The root of the debiased mean squared gap, per split."""
        return ece_debiased_of(self._cube(sums))

    def defined(self, sums: Floats) -> int:
        """Items in a bin."""
        return int(self._cube(sums)[..., 0].sum(axis=-1).max())

    def _cube(self, sums: Floats) -> Floats:
        return sums.reshape(*sums.shape[:-1], -1, len(self.edges) + 1, N_COLUMNS)


def ece(confidences: Floats, correct: Floats, edges: Edges, closed: bool = True) -> float | None:
    """ECE of plain arrays; `None` without items."""
    reduction = ECE("correct", edges, closed)
    chunk = {"confidence": confidences[:, None], "correct": correct[:, None]}
    value = float(reduction.values(reduction.columns(chunk).sum(axis=0))[0])
    return None if np.isnan(value) else value


COUNT, CONFIDENCE, ACCURACY, SQUARE = range(4)
N_COLUMNS = 4


def token_columns(confidence: Floats, accuracy: Floats) -> Floats:
    """The contribution of each token to the sums of its bin: (tokens, 4)."""
    return np.stack([np.ones_like(confidence), confidence, accuracy, accuracy**2], axis=-1)


def bin_sums(confidence: Floats, accuracy: Floats, bins: NDArray[np.intp], n_bins: int) -> Floats:
    """The sums of each bin: (bins, 4)."""
    return sums_by(bins, token_columns(confidence, accuracy), n_bins)


def sums_by(places: NDArray[np.intp], rows: Floats, n_places: int) -> Floats:
    """The sums of (n, k) rows by their places: (places, k)."""
    sums = [np.bincount(places, column, n_places) for column in rows.T]
    return np.stack(sums, axis=-1).astype(np.float64)


def ece_of(sums: Floats) -> Floats:
    """Expected calibration error: Σ |bin| / N · |accuracy − confidence|; NaN without tokens."""
    gaps = np.abs(sums[..., CONFIDENCE] - sums[..., ACCURACY]).sum(axis=-1)
    return divide(gaps, sums[..., COUNT].sum(axis=-1))


def mce_of(sums: Floats) -> Floats:
    """Maximum calibration error: the largest |accuracy − confidence| of a non-empty bin."""
    gaps = np.abs(divide(sums[..., CONFIDENCE] - sums[..., ACCURACY], sums[..., COUNT]))
    largest: Floats = np.where(np.isnan(gaps), -np.inf, gaps).max(axis=-1)
    return np.where(np.isfinite(largest), largest, np.nan)


def squared_ece_debiased_of(sums: Floats) -> Floats:
    """The mean squared gap of the bins, minus what noise adds to it (Bröcker 2012, Kumar 2019).

    The sampling variance of a bin's mean accuracy is subtracted from its squared gap, so the result
    is unbiased and may be negative. Bins of one token have no variance and are left out.
    """
    count = sums[..., COUNT]
    mean = divide(sums[..., ACCURACY], count)
    gap = divide(sums[..., CONFIDENCE], count) - mean
    variance = divide(divide(sums[..., SQUARE], count) - mean**2, count - 1)
    used = count > 1
    terms = np.where(used, count * (gap**2 - variance), 0.0).sum(axis=-1)
    return divide(terms, np.where(used, count, 0.0).sum(axis=-1))


def ece_debiased_of(sums: Floats) -> Floats:
    """The root of the debiased mean squared gap, 0 if that is negative."""
    return np.sqrt(np.maximum(squared_ece_debiased_of(sums), 0.0))


def exact_cells(confidence: Floats, accuracy: Floats) -> Floats:
    """One cell per distinct confidence in single precision, in order."""
    distinct, cell = np.unique(confidence.astype(np.float32), return_inverse=True)
    return bin_sums(confidence, accuracy, cell, len(distinct))


def sweep_bins(cells: Floats) -> Floats:
    """The largest number of equal-mass bins with non-decreasing accuracy (Roelofs et al. 2022)."""
    best = mass_bins(cells, 1)
    most = int(min(np.count_nonzero(cells[:, COUNT]), cells[:, COUNT].sum()))
    for n_bins in range(2, most + 1):
        bins = mass_bins(cells, n_bins)
        if np.any(np.diff(divide(bins[:, ACCURACY], bins[:, COUNT])) < 0):
            break
        best = bins
    return best


def mass_bins(cells: Floats, n_bins: int) -> Floats:
    """Sums of at most `n_bins` bins of equal mass, as far as the cells allow.

    The cells of the tokens at i/n_bins of all, in order, start a bin.
    """
    counts = cells[:, COUNT]
    below = np.cumsum(counts)
    total = float(below[-1]) if len(below) else 0.0
    tokens = np.array([float(round(i * total / n_bins)) for i in range(1, n_bins)])
    # The cell of token t (from 0) is the first whose cumulative count exceeds t.
    opened = np.searchsorted(below, tokens[tokens > 0], side="right")
    starts = np.union1d(np.flatnonzero(counts)[:1], opened[opened < len(counts)]).astype(np.intp)
    return np.add.reduceat(cells, starts, axis=0) if len(starts) else cells[:0]


GRID = 1 << 14


def smooth_ece(cells: Floats) -> float:
    """Smooth ECE (Błasiok & Nakkiran 2023) of (cells, 4) sums, at each cell's mean confidence."""
    from scipy.fft import dct
    from scipy.optimize import brentq

    # A cosine transform: like the kernel, it reflects the gaps at 0 and 1.
    spectrum = dct(_gaps(cells), type=2)

    def excess(sigma: float) -> float:
        return _smoothed(spectrum, sigma) - sigma

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, 1.0, xtol=1e-9))


def _gaps(cells: Floats) -> Floats:
    """Accuracy minus confidence on a fine grid, split between the two nearest grid cells."""
    used = cells[cells[:, COUNT] > 0]
    position = divide(used[:, CONFIDENCE], used[:, COUNT]).clip(0, 1) * GRID - 0.5
    cell = np.floor(position).astype(np.int64)
    share = position - cell
    gap = (used[:, ACCURACY] - used[:, CONFIDENCE]) / used[:, COUNT].sum()
    low = np.bincount(cell.clip(0, GRID - 1), gap * (1 - share), minlength=GRID)
    high = np.bincount((cell + 1).clip(0, GRID - 1), gap * share, minlength=GRID)
    return np.asarray(low + high, dtype=np.float64)


def _smoothed(spectrum: Floats, sigma: float) -> float:
    """Integral of the absolute smoothed gap: a reflected Gaussian multiplies the spectrum."""
    from scipy.fft import idct

    damping = np.exp(-0.5 * (np.pi * np.arange(GRID) * sigma) ** 2)
    return float(np.abs(idct(spectrum * damping, type=2)).sum())


_CLASSES_AT_ONCE = 4096


def sce_of(sums: Floats, n_classes: int, n_tokens: float) -> float:
    """Static calibration error: (1/K) Σ_k Σ_bins |bin| / N · |accuracy − confidence|.

    `sums` is (classes, bins, 3 or more); classes without tokens may be left out of it.
    """
    gaps = np.abs(sums[..., CONFIDENCE] - sums[..., ACCURACY]).sum()
    return float(gaps / (n_classes * n_tokens))


def ace_of(cells: Floats, n_classes: int, n_bins: int) -> float:
    """Adaptive calibration error: (1/KR) Σ_k Σ_r |accuracy − confidence|, ranges of equal mass.

    `cells` is (classes, cells, 3 or more) with a class's tokens in order of confidence.
    """
    total = 0.0
    for start in range(0, len(cells), _CLASSES_AT_ONCE):
        bins = _mass_bins_of_each(cells[start : start + _CLASSES_AT_ONCE, :, :3], n_bins)
        gaps = np.abs(divide(bins[..., CONFIDENCE] - bins[..., ACCURACY], bins[..., COUNT]))
        total += float(np.nansum(gaps))
    return total / (n_classes * n_bins)


def predicted_class_errors(sums: Floats, cells: list[Floats], n_bins: int) -> dict[str, float]:
    """Means over predicted classes of the class's ECE, by name; NaN without tokens.

    `sums` is (classes, bins, 3 or more) in bins of equal width, for SCE; `cells` holds the tokens
    of each class in order of confidence, to be cut into bins of equal mass, for ACE.
    """
    counts = sums[..., COUNT].sum(axis=-1)
    parts = [cells[i : i + _CLASSES_AT_ONCE] for i in range(0, len(cells), _CLASSES_AT_ONCE)]
    errors = [ece_of(_mass_bins_of_each(_padded(part), n_bins)) for part in parts]
    static, adaptive = ece_of(sums), np.concatenate(errors) if errors else np.zeros(0)
    return {
        "sce_predicted": _mean_over(counts > 0, static),
        "ace_predicted": _mean_over(counts > 0, adaptive),
        "sce_weighted": _mean_over(counts, static),
        "ace_weighted": _mean_over(counts, adaptive),
    }


def _mass_bins_of_each(cells: Floats, n_bins: int) -> Floats:
    """`mass_bins` of every class at once: (classes, bins, 3), with unneeded bins empty."""
    below = np.cumsum(cells[..., COUNT], axis=1)
    tokens = np.round(np.arange(1, n_bins) * below[:, -1:] / n_bins)
    opens = np.zeros(below.shape, dtype=bool)
    for token in tokens.T[:, :, None]:
        opened = (below <= token).sum(axis=1)
        rows = np.flatnonzero((token[:, 0] > 0) & (opened < below.shape[1]))
        opens[rows, opened[rows]] = True
    # The first non-empty cell opens the first bin, whatever else opens there.
    opens[np.arange(len(cells)), (cells[..., COUNT] > 0).argmax(axis=1)] = True
    label = np.maximum(np.cumsum(opens, axis=1) - 1, 0)
    place = (np.arange(len(cells))[:, None] * n_bins + label).ravel()
    return sums_by(place, cells.reshape(-1, 3), len(cells) * n_bins).reshape(-1, n_bins, 3)


def _padded(cells: list[Floats]) -> Floats:
    """Classes with different numbers of cells as one table, with empty cells at the end."""
    sizes = np.array([len(part) for part in cells])
    table = np.zeros((len(cells), int(sizes.max()), 3))
    table[np.arange(sizes.max()) < sizes[:, None]] = np.concatenate([p[:, :3] for p in cells])
    return table


def _mean_over(weights: NDArray[Any], errors: Floats) -> float:
    """The weighted mean of the classes' errors; a class of weight 0 may have none."""
    used = weights > 0
    return float(np.average(errors[used], weights=weights[used])) if used.any() else float("nan")
