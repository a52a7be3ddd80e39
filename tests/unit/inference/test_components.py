"""Variance components of mean distances: equal to U-statistics, and right in simulation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
from marks import sampled

from aleatoric.inference.components import STATISTICS, Parts, ShapedDistances, Weights, parts_of
from aleatoric.rng import stream
from aleatoric.types import Floats

N, M = 5, 6


def distance(left: Floats, right: Floats) -> Floats:
    """A bounded distance of (..., texts, 2) points that is no metric of a simple form."""
    gaps = left[..., :, None, :] - right[..., None, :, :]
    return 1 - np.exp(-(np.abs(gaps).sum(axis=-1) ** 1.5))


def points(rng: np.random.Generator, n_inputs: int, n: int, spread: float, shift: float) -> Floats:
    return rng.gamma(2.0, spread, (n_inputs, n, 2)) + shift


def drawn(
    rng: np.random.Generator, n_inputs: int, n: int, m: int
) -> tuple[ShapedDistances, ShapedDistances]:
    """People and two systems."""
    people = points(rng, n_inputs, n, 0.3, 0.0)
    systems = [points(rng, n_inputs, m, 0.2, 0.2), points(rng, n_inputs, m, 0.5, -0.1)]
    return tuple(
        ShapedDistances(distance(people, people), distance(draws, draws), distance(draws, people))
        for draws in systems
    )  # type: ignore[return-value]


def mean_over(tuples: object, value: Callable[..., float]) -> float:
    return float(np.mean([value(*each) for each in tuples]))  # type: ignore[attr-defined]


def naive(d: ShapedDistances, w: Weights) -> list[float]:
    """The parts of one input from means over tuples of different texts."""
    h, k, c = d.human[0], d.model[0], d.cross[0]

    def covariance(pairs: Floats) -> tuple[float, float]:
        """Of two pairs with a common text, and the variance of a pair."""
        n = len(pairs)
        apart = mean_over(permutations(range(n), 4), lambda i, j, x, y: pairs[i, j] * pairs[x, y])
        one = mean_over(permutations(range(n), 3), lambda i, j, x: pairs[i, j] * pairs[i, x])
        both = mean_over(permutations(range(n), 2), lambda i, j: pairs[i, j] ** 2)
        return one - apart, both - apart

    def of_grid(grid: Floats) -> tuple[float, float, float]:
        rows, columns = ([*permutations(range(size), 2)] for size in grid.shape)
        apart = mean_over(product(rows, columns), lambda z, y: grid[z[0], y[0]] * grid[z[1], y[1]])
        row = mean_over(
            product(range(len(grid)), columns), lambda z, y: grid[z, y[0]] * grid[z, y[1]]
        )
        column = mean_over(
            product(rows, range(grid.shape[1])), lambda z, y: grid[z[0], y] * grid[z[1], y]
        )
        return row - apart, column - apart, float((grid**2).mean()) - apart

    def mixed(pairs: Floats, grid: Floats) -> float:
        """Covariance of a pair and a cell (z, y) with a common text y."""
        n = len(pairs)
        together = mean_over(
            permutations(range(n), 2), lambda i, j: pairs[i, j] * grid[:, i].mean()
        )
        apart = mean_over(
            permutations(range(n), 3), lambda i, j, x: pairs[i, j] * grid[:, x].mean()
        )
        return together - apart

    h1, h2 = covariance(h)
    m1, m2 = covariance(k)
    of_draws, of_people, cell = of_grid(c)
    return [
        4 * w.human**2 * h1 + w.cross**2 * of_people + 4 * w.human * w.cross * mixed(h, c),
        w.human**2 * (h2 - 2 * h1),
        4 * w.model**2 * m1 + w.cross**2 * of_draws + 4 * w.model * w.cross * mixed(k, c.T),
        w.model**2 * (m2 - 2 * m1),
        w.cross**2 * (cell - of_draws - of_people),
    ]


def numbers(parts: Parts) -> Floats:
    names = ("first_people", "second_people", "first_draws", "second_draws", "both")
    return np.array([getattr(parts, name) for name in names])


@pytest.mark.parametrize("statistic", STATISTICS)
def test_parts_equal_u_statistics(statistic: str) -> None:
    weights = Weights.of(statistic)
    for seed in range(3):
        found, _ = drawn(stream(seed, statistic), 1, N, M)
        assert numbers(parts_of([found], weights))[:, 0] == pytest.approx(
            np.array(naive(found, weights)), abs=1e-12
        )


def test_inputs_are_independent_of_one_another() -> None:
    both, other = drawn(stream(1), 7, N, M)
    weights = Weights.of("energy")
    for systems in ([both], [both, other]):
        together = numbers(parts_of(systems, weights))
        for i in range(7):
            one = [ShapedDistances(d.human[[i]], d.model[[i]], d.cross[[i]]) for d in systems]
            assert numbers(parts_of(one, weights))[:, 0] == pytest.approx(together[:, i])


@pytest.mark.parametrize("n_systems", sampled([1, 2], [2]))
@pytest.mark.parametrize("statistic", STATISTICS)
def test_predicted_variance_is_that_of_simulated_samples(statistic: str, n_systems: int) -> None:
    weights, n_pilot = Weights.of(statistic), 4000
    pilot = drawn(stream(2, statistic, n_systems), n_pilot, N, M)[:n_systems]
    parts = parts_of(pilot, weights)
    for n, m in ((2, 2), (N, M), (12, 4), (3, 20)):
        samples = drawn(stream(3, statistic, n_systems, n), 6000, n, m)
        values = [of_system.value(weights) for of_system in samples]
        actual = values[0] if n_systems == 1 else values[0] - values[1]
        per_input = parts.people(n) + parts.draws(n, m)
        error = per_input.std(ddof=1) / np.sqrt(n_pilot)
        simulated = actual.var(ddof=1)
        spread = ((actual - actual.mean()) ** 2).std() / np.sqrt(len(actual))
        assert abs(per_input.mean() - simulated) < 4 * np.hypot(error, spread) + 1e-12


def test_fewest_texts_of_a_pilot() -> None:
    energy, of_draws, cross = (Weights.of(name) for name in ("energy", "mean_M", "mean_C"))
    assert energy.enough(4, 4)
    assert not energy.enough(3, 10)
    assert not energy.enough(10, 3)
    assert of_draws.enough(1, 4)
    assert cross.enough(2, 2)
    assert not cross.enough(1, 9)
