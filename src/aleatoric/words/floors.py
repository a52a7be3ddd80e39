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
CALIBRATION_METHOD = "Chao with parametric bootstrap, from no correction to three"


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
    return found


def named_floors(values: Mapping[str, float | None]) -> dict[str, Floor]:
    """Metric -> floor, from the values of `reductions`.

    >>> named_floors({"floor_low": 0.1, "floor_value": 0.2, "floor_high": 0.3})["tvd"].value
    0.2
    """
    found = {
        metric: _distance_floor(*(values.get(f"{start}_{end}") for end in ENDS))
        for metric, start in DISTANCES.items()
    }
    for target in TARGETS:
        own = (values.get(f"ece_{target}/{truth}") for truth in TRUTHS)
        found[f"ece_{target}"] = _calibration_floor(*own)
    return {metric: own for metric, own in found.items() if own is not None}


def _distance_floor(low: float | None, value: float | None, high: float | None) -> Floor | None:
    if low is None or value is None or high is None:
        return None
    # With a handful of people or items the estimate may leave its ends: they give way.
    return Floor(value, min(low, value), max(high, value), floor.METHOD)


def _calibration_floor(first: float | None, again: float | None) -> Floor | None:
    """The second estimate misses of the first what the first misses of the truth, and then some.

    An estimated truth has a clearer first choice, or more ties for it, than the truth; one round
    of correction takes a part of that away, so the far end lies two corrections on.
    """
    if first is None or again is None:
        return None
    off = first - again
    value, far = max(0.0, first + off), max(0.0, first + 3 * off)
    return Floor(value, min(first, far, value), max(first, far, value), CALIBRATION_METHOD)


def _column(kind: str, truth: str, number: int) -> str:
    return f"floor_{kind}_{truth}_{number}"


def _numbers() -> range:
    return range(REPLICATES)
