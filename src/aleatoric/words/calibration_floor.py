"""The floors of calibration errors: what a perfect model would score, from all contexts together.

Against the passage's own word a perfect model is calibrated, and its error is chance in ten bins.
Against a majority it is not: it is sure of its first choice as often as people give it, and right
whenever most people made the same choice. How often that is depends on how clear first choices are,
which no context's own people tell: it is learnt from those of all contexts
(`aleatoric.inference.mixture`), and set right by how often halves of the people agree. The ends are
what truths without noise and truths with much of it would give, each fitted to the same people, and
chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from aleatoric.inference.crowds import MOST, N_CELLS, Counts, Crowds, crowd_of
from aleatoric.inference.floor import ONE_ANSWER
from aleatoric.inference.mixture import Mixtures, mixtures
from aleatoric.inference.perfect import TARGETS, answers, expected_error, shifted
from aleatoric.inference.sizes import Sizes
from aleatoric.metrics.calibration import Bins
from aleatoric.metrics.reduction import Chunk, Floats
from aleatoric.streams import stream
from aleatoric.types import Floor

COLUMNS = ("people_first", "people_second", "people_kinds", "people_agreed")
"""What is saved an item."""
METHOD = "empirical Bayes over Zipf-like truths, between those without and with much noise"
CORRECT = {target: f"correct_{target}" for target in TARGETS}
OLDER = "statistics of an older version: score the run again"
UNSCORED = "no answer of the system can be right or wrong here"
TOO_STRANGE = "people answer as under no kind of truth that is known here"
STRANGE = 0.05
"""The share of such crowds from which on there is no floor."""
RARE = 1e-4
"""A kind of truth with a smaller share is left out."""
N_ERRORS = 2.0
SPREAD = 0.5
"""The standard deviation of right answers less confidences over contexts, about."""
GRID = 0.015
"""What the floor may move by because kinds of truth are so many and no more."""


def saved_values(counts: Counts, seed: int, item_id: str) -> dict[str, float | None]:
    """An item's value of every column; none for a single answer, which tells nothing.

    >>> saved_values(np.array([30, 10]), 0, "a")
    {'people_first': 30, 'people_second': 10, 'people_kinds': 2, 'people_agreed': 1.0}
    """
    if counts.sum() < 2:
        return {}
    return dict(zip(COLUMNS, crowd_of(counts, stream(seed, "crowd", item_id)), strict=True))


class Tally:
    """Counts the crowds, the sizes and the scored answers of a system's items, page by page.

    >>> tally = Tally()
    >>> told = ("n_human", "n_model", "confidence", *COLUMNS, *CORRECT.values())
    >>> tally.add(dict.fromkeys(told, np.ones((1, 1))))
    >>> tally.sizes, tally.n_scored["human"]
    (Counter({(1, 1): 1}), 1)
    """

    def __init__(self) -> None:
        self.seen = np.zeros((N_CELLS, 2))
        self.crowds: Counter[int] = Counter()
        """Sizes of the crowds seen."""
        self.sizes: Counter[tuple[int, int]] = Counter()
        """People and draws of items with an answer, 0 draws for an exact model."""
        self.n_scored: Counter[str] = Counter()
        """Target -> items whose answer is right or wrong."""

    def add(self, chunk: Chunk) -> None:
        """Count a page."""
        n, draws, confidence = (chunk[name][:, 0] for name in ("n_human", "n_model", "confidence"))
        told = np.stack([np.minimum(n, MOST), *(chunk[name][:, 0] for name in COLUMNS)])
        # What people said is learnt from, whether the system answered or not.
        whole = told[:, np.isfinite(told).all(axis=0)]
        size, first, second, kinds = whole[:-1].astype(np.int64)
        crowds = Crowds(size, first, second, kinds, agreed=whole[-1])
        self.seen += crowds.tally()
        self.crowds.update(crowds.n.tolist())
        answered = np.isfinite(n) & np.isfinite(confidence)
        pairs = np.nan_to_num(np.stack([n, draws], axis=1)[answered]).astype(np.int64)
        self.sizes.update(map(tuple, pairs.tolist()))
        for target, name in CORRECT.items():
            self.n_scored[target] += int(np.isfinite(chunk[name]).any(axis=1).sum())


class Learnt:
    """What was learnt and simulated: systems of a run share their people, and often sizes."""

    def __init__(self) -> None:
        self._mixtures: dict[tuple[bytes, bytes], Mixtures] = {}
        self._answers: dict[tuple[int, bytes, Bins], Floats] = {}

    def mixtures(self, tally: Tally) -> Mixtures:
        """The kinds of truth that the crowds tell."""
        sizes = Sizes.of(tally.crowds)
        key = sizes.key, tally.seen.tobytes()
        if key not in self._mixtures:
            self._mixtures[key] = mixtures(sizes, tally.seen)
        return self._mixtures[key]

    def answers(self, kinds: Sequence[int], sizes: Sizes, bins: Bins) -> Floats:
        """Perfect models' answers, a kind of truth after another."""
        return np.stack([self._answered(kind, sizes, bins) for kind in kinds])

    def _answered(self, kind: int, sizes: Sizes, bins: Bins) -> Floats:
        key = kind, sizes.key, bins
        if key not in self._answers:
            self._answers[key] = answers(kind, sizes, bins)
        return self._answers[key]


def calibration_floors(tally: Tally, bins: Bins, learnt: Learnt) -> dict[str, Floor]:
    """Metric -> floor; no value where people told too little, or what no kind of truth would.

    >>> calibration_floors(Tally(), Bins((0.5,)), Learnt())["ece_human"].reason
    'one answer tells nothing of the truth: a floor needs two people'
    """
    if not tally.crowds:
        return _unknown(ONE_ANSWER)
    mixed = learnt.mixtures(tally)
    if mixed.strange > STRANGE:
        return _unknown(TOO_STRANGE)
    return {
        f"ece_{target}": _floor(target, mixed, tally, bins, learnt)
        if tally.n_scored[target]
        else Floor(None, None, None, METHOD, UNSCORED)
        for target in TARGETS
    }


def no_columns() -> dict[str, Floor]:
    """The floors of a run whose statistics an older version made.

    >>> no_columns()["ece_human"].reason
    'statistics of an older version: score the run again'
    """
    return _unknown(OLDER)


def _unknown(reason: str) -> dict[str, Floor]:
    return {f"ece_{target}": Floor(None, None, None, METHOD, reason) for target in TARGETS}


def _floor(target: str, mixed: Mixtures, tally: Tally, bins: Bins, learnt: Learnt) -> Floor:
    """Of the first mixture; the ends hold those of the others."""
    # One person has no half.
    fewest, n_items = (2 if target == "oracle" else 1), tally.n_scored[target]
    sizes = Sizes.of({pair: n for pair, n in tally.sizes.items() if pair[0] >= fewest})
    kinds = np.flatnonzero((mixed.shares > RARE).any(axis=0))
    told = np.tensordot(mixed.shares[:, kinds], learnt.answers(kinds.tolist(), sizes, bins), axes=1)
    errors = [
        expected_error(shifted(own, shift), target, n_items, stream(0, "chance"))
        for own, shift in zip(told, mixed.shifts.tolist(), strict=True)
    ]
    noise = GRID + N_ERRORS * SPREAD / math.sqrt(n_items)
    low, high = max(0.0, min(errors) - noise), min(1.0, max(errors) + noise)
    return Floor(errors[0], low, high, METHOD)
