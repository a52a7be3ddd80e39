"""Densities of large samples match the exact kernel density estimate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from aleatoric.studies.figure_data import density


@pytest.mark.parametrize("steps", [20, 10**9])
def test_density_of_large_sample_matches_exact_kde(steps: int) -> None:
    """Values on a coarse grid, and arbitrary values."""
    sample = np.round(np.random.default_rng(0).beta(2, 5, 5000) * steps) / steps
    line = density("people", sample)
    every = gaussian_kde(sample)
    x = np.array(line.x)
    wanted = every(x) + every(-x) + every(2 - x)
    assert np.array(line.y) == pytest.approx(wanted, abs=2e-3 * wanted.max())
