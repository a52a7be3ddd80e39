"""Rejection rates of tests with and without a true difference.

Without a difference, a test at level .05 should reject in .03 to .07 of the simulations. Groups are
correlated and of different sizes; answers come from Zipf-like distributions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.control import fits, one_population
from aleatoric.inference.paired import paired
from aleatoric.inference.unpaired import Sample, unpaired
from aleatoric.metrics.calibration import ECE, equal_width_edges
from aleatoric.metrics.reduction import Mean
from aleatoric.rng import stream

ALPHA = 0.05
N_SIMULATIONS = 1000
Simulation = Callable[[np.random.Generator, bool], float | None]


def main() -> None:
    """Print both rates of every test; `python -m benchmarks.false_positives [SIMULATIONS]`."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else N_SIMULATIONS
    print(f"{n} simulations, level {ALPHA}")
    print(f"{'test':50} no difference  a difference")
    for name, simulation in TESTS.items():
        rates = [rate(simulation, name, n, planted) for planted in (False, True)]
        print(f"{name:50} {rates[0]:13.3f} {rates[1]:13.3f}", flush=True)


def rate(simulation: Simulation, name: str, n: int, planted: bool) -> float:
    """The share of simulations in which the test finds a difference."""
    found = [simulation(stream(0, name, i, int(planted)), planted) for i in range(n)]
    return float(np.mean([p is not None and p <= ALPHA for p in found]))


def mean_difference(rng: np.random.Generator, planted: bool, n_groups: int) -> float | None:
    """Two systems by a mean of items; passages differ in how hard they are and whom they suit."""
    sizes = rng.integers(2, 30, n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    hard = rng.normal(0, 0.1, n_groups)[groups]
    sides = []
    for side in range(2):
        suited = rng.normal(0, 0.05, n_groups)[groups]
        noise = rng.gamma(2.0, 0.05, len(groups))
        sides.append({"tvd": (0.5 + hard + suited + noise + 0.05 * side * planted)[:, None]})
    found = paired(sides[0], sides[1], [str(g) for g in groups], Mean("tvd"), seed=0)
    return found.test.p if found.test else None


def two_tasks(rng: np.random.Generator, planted: bool, n_groups: tuple[int, int]) -> float | None:
    """Two tasks with inputs of their own; the second has a larger and more skewed spread."""
    samples: list[Sample] = []
    for side, n in enumerate(n_groups):
        groups = np.repeat(np.arange(n), rng.integers(1, 6, n))
        means = (rng.gamma(2.0, 0.1, n) - 0.2) * (1 + side)
        noise = rng.normal(0, 0.1, len(groups))
        values = 0.5 + means[groups] + noise + 0.1 * side * planted
        samples.append((values, [str(g) for g in groups]))
    found = unpaired(samples[0], samples[1], seed=0, method="none")
    return found.test.p if found.test else None


def ece_difference(rng: np.random.Generator, planted: bool, n_groups: int) -> float | None:
    """Two systems by ECE; the second is overconfident where a difference is planted."""
    groups = np.repeat(np.arange(n_groups), 20)
    sides = []
    for side in range(2):
        confidence = rng.beta(2, 2, len(groups))
        shift = rng.normal(0, 0.05, n_groups)[groups] - 0.1 * side * planted
        correct = rng.random(len(groups)) < np.clip(confidence + shift, 0, 1)
        sides.append({"confidence": confidence[:, None], "correct": correct[:, None].astype(float)})
    ece = ECE("correct", equal_width_edges())
    found = paired(sides[0], sides[1], [str(g) for g in groups], ece, seed=0)
    return found.test.p if found.test else None


def two_samples(rng: np.random.Generator, planted: bool, n_human: int, n_model: int) -> float:
    """People's and a model's answers to one item."""
    people, model = _truth(rng, planted)
    counts = rng.multinomial(n_human, people), rng.multinomial(n_model, model)
    test = one_population(*counts, rng)
    return test.p if test else 1.0


def known_truth(rng: np.random.Generator, planted: bool, n_human: int, head: int) -> float:
    """People's answers against probabilities of `head` words and of those that people gave."""
    people, model = _truth(rng, planted)
    counts = rng.multinomial(n_human, people)
    listed = np.flatnonzero((np.arange(len(model)) < head) | (counts > 0))
    rest = 1 - float(model[listed].sum())
    test = fits(counts[listed], model[listed], rest, rng)
    return test.p if test else 1.0


def _truth(rng: np.random.Generator, planted: bool) -> tuple[NDArray[np.float64], ...]:
    size, steepness = int(rng.integers(20, 300)), rng.uniform(0.8, 1.4)
    ranks = np.arange(1.0, size + 1)
    weights = (ranks**-steepness, ranks ** -(steepness * (0.5 if planted else 1.0)))
    return tuple(own / own.sum() for own in weights)


TESTS: dict[str, Simulation] = {
    "paired, mean, 8 passages (all swaps)": partial(mean_difference, n_groups=8),
    "paired, mean, 15 passages": partial(mean_difference, n_groups=15),
    "paired, mean, 55 passages": partial(mean_difference, n_groups=55),
    "paired, ECE, 15 passages": partial(ece_difference, n_groups=15),
    "paired, ECE, 55 passages": partial(ece_difference, n_groups=55),
    "unpaired, mean, 6 v 8 groups (all moves)": partial(two_tasks, n_groups=(6, 8)),
    "unpaired, mean, 15 v 15 groups": partial(two_tasks, n_groups=(15, 15)),
    "unpaired, mean, 20 v 60 groups": partial(two_tasks, n_groups=(20, 60)),
    "unpaired, mean, 60 v 20 groups": partial(two_tasks, n_groups=(60, 20)),
    "unpaired, mean, 100 v 100 groups": partial(two_tasks, n_groups=(100, 100)),
    "one item, 40 people v 40 draws": partial(two_samples, n_human=40, n_model=40),
    "one item, 40 people v 1000 draws": partial(two_samples, n_human=40, n_model=1000),
    "one item, 100 people v 100 draws": partial(two_samples, n_human=100, n_model=100),
    "one item, 20 people v 20 draws": partial(two_samples, n_human=20, n_model=20),
    "one item, 5 people v 10 draws": partial(two_samples, n_human=5, n_model=10),
    "one item, 40 people v known probabilities": partial(known_truth, n_human=40, head=300),
    "one item, 40 people v 20 known words and a rest": partial(known_truth, n_human=40, head=20),
}


if __name__ == "__main__":
    main()
