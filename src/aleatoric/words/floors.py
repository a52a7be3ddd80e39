"""The floors of the word level: a perfect model's scores at each item's own sample sizes.

Distances have a floor an item, saved as its ends and its estimate. Calibration errors exist for
many items only: what is saved an item is how sure perfect models were and whether they were right,
and the floor is the calibration error of those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.inference import floor
from aleatoric.inference.answers import KINDS, answers
from aleatoric.inference.floor import Asked
from aleatoric.metrics.calibration import ECE
from aleatoric.metrics.reduction import Chunk, Floats, Mean
from aleatoric.types import Floor

ENDS = ("low", "value", "high")
TARGETS = ("original", "human", "oracle")
TRUTHS = ("chao", "again")
"""Chao's estimate, and that of people drawn anew from it."""
REPLICATES = 2
DISTANCES = {"tvd": "floor", "js": "floor_js"}
"""Metric -> how the columns of its floor begin."""
CALIBRATION_METHOD = "Chao with parametric bootstrap, from no correction to three, and fewer ties"
CHANCE = "chance of right and wrong answers, under two estimates of the truth"
MAJORITIES = ("human", "oracle")
MOST_TIES = 0.4
"""Of perfect models' disagreements with a majority, the share that may be ties of the estimate.

Counts of forty people often tie for the first place, probabilities hardly ever. Where simulated
truths have a clear first choice everywhere, up to a quarter of the disagreements under the estimate
did not exist, and in a single run chance adds to that; people against people (Provo) have none to
spare. So the high end allows for them.
"""


def distance_columns() -> tuple[str, ...]:
    """The columns of the distances' floors.

    >>> distance_columns()[:3]
    ('floor_low', 'floor_value', 'floor_high')
    """
    return tuple(f"{start}_{end}" for start in DISTANCES.values() for end in ENDS)


def calibration_columns() -> tuple[str, ...]:
    """The columns of the calibration errors' floors.

    >>> calibration_columns()[0]
    'floor_confidence_chao_0'
    """
    return tuple(_column(kind, truth, i) for kind in KINDS for truth in TRUTHS for i in _numbers())


Values = dict[str, float | None]


def distance_floors(asked: Sequence[Asked]) -> list[Values]:
    """Of each item both ends and the estimate for every distance, unless people tell too little.

    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> distance_floors([ask])[0]["floor_high"]
    0.0
    """
    return [
        {
            f"{DISTANCES[name]}_{end}": getattr(ends, end)
            for name, ends in own.items()
            for end in ENDS
        }
        for own in floor.floors_of(asked)
    ]


def calibration_floors(asked: Sequence[Asked]) -> list[Values]:
    """Confidence and correctness of perfect models, under an estimate of the truth and its own.

    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> found = calibration_floors([ask])[0]
    >>> found["floor_confidence_chao_0"], found["floor_human_chao_0"]
    (1.0, 1.0)
    """
    found: list[Values] = [{} for _ in asked]
    known = [i for i, ask in enumerate(asked) if ask.counts.sum() > 1]
    columns = calibration_columns()
    for i, values in zip(known, answers([asked[i] for i in known], REPLICATES), strict=True):
        found[i] = dict(zip(columns, values.ravel().tolist(), strict=True))
    return found


@dataclass(frozen=True)
class FloorECE:
    """The calibration error of perfect models under one estimate of the truth, by replicate."""

    target: str
    truth: str
    edges: tuple[float, ...]
    closed: bool = True

    def columns(self, chunk: Chunk) -> Floats:
        """As ECE's, a replicate in place of a split."""
        return self._ece.columns(
            {"confidence": self._stacked(chunk, "confidence"), "correct": self._own(chunk)}
        )

    def values(self, sums: Floats) -> Floats:
        """The error of each replicate."""
        return self._ece.values(sums)

    def defined(self, sums: Floats) -> int:
        """Items with a perfect model's answer."""
        return self._ece.defined(sums)

    @property
    def _ece(self) -> ECE:
        return ECE("correct", self.edges, self.closed)

    def _own(self, chunk: Chunk) -> Floats:
        return self._stacked(chunk, self.target)

    def _stacked(self, chunk: Chunk, kind: str) -> Floats:
        return np.concatenate([chunk[_column(kind, self.truth, i)] for i in _numbers()], axis=1)


def reductions(
    edges: tuple[float, ...], closed: bool, calibrated: bool, saved: Collection[str]
) -> dict[str, Mean | FloorECE]:
    """What must be summed for the floors; `calibrated` where the system has those of ECE.

    A run that an older version scored lacks columns: its floors stay unknown.
    """
    found: dict[str, Mean | FloorECE] = {}
    if all(name in saved for name in distance_columns()):
        found |= {name: Mean(name) for name in distance_columns()}
    if calibrated and all(name in saved for name in calibration_columns()):
        pairs = [(target, truth) for target in TARGETS for truth in TRUTHS]
        found |= {f"ece_{a}/{b}": FloorECE(a, b, edges, closed) for a, b in pairs}
        found |= {f"right_{target}": Mean(_column(target, "chao", 0)) for target in MAJORITIES}
    return found


def named_floors(values: Mapping[str, float | None]) -> dict[str, Floor]:
    """Metric -> floor, from the values of `reductions`; no value where people told too little.

    >>> named_floors({"floor_low": 0.1, "floor_value": 0.2, "floor_high": 0.3})["tvd"].value
    0.2
    >>> named_floors({"floor_low": None, "floor_value": None, "floor_high": None})["tvd"].reason
    'one answer tells nothing of the truth: a floor needs two people'
    """
    found = {
        metric: _distance_floor(*(values[f"{start}_{end}"] for end in ENDS))
        for metric, start in DISTANCES.items()
        if f"{start}_value" in values
    }
    for target in TARGETS:
        if f"ece_{target}/chao" in values:
            first, again = (values[f"ece_{target}/{truth}"] for truth in TRUTHS)
            right = values.get(f"right_{target}")
            found[f"ece_{target}"] = _calibration_floor(first, again, right)
    return found


def _distance_floor(low: float | None, value: float | None, high: float | None) -> Floor:
    if low is None or value is None or high is None:
        return Floor(None, None, None, floor.METHOD, floor.ONE_ANSWER)
    # With a handful of people or items the estimate may leave its ends: they give way.
    value = max(0.0, value)  # of a distance; the correction may take more away than there is
    return Floor(value, min(low, value), max(high, value), floor.METHOD)


def _calibration_floor(
    first: float | None, again: float | None, right: float | None = None
) -> Floor:
    """Perfect models under two estimates of the truth; `right`: their share against a majority."""
    if first is None or again is None:
        return Floor(None, None, None, CALIBRATION_METHOD, floor.ONE_ANSWER)
    if right is None:
        return _floor_of_chance(first, again)
    return _floor_of_majority(first, again, right)


def _floor_of_chance(first: float, again: float) -> Floor:
    """Against the passage's own word a perfect model is calibrated, whatever the truth may be.

    All its error is chance in ten bins, which both estimates show: their mean has the less noise, a
    standard error of about an eighth of itself. With few draws a first choice is taken for surer
    than it is, by more than an estimate shows: hence the long upper end.
    """
    value = (first + again) / 2
    return Floor(value, min(first, again, 0.5 * value), max(first, again, 1.6 * value), CHANCE)


def _floor_of_majority(first: float, again: float, right: float) -> Floor:
    """The second estimate misses of the first what the first misses of the truth, and then some.

    An estimated truth has a clearer first choice, or more ties for it, than the truth; one round
    of correction takes a part of that away, so one end lies two corrections on, and the other has
    fewer ties (`MOST_TIES`).
    """
    off = first - again
    value, far = max(0.0, first + off), max(0.0, first + 3 * off)
    ends = (first, far, value, min(1.0, value + MOST_TIES * (1 - right)))
    return Floor(value, min(ends), max(ends), CALIBRATION_METHOD)


def _column(kind: str, truth: str, number: int) -> str:
    return f"floor_{kind}_{truth}_{number}"


def _numbers() -> range:
    return range(REPLICATES)
