"""Which kinds of truth the contexts of a corpus have, learnt from all people's answers together.

One context's people cannot tell a clear first choice from a lucky one; thousands of contexts can.
Empirical Bayes: the shares of all kinds are those under which the crowds seen are likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.crowds import N_CELLS, simulated
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
    """The shares of all kinds of truth: of any, then of those of one degree of noise alone."""

    shares: Floats
    """(mixtures, kinds)."""
    shifts: Floats
    """By how much more often halves of the people agree than under each mixture, in log odds."""
    strange: float
    """The share of crowds such as no kind makes."""


def mixtures(sizes: Sizes, seen: Floats) -> Mixtures:
    """Learn from crowds of these sizes, by their `tally`.

    >>> all_alike = simulated(shapes()[0], np.full(9, 40), np.random.default_rng(0))
    >>> bool(mixtures(Sizes.of({40: 9}), all_alike.tally()).shares[0, 0] > 0.5)
    True
    """
    known = _chances(sizes)
    chances, counted = known[:, seen > 0] + UNHEARD, seen[seen > 0]
    strange = counted[chances.max(axis=0) <= UNHEARD].sum() / counted.sum()
    shares = np.zeros((1 + len(NOISES), len(known)))
    for row, chosen in zip(shares, _choices(), strict=True):
        row[chosen] = likeliest(chances[chosen], counted)
    agreeing = _log_odds(shares @ known[..., 1].sum(axis=1), counted.sum())
    shifts = _log_odds(seen[:, 1].sum() / counted.sum(), counted.sum()) - agreeing
    return Mixtures(shares, shifts, float(strange))


def _choices() -> list[NDArray[np.bool_]]:
    """The kinds that may be in each mixture."""
    noises = np.array([shape.noise for shape in shapes()])
    certain = np.arange(len(noises)) == 0  # where all agree there is nothing to be noisy
    return [np.full(len(noises), True), *((noises == noise) | certain for noise in NOISES)]


def _log_odds(share: Floats | float, number: float) -> Floats:
    """Of a share of so many, half of one added on either side: never infinite."""
    yes = number * np.asarray(share) + 0.5
    odds: Floats = np.log(yes / (number + 1 - yes))
    return odds


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
    """(kinds, cells, 2): how likely a crowd lies in a cell, its size as likely as those given."""
    found = np.empty((len(shapes()), N_CELLS, 2))
    for number, shape in enumerate(shapes()):
        rng = stream(0, "crowds", number)
        found[number] = simulated(shape, sizes.drawn(N_CROWDS, rng), rng).tally() / N_CROWDS
    return found
