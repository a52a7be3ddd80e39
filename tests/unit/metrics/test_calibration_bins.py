"""Calibration errors from binned sums, compared with their definitions and other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.fft import dct

from aleatoric.metrics.calibration import (
    GRID,
    _gaps,
    _mass_bins_of_each,
    _smoothed,
    bin_index,
    bin_sums,
    ece,
    ece_debiased_of,
    ece_of,
    equal_mass_edges,
    equal_width_edges,
    exact_cells,
    mass_bins,
    mce_of,
    smooth_ece,
    squared_ece_debiased_of,
    sweep_bins,
)


def smooth_ece_at(cells: np.ndarray, sigma: float) -> float:
    """Smooth ECE with a kernel of given width."""
    return _smoothed(dct(_gaps(cells), type=2), sigma)


pairs = st.lists(st.tuples(st.floats(0, 1, width=32), st.floats(0, 1)), min_size=1, max_size=120)


def arrays(drawn: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(drawn, dtype=np.float64)
    return both[:, 0], both[:, 1]


def width_sums(confidence: np.ndarray, accuracy: np.ndarray, n_bins: int) -> np.ndarray:
    return bin_sums(confidence, accuracy, bin_index(confidence, equal_width_edges(n_bins)), n_bins)


def simulated(n: int, seed: int = 0, power: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 2, n)
    return confidence, (rng.random(n) < confidence**power).astype(np.float64)


@given(pairs, st.integers(1, 20))
def test_ece_and_mce_from_sums_match_definitions(
    drawn: list[tuple[float, float]], n_bins: int
) -> None:
    confidence, accuracy = arrays(drawn)
    sums = width_sums(confidence, accuracy, n_bins)
    index = bin_index(confidence, equal_width_edges(n_bins))
    gaps = {
        b: (confidence[index == b].mean() - accuracy[index == b].mean(), (index == b).mean())
        for b in set(index.tolist())
    }
    assert ece_of(sums) == pytest.approx(sum(abs(g) * w for g, w in gaps.values()), abs=1e-12)
    assert mce_of(sums) == pytest.approx(max(abs(g) for g, _ in gaps.values()), abs=1e-9)
    assert ece_of(sums) == pytest.approx(
        ece(confidence, accuracy, equal_width_edges(n_bins)), abs=1e-12
    )


@given(pairs, st.integers(1, 20))
def test_equal_mass_bins_match_array_implementation(
    drawn: list[tuple[float, float]], n_bins: int
) -> None:
    confidence, accuracy = arrays(drawn)
    edges = equal_mass_edges(sorted(confidence), len(confidence), n_bins)
    own = ece_of(mass_bins(exact_cells(confidence, accuracy), n_bins))
    assert own == pytest.approx(ece(confidence, accuracy, edges), abs=1e-12)


def test_equal_mass_bins_have_equal_counts() -> None:
    confidence, accuracy = simulated(1000)
    assert (mass_bins(exact_cells(confidence, accuracy), 10)[:, 0] == 100).all()


def test_debiased_squared_error_is_unbiased() -> None:
    """A calibrated model in one bin: the plain square is about 1/(4n), the debiased one about 0."""
    rng = np.random.default_rng(1)
    n, trials = 20, 20000
    accuracy = (rng.random((trials, n)) < 0.5).astype(np.float64)
    right = accuracy.sum(axis=1)
    sums = np.stack([np.full(trials, n), np.full(trials, n / 2), right, right], axis=-1)[:, None]
    found = squared_ece_debiased_of(sums.astype(np.float64))
    error = found.std() / math.sqrt(trials)
    assert abs(found.mean()) < 5 * error
    assert (ece_of(sums.astype(np.float64)) ** 2).mean() > 0.2 / n


def test_bin_with_one_token_is_excluded_from_debiased_error() -> None:
    """Bins of 1, 2 and 0 tokens; the second has a gap of -.25 and a variance of .5 / 2."""
    sums = np.array([[1.0, 0.9, 0.0, 0.0], [2.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert squared_ece_debiased_of(sums) == pytest.approx(0.25**2 - 0.25)
    assert ece_debiased_of(sums) == 0
    assert np.isnan(ece_debiased_of(sums[:1]))
    assert (ece_of(sums), mce_of(sums)) == pytest.approx((1.4 / 3, 0.9))
    assert np.isnan([ece_of(sums[2:]), mce_of(sums[2:])]).all()


def test_smooth_ece_of_two_gaps_matches_two_normal_densities() -> None:
    """Gaps of opposite sign 8.5 grid cells apart: ∫ |difference of two normal densities|."""
    place, width = (np.array([8000.5, 8009.0]) / GRID), 8 / GRID
    cells = np.column_stack([np.ones(2), place, place + np.array([0.25, -0.25]), np.ones(2)])
    expected = 0.25 / 2 * 2 * (2 * stats.norm.cdf(8.5 / 16) - 1)
    assert smooth_ece_at(cells, width) == pytest.approx(expected, rel=0.01)
    assert smooth_ece_at(cells, 0.0) == pytest.approx(0.25)  # no smoothing: nothing cancels


def test_sweep_stops_where_accuracy_decreases() -> None:
    confidence, accuracy = simulated(3000)
    cells = exact_cells(confidence, accuracy)
    bins = sweep_bins(cells)
    rates = bins[:, 2] / bins[:, 0]
    assert (np.diff(rates) >= 0).all()
    more = mass_bins(cells, len(bins) + 1)
    assert (np.diff(more[:, 2] / more[:, 0]) < 0).any()
    assert 0.05 < ece_of(sweep_bins(cells)) < 0.15


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_sweep_uses_one_bin_per_confidence_if_monotone(n: int) -> None:
    confidence = np.arange(1, n + 1) / 8
    cells = exact_cells(confidence, confidence**2)
    np.testing.assert_array_equal(sweep_bins(cells), cells)


@pytest.mark.parametrize("place", [0.5, 3.0, 100.25, GRID / 2 + 0.75, GRID - 0.5])
def test_grid_position_of_gap_is_its_confidence(place: float) -> None:
    cells = np.array([[2.0, 2 * place / GRID, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    gaps = _gaps(cells)
    centres = (np.arange(GRID) + 0.5) / GRID
    assert gaps.sum() == pytest.approx(-place / GRID)
    assert gaps @ centres / gaps.sum() == pytest.approx(place / GRID, rel=1e-9)
    assert np.count_nonzero(gaps) <= 2


@pytest.mark.parametrize(("confidence", "cell"), [(0.0, 0), (1.0, GRID - 1)])
def test_gaps_at_zero_and_one_lie_in_outer_cells(confidence: float, cell: int) -> None:
    gaps = _gaps(np.array([[1.0, confidence, 0.5, 0.25]]))
    assert np.flatnonzero(gaps).tolist() == [cell]
    assert gaps[cell] == 0.5 - confidence


def by_definition(confidence: np.ndarray, accuracy: np.ndarray, sigma: float) -> float:
    """∫ |Σ K(t, f)(y − f)| dt / n with the Gaussian reflected at 0 and 1, by the midpoint rule."""
    points = (np.arange(4000) + 0.5) / 4000
    images = [2 * k + sign * confidence for k in range(-4, 5) for sign in (1, -1)]
    kernel = sum(np.exp(-0.5 * ((points[:, None] - own) / sigma) ** 2) for own in images)
    gaps = kernel @ (accuracy - confidence) / (sigma * math.sqrt(2 * math.pi))
    return float(np.abs(gaps).mean() / len(confidence))


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("shape", [(4, 2), (0.5, 0.3)])
def test_smooth_ece_matches_definition(sigma: float, shape: tuple[float, float]) -> None:
    rng = np.random.default_rng(2)
    confidence = rng.beta(*shape, 200)
    accuracy = (rng.random(200) < confidence**2).astype(np.float64)
    own = smooth_ece_at(exact_cells(confidence, accuracy), sigma)
    assert own == pytest.approx(by_definition(confidence, accuracy, sigma), abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(pairs)
def test_smooth_ece_is_fixed_point_of_bandwidth(drawn: list[tuple[float, float]]) -> None:
    cells = exact_cells(*arrays(drawn))
    found = smooth_ece(cells)
    assert 0 <= found <= 1
    if found > 1e-6:
        assert smooth_ece_at(cells, found) == pytest.approx(found, abs=1e-6)


RELPLOT = {0.02: 0.10882388822874721, 0.05: 0.10205879942966793, 0.1: 0.09860687266729484}
"""smECE_sigma of relplot 1.0.3 with config.smECE_mesh_pts = 40001 on the data below."""


def test_smooth_ece_matches_relplot() -> None:
    """On data away from 0 and 1, where relplot's sum over a grid with both ends is no worse."""
    rng = np.random.default_rng(0)
    confidence = rng.beta(4, 2, 5000)
    accuracy = (rng.random(5000) < confidence**1.5).astype(np.float64)
    cells = exact_cells(confidence[:300], accuracy[:300])
    for sigma, value in RELPLOT.items():
        assert smooth_ece_at(cells, sigma) == pytest.approx(value, abs=1e-5)
    # relplot's own search for the width stops at 1/1024: 0.09861605894654159.
    assert smooth_ece(cells) == pytest.approx(0.09861605894654159, abs=1e-3)


def torchmetrics_ece(confidence: np.ndarray, correct: np.ndarray, n_bins: int) -> float:
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("torchmetrics.functional.classification")
    own, right = torch.tensor(confidence), torch.tensor(correct).long()
    # Two classes with the first predicted: its probability is the confidence.
    probs = torch.stack([own, 1 - own], dim=1)
    return float(peer.multiclass_calibration_error(probs, 1 - right, 2, n_bins=n_bins))


def netcal_ece(confidence: np.ndarray, correct: np.ndarray, n_bins: int) -> float:
    peer = pytest.importorskip("netcal.metrics")
    return float(peer.ECE(n_bins).measure(confidence, correct.astype(int)))


@pytest.mark.parametrize("n_bins", [5, 15])
def test_ece_matches_torchmetrics_below_confidence_one(n_bins: int) -> None:
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.5001, 0.9999, 3000)
    correct = (rng.random(3000) < confidence**2).astype(np.float64)
    own = ece(confidence, correct, equal_width_edges(n_bins))
    assert torchmetrics_ece(confidence, correct, n_bins) == pytest.approx(own, abs=1e-6)


@pytest.mark.parametrize("n_bins", [5, 15])
def test_ece_matches_netcal_below_confidence_one(n_bins: int) -> None:
    confidence, correct = simulated(3000)
    own = ece(confidence, correct, equal_width_edges(n_bins))
    assert netcal_ece(confidence, correct, n_bins) == pytest.approx(own, abs=1e-6)


def test_torchmetrics_puts_confidence_one_in_separate_bin() -> None:
    """Half right at 1 and all right at .95: one bin of ten, from .9 to 1, with a gap of .225.

    torchmetrics opens an eleventh bin for exactly 1, so that the two gaps do not meet; netcal
    closes the last bin, as this package does.
    """
    confidence = np.array([1.0] * 4 + [0.95] * 4)
    correct = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    own = ece(confidence, correct, equal_width_edges(10))
    assert own == pytest.approx(0.225)
    assert torchmetrics_ece(confidence, correct, 10) == pytest.approx(0.275, abs=1e-6)


def test_netcal_includes_confidence_one_in_last_bin() -> None:
    confidence = np.array([1.0] * 4 + [0.95] * 4)
    correct = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    assert netcal_ece(confidence, correct, 10) == pytest.approx(0.225)


@given(st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=1, max_size=4))
def test_equal_mass_bins_of_many_classes_match_single_class(counts: list[list[int]]) -> None:
    n = np.array(counts, dtype=float)
    cells = np.stack([n, n * 0.25, n * 0.5], axis=-1)
    for bins, of_class in zip(_mass_bins_of_each(cells, 4), cells, strict=True):
        wanted = mass_bins(of_class, 4)
        np.testing.assert_array_equal(bins[: len(wanted)], wanted)
        assert not bins[len(wanted) :].any()
