"""Which kinds of truth the contexts of a corpus have, learnt from all people's answers together.

One context's people cannot tell a clear first choice from a lucky one; thousands of contexts can.
Empirical Bayes: the shares of all kinds are those under which the crowds seen are likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.crowds import N_CELLS, simulated, tally
from aleatoric.inference.shapes import NOISES, shapes
from aleatoric.inference.sizes import Sizes
from aleatoric.streams import stream

Floats = NDArray[np.float64]
N_CROWDS = 500
"""Simulated of each kind."""
N_STEPS = 1000
UNHEARD = 1e-5
"""The chance of what no simulated crowd of a kind did."""


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The shares of all kinds of truth: of any, and of those of one degree of noise alone."""

    value: Floats
    by_noise: Floats
    """(noises, kinds)."""
    strange: float
    """The share of crowds such as no kind makes."""


def mixtures(sizes: Sizes, seen: Floats) -> Mixtures:
    """Learn from crowds of these sizes, so many of them in each cell.

    >>> all_alike = simulated(shapes()[0], np.full(9, 40), np.random.default_rng(0))
    >>> bool(mixtures(Sizes.of({40: 9}), tally(all_alike.cells())).value[0] > 0.5)
    True
    """
    chances = _chances(sizes)[:, seen > 0]
    counted = seen[seen > 0]
    strange = counted[chances.max(axis=0) <= UNHEARD].sum() / counted.sum()
    noises = np.array([shape.noise for shape in shapes()])
    by_noise = np.zeros((len(NOISES), len(noises)))
    for row, noise in zip(by_noise, NOISES, strict=True):
        chosen = noises == noise
        chosen[0] = True  # where all agree there is nothing to be noisy
        row[chosen] = likeliest(chances[chosen], counted)
    return Mixtures(likeliest(chances, counted), by_noise, float(strange))


def likeliest(chances: Floats, counted: Floats) -> Floats:
    """The shares of kinds under which these counts of cells are likeliest; `chances` by kind.

    >>> likeliest(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([5.0, 5.0])).round(3).tolist()
    [0.5, 0.5]
    """
    shares = np.full(len(chances), 1 / len(chances))
    for _ in range(N_STEPS):
        shares = shares * (chances @ (counted / (shares @ chances)))
        shares /= shares.sum()
    return shares


def _chances(sizes: Sizes) -> Floats:
    """(kinds, cells): how likely a crowd lies in a cell, its size as likely as those given."""
    found = np.empty((len(shapes()), N_CELLS))
    for number, shape in enumerate(shapes()):
        rng = stream(0, "crowds", number)
        crowds = simulated(shape, sizes.drawn(N_CROWDS, rng), rng)
        found[number] = tally(crowds.cells()) / N_CROWDS
    return found + UNHEARD
