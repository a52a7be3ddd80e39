"""The floors of the word level: a perfect model's scores at each item's own sample sizes.

Distances have a floor an item, saved as its ends and its estimate. Calibration errors exist for
many items only: what is saved an item is how sure perfect models were and whether they were right,
and the floor is the calibration error of those; against a majority, see `majority_floor`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aleatoric.inference import control, floor
from aleatoric.inference.answers import MAJORITIES, answers
from aleatoric.inference.floor import Asked
from aleatoric.metrics.calibration import ECE
from aleatoric.metrics.reduction import Chunk, Floats, Mean
from aleatoric.types import Floor
from aleatoric.words.floor_columns import (
    REPLICATES,
    TRUTHS,
    calibration_columns,
    saved_values,
    stacked,
)
from aleatoric.words.majority_floor import METHOD as MAJORITY_METHOD
from aleatoric.words.majority_floor import MajorityFloor

ENDS = ("low", "value", "high")
TARGETS = ("original", *MAJORITIES)
DISTANCES = {"tvd": "floor", "js": "floor_js"}
"""Metric -> how the columns of its floor begin."""
WORDS_AT_ONCE = 100_000
CHANCE = "chance of right and wrong answers, under two estimates of the truth"


def distance_columns() -> tuple[str, ...]:
    """The columns of the distances' floors.

    >>> distance_columns()[:3]
    ('floor_low', 'floor_value', 'floor_high')
    """
    return tuple(f"{start}_{end}" for start in DISTANCES.values() for end in ENDS)


Values = dict[str, float | None]


def distance_floors(asked: Sequence[Asked]) -> list[Values]:
    """Of each item both ends and the estimate for every distance, unless people tell too little.

    >>> import numpy as np
    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> distance_floors([ask])[0]["floor_high"]
    0.0
    """
    found: list[Values] = [{} for _ in asked]
    for batch in _batches(asked):
        for i, own in zip(batch, floor.floors_of([asked[i] for i in batch]), strict=True):
            found[i] = {
                f"{DISTANCES[name]}_{end}": getattr(ends, end)
                for name, ends in own.items()
                for end in ENDS
            }
    return found


def calibration_floors(asked: Sequence[Asked]) -> list[Values]:
    """Confidence and correctness of perfect models, under an estimate of the truth and its own.

    >>> import numpy as np
    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> found = calibration_floors([ask])[0]
    >>> found["floor_confidence_chao_0"], found["floor_human_chao_0"]
    (1.0, 1.0)
    """
    found: list[Values] = [{} for _ in asked]
    for batch in _batches(asked):
        known = [i for i in batch if asked[i].counts.sum() > 1]
        for i, own in zip(known, answers([asked[i] for i in known], REPLICATES), strict=True):
            found[i] = saved_values(own)
    return found


def _batches(asked: Sequence[Asked]) -> Iterator[list[int]]:
    """Places of items whose estimated truths fit into memory together.

    An estimate has about half as many unseen words as there are pairs of words said once: twenty
    thousand for two hundred people of whom no two agree.
    """
    once = [int((ask.counts == 1).sum()) for ask in asked]
    widths = [len(ask.counts) + n * n // 2 for ask, n in zip(asked, once, strict=True)]
    return control.batches(widths, WORDS_AT_ONCE)


@dataclass(frozen=True)
class FloorECE:
    """The calibration error of perfect models against the passage's own word, by replicate."""

    truth: str
    edges: tuple[float, ...]
    closed: bool = True

    def columns(self, chunk: Chunk) -> Floats:
        """As ECE's, a replicate in place of a split."""
        own = {"confidence": "confidence", "correct": "original"}
        return self._ece.columns({k: stacked(chunk, kind, self.truth) for k, kind in own.items()})

    def values(self, sums: Floats) -> Floats:
        """The error of each replicate."""
        return self._ece.values(sums)

    def defined(self, sums: Floats) -> int:
        """Items with a perfect model's answer."""
        return self._ece.defined(sums)

    @property
    def _ece(self) -> ECE:
        return ECE("correct", self.edges, self.closed)


def reductions(
    edges: tuple[float, ...], closed: bool, calibrated: bool, saved: Collection[str]
) -> dict[str, Mean | FloorECE | MajorityFloor]:
    """What must be summed for the floors; `calibrated` where the system has those of ECE.

    A run that an older version scored lacks columns: its floors stay unknown.
    """
    found: dict[str, Mean | FloorECE | MajorityFloor] = {}
    if all(name in saved for name in distance_columns()):
        found |= {name: Mean(name) for name in distance_columns()}
    if calibrated and all(name in saved for name in calibration_columns()):
        found |= {f"ece_original/{truth}": FloorECE(truth, edges, closed) for truth in TRUTHS}
        found |= {
            f"ece_{target}/{end}": MajorityFloor(target, end, edges, closed)
            for target in MAJORITIES
            for end in ENDS
        }
    return found


def named_floors(values: Mapping[str, float | None]) -> dict[str, Floor]:
    """Metric -> floor, from the values of `reductions`; no value where people told too little.

    >>> named_floors({"floor_low": 0.1, "floor_value": 0.2, "floor_high": 0.3})["tvd"].value
    0.2
    >>> named_floors({"floor_low": None, "floor_value": None, "floor_high": None})["tvd"].reason
    'one answer tells nothing of the truth: a floor needs two people'
    """
    found = {
        metric: _named_floor(floor.METHOD, *(values[f"{start}_{end}"] for end in ENDS))
        for metric, start in DISTANCES.items()
        if f"{start}_value" in values
    }
    if "ece_original/chao" in values:
        found["ece_original"] = _floor_of_chance(*(values[f"ece_original/{t}"] for t in TRUTHS))
        for target in MAJORITIES:
            ends = (values[f"ece_{target}/{end}"] for end in ENDS)
            found[f"ece_{target}"] = _named_floor(MAJORITY_METHOD, *ends)
    return found


def _named_floor(method: str, low: float | None, value: float | None, high: float | None) -> Floor:
    if low is None or value is None or high is None:
        return Floor(None, None, None, method, floor.ONE_ANSWER)
    # With a handful of people or items the estimate may leave its ends: they give way.
    value = max(0.0, value)  # of a distance; the correction may take more away than there is
    return Floor(value, min(low, value), max(high, value), method)


def _floor_of_chance(first: float | None, again: float | None) -> Floor:
    """Against the passage's own word a perfect model is calibrated, whatever the truth may be.

    All its error is chance in ten bins, which both estimates show: their mean has the less noise, a
    standard error of about an eighth of itself. With few draws a first choice is taken for surer
    than it is, by more than an estimate shows: hence the long upper end.
    """
    if first is None or again is None:
        return Floor(None, None, None, CHANCE, floor.ONE_ANSWER)
    value = (first + again) / 2
    return Floor(value, min(first, again, 0.4 * value), max(first, again, 1.8 * value), CHANCE)
