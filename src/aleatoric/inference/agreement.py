"""How often two crowds agree on their first choice, and how often larger ones would.

Two halves of the people asked agree as often as two crowds of half the size do: no estimate of the
truth is needed to know. Halves and quarters lead on to the crowds that were not asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.truths import Rows, starts_of, sums

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
N_SHUFFLES = 4
PARTS = (2, 4)
FEWEST = 4
"""People that can be parted into four."""


@dataclass(frozen=True, eq=False)
class Leaders:
    """The likeliest outcomes of each row, one after another."""

    row: Counts
    outcome: Counts
    share: Floats
    """Of each, where several tie."""

    @classmethod
    def of(cls, rows: Rows) -> Leaders:
        """Those of every row.

        >>> Leaders.of(Rows.of([np.array([3, 1]), np.array([2, 0, 2])])).share.tolist()
        [1.0, 0.5, 0.5]
        """
        cells = np.flatnonzero(rows.values == np.repeat(rows.tops(), np.diff(rows.starts)))
        row = np.searchsorted(rows.starts, cells, side="right") - 1
        return cls(row, cells - rows.starts[row], 1 / np.bincount(row)[row])


@dataclass(frozen=True, eq=False)
class Votes:
    """Of crowds of one kind, how many chose each outcome; those that tie share a vote."""

    given: Rows
    """A row a kind."""
    agreement: Floats
    """Of each kind the share of pairs of crowds with the same first choice; of equals, any."""

    @classmethod
    def of(cls, crowds: Rows, n_crowds: int) -> Votes:
        """Of rows of counts, each `n_crowds` of one kind.

        >>> rows = Rows.of([np.array([2, 0]), np.array([1, 0]), np.array([1, 1])])
        >>> votes = Votes.of(rows, 3)
        >>> votes.given.values.tolist(), votes.agreement.round(3).tolist()
        ([2.5, 0.5], [0.667])
        """
        leaders = Leaders.of(crowds)
        starts = starts_of(np.diff(crowds.starts)[::n_crowds])
        cells = starts[leaders.row // n_crowds] + leaders.outcome
        given = np.bincount(cells, leaders.share, minlength=starts[-1])
        with_itself = np.bincount(leaders.row // n_crowds, leaders.share**2)
        together = sums(np.square(given), starts)
        return cls(Rows(given, starts), (together - with_itself) / (n_crowds * (n_crowds - 1)))


def split_agreement(
    counts: Sequence[Counts], rngs: Sequence[np.random.Generator]
) -> list[tuple[float, float]]:
    """Of each item how often two halves of its people agree, and two quarters.

    >>> split_agreement([np.array([8]), np.array([1] * 8)], [np.random.default_rng(0)] * 2)
    [(1.0, 1.0), (0.0, 0.0)]
    """
    found = np.zeros((len(counts), len(PARTS)))
    sizes = np.array([own.sum() for own in counts])
    for n in np.unique(sizes):
        rows = np.flatnonzero(sizes == n).tolist()
        words = np.stack([np.repeat(np.arange(len(counts[i])), counts[i]) for i in rows])
        order = np.stack([rngs[i].random((N_SHUFFLES, n)) for i in rows]).argsort(axis=-1)
        shuffled = np.take_along_axis(words[:, None], order, axis=-1)
        widths = [len(counts[i]) for i in rows]
        for place, parts in enumerate(PARTS):
            found[rows, place] = _alike(shuffled, widths, parts).mean(axis=-1)
    return [(float(half), float(quarter)) for half, quarter in found]


def _alike(words: Counts, widths: Sequence[int], parts: int) -> Floats:
    """Of (items, shuffles, people) the agreement of so many parts of the people.

    Every part has as many cells as its item has words: no item's sums know of the others.
    """
    size, n_shuffles = words.shape[-1] // parts, words.shape[1]
    by_part = words[..., : size * parts].reshape(-1, size)
    starts = starts_of(np.repeat(widths, n_shuffles * parts))
    cells = (by_part + starts[:-1, None]).ravel()
    crowds = Rows(np.bincount(cells, minlength=starts[-1]), starts)
    return Votes.of(crowds, parts).agreement.reshape(-1, n_shuffles)


def octaves(n_people: int, n_first: float, n_second: float) -> float:
    """How much better two crowds know the truth than halves do, in steps from quarters to halves.

    What counts is the sum of both crowds' variances; beyond all people nothing leads on: 1 at most.

    >>> octaves(40, 20, 20), octaves(40, 40, 40), octaves(40, 40, math.inf), octaves(40, 10, 10)
    (0.0, 1.0, 1.0, -1.0)
    """
    half, quarter = (n_people // parts for parts in PARTS)
    finer = math.log((2 / half) / (1 / n_first + 1 / n_second))
    return min(1.0, finer / math.log(half / quarter))


def equal_size(n_first: float, n_second: float, most: int) -> int:
    """The size of two equal crowds that know as much as these two; `most` at most.

    >>> equal_size(40, 40, 40), equal_size(20, 60, 40), equal_size(40, math.inf, 40)
    (40, 30, 40)
    """
    return max(1, min(most, round(2 / (1 / n_first + 1 / n_second))))


@dataclass(frozen=True)
class Parts:
    """Agreement of halves and of quarters: of people, and of crowds drawn from an estimate."""

    halves: float
    quarters: float
    estimated_halves: float
    estimated_quarters: float


def led_on(parts: Parts, steps: float, equal: float, right: float, n_items: float) -> list[float]:
    """How often two crowds agree that lie so many steps beyond halves of the people: four answers.

    `equal` is how often crowds of the estimate do that know as much, `right` how often the two in
    question do. People's halves lead on by themselves, and from there as the estimate does from
    `equal` to `right`; or the estimate lacks more here of what it lacks at quarters and at halves.
    Each in log odds, and in shares: near-even truths follow the first, those with a long tail and
    a weak first choice the second.

    >>> same = Parts(0.7, 0.5, 0.7, 0.5)
    >>> [round(share, 3) for share in led_on(same, 1.0, 0.845, 0.9, 1e9)]
    [0.9, 0.9, 0.9, 0.9]
    """
    told = (parts.halves, parts.quarters, parts.estimated_halves, parts.estimated_quarters)
    a, b, c, d = (log_odds(share, n_items) for share in told)
    on = a + steps * (a - b)
    goal, gain = log_odds(right, n_items), log_odds(right, n_items) - log_odds(equal, n_items)
    near, far = parts.halves - parts.estimated_halves, parts.quarters - parts.estimated_quarters
    return [
        share_of(on + gain, n_items),
        share_of(goal + (a - c) + steps * ((a - c) - (b - d)), n_items),
        share_of(on, n_items) + right - equal,
        right + near + steps * (near - far),
    ]


def log_odds(share: float, n_items: float) -> float:
    """Of a share of items; half an item of each kind is added: odds are never infinite.

    >>> log_odds(0.5, 10), round(log_odds(1.0, 10), 2)
    (0.0, 3.04)
    """
    share = min(1.0, max(0.0, share))
    return math.log((share * n_items + 0.5) / ((1 - share) * n_items + 0.5))


def share_of(odds: float, n_items: float) -> float:
    """The share with these log odds: what `log_odds` added is taken away again.

    >>> share_of(0.0, 10), share_of(log_odds(1.0, 10), 10)
    (0.5, 1.0)
    """
    smoothed = 1 / (1 + math.exp(-odds))
    return min(1.0, max(0.0, (smoothed * (n_items + 1) - 0.5) / n_items))
