"""Smooth calibration error (Błasiok & Nakkiran 2023), from cells in the order of confidence.

smECE_σ is the integral of |smoothed gap| with a Gaussian kernel of width σ, reflected at 0 and 1;
it falls as σ grows, and smECE is where it equals σ. No bins are chosen.
"""

from __future__ import annotations

import numpy as np

from aleatoric.metrics.bins import ACCURACY, CONFIDENCE, COUNT
from aleatoric.metrics.reduction import divide
from aleatoric.types import Floats

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
