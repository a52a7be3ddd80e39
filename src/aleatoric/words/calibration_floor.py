"""The floors of calibration errors: what a perfect model would score, from all contexts together.

Against the passage's own word a perfect model is calibrated, and its error is chance in ten bins.
Against a majority it is not: it is sure of its first choice as often as people give it, and right
whenever most people made the same choice. How often that is depends on how clear first choices are,
which no context's own people tell: it is learnt from those of all contexts
(`aleatoric.inference.mixture`). The ends are what truths without noise and truths with much of it
would give, each fitted to the same people, and chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from aleatoric.inference.crowds import N_CELLS, Counts, Crowds, crowd_of, tally
from aleatoric.inference.floor import ONE_ANSWER
from aleatoric.inference.mixture import Mixtures, mixtures
from aleatoric.inference.perfect import TARGETS, answers, expected_errors
from aleatoric.metrics.calibration import Bins
from aleatoric.metrics.reduction import Chunk, Floats
from aleatoric.streams import stream
from aleatoric.types import Floor

COLUMNS = ("people_first", "people_second", "people_kinds", "people_agreed")
"""What is saved an item."""
METHOD = "empirical Bayes over Zipf-like truths, between those without and with much noise"
RARE = 1e-4
"""A kind of truth with a smaller share is left out."""
N_ERRORS = 2.0
SPREAD = 0.5
"""The standard deviation of right answers less confidences over contexts, about."""
GRID = 0.01
"""What the floor may move by because kinds of truth are so many and no more."""


def saved_values(counts: Counts, seed: int, item_id: str) -> dict[str, float | None]:
    """An item's value of every column; none for a single answer, which tells nothing.

    >>> saved_values(np.array([30, 10]), 0, "a")
    {'people_first': 30, 'people_second': 10, 'people_kinds': 2, 'people_agreed': 1}
    """
    if counts.sum() < 2:
        return {}
    return dict(zip(COLUMNS, crowd_of(counts, stream(seed, "crowd", item_id)), strict=True))


class Tally:
    """Counts the crowds and the sizes of a system's items, a page at a time.

    >>> tally = Tally()
    >>> told = dict.fromkeys(("n_human", "n_model", "confidence", *COLUMNS), np.ones((1, 1)))
    >>> tally.add(told)
    >>> tally.sizes
    Counter({(1, 1): 1})
    """

    def __init__(self) -> None:
        self.seen = np.zeros(N_CELLS)
        self.sizes: Counter[tuple[int, int]] = Counter()
        """People and draws, 0 draws for an exact model."""

    def add(self, chunk: Chunk) -> None:
        """Items that have people and a model's answer."""
        told = [chunk[name][:, 0] for name in ("n_human", "n_model", "confidence", *COLUMNS)]
        table = np.stack(told, axis=1)
        known = np.isfinite(np.delete(table, 1, axis=1)).all(axis=1)
        n, draws, _, *rest = np.nan_to_num(table[known]).astype(np.int64).T
        self.seen += tally(Crowds(n, *rest).cells())
        self.sizes.update(zip(n.tolist(), draws.tolist(), strict=True))


class Learnt:
    """Mixtures by what they were learnt from: all systems of a run have the same people."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Mixtures] = {}

    def of(self, sizes: Counts, seen: Floats) -> Mixtures:
        """The mixtures of crowds of these sizes."""
        key = sizes.tobytes(), seen.tobytes()
        if key not in self._known:
            self._known[key] = mixtures(sizes, seen)
        return self._known[key]


def calibration_floors(tally: Tally, bins: Bins, learnt: Learnt) -> dict[str, Floor]:
    """Metric -> floor; no value where nobody was asked with another.

    >>> calibration_floors(Tally(), Bins((0.5,)), Learnt())["ece_human"].reason
    'one answer tells nothing of the truth: a floor needs two people'
    """
    n_items = tally.sizes.total()
    if not n_items:
        return {f"ece_{target}": Floor(None, None, None, METHOD, ONE_ANSWER) for target in TARGETS}
    pairs = np.array(sorted(tally.sizes.elements()))
    mixed = learnt.of(np.sort(pairs[:, 0]), tally.seen)
    rows = np.stack([mixed.value, *mixed.by_noise])
    kinds = np.flatnonzero((rows > RARE).any(axis=0))
    told = np.tensordot(rows[:, kinds], answers(kinds.tolist(), pairs, bins), axes=1)
    errors = [expected_errors(own, n_items, stream(0, "chance")) for own in told]
    return {f"ece_{target}": _floor([own[target] for own in errors], n_items) for target in TARGETS}


def _floor(errors: Sequence[float], n_items: int) -> Floor:
    """Of the value, then of all that the ends must hold."""
    noise = GRID + N_ERRORS * SPREAD / math.sqrt(n_items)
    return Floor(errors[0], max(0.0, min(errors) - noise), max(errors) + noise, METHOD)
