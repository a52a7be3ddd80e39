"""False positive rate and power of the tests at level .05 on simulated data.

A small fixed-seed version; `python -m benchmarks.false_positives` is the large one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from marks import sampled

from aleatoric.inference.control import fits, one_population
from aleatoric.inference.paired import paired
from aleatoric.metrics.reduction import Mean
from aleatoric.rng import stream

N = 300
Simulation = Callable[[np.random.Generator, bool], float]


def systems(rng: np.random.Generator, planted: bool) -> float:
    """Two systems on 12 passages whose contexts are alike."""
    groups = np.repeat(np.arange(12), rng.integers(2, 20, 12))
    suited = rng.normal(0, 0.05, (2, 12))[:, groups] + rng.gamma(2, 0.05, (2, len(groups)))
    suited[1] += 0.08 * planted
    sides = [{"tvd": own[:, None]} for own in suited]
    return paired(*sides, [str(g) for g in groups], Mean("tvd"), seed=0).test.p


def truths(planted: bool) -> tuple[np.ndarray, np.ndarray]:
    ranks = np.arange(1.0, 101)
    weights = ranks**-1.1, ranks ** (-0.5 if planted else -1.1)
    return weights[0] / weights[0].sum(), weights[1] / weights[1].sum()


def samples(rng: np.random.Generator, planted: bool) -> float:
    people, model = truths(planted)
    return one_population(rng.multinomial(40, people), rng.multinomial(45, model), rng, 399).p


def known(rng: np.random.Generator, planted: bool) -> float:
    people, model = truths(planted)
    counts = rng.multinomial(40, people)
    listed = np.flatnonzero((np.arange(100) < 40) | (counts > 0))
    return fits(counts[listed], model[listed], 1 - model[listed].sum(), rng, 399).p


@pytest.mark.parametrize("simulation", sampled([systems, samples, known], [systems]))
def test_tests_have_nominal_false_positive_rate_and_power(
    simulation: Simulation,
) -> None:
    rates = [
        np.mean([simulation(stream(0, simulation.__name__, i), planted) <= 0.05 for i in range(N)])
        for planted in (False, True)
    ]
    assert 0.02 <= rates[0] <= 0.08
    assert rates[1] > 0.5
