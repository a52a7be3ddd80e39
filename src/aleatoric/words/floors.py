"""The floors of distances: a perfect model's scores at each item's own sample sizes.

A distance has a floor an item, saved as its ends and its estimate. Calibration errors exist for
many items only: see `calibration_floor`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from aleatoric.inference import control, floor
from aleatoric.inference.floor import Asked
from aleatoric.metrics.reduction import Mean
from aleatoric.types import Floor

ENDS = ("low", "value", "high")
DISTANCES = {"tvd": "floor", "js": "floor_js"}
"""Metric -> how the columns of its floor begin."""
WORDS_AT_ONCE = 100_000


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


def _batches(asked: Sequence[Asked]) -> Iterator[list[int]]:
    """Places of items whose estimated truths fit into memory together.

    An estimate has about half as many unseen words as there are pairs of words said once: twenty
    thousand for two hundred people of whom no two agree.
    """
    once = [int((ask.counts == 1).sum()) for ask in asked]
    widths = [len(ask.counts) + n * n // 2 for ask, n in zip(asked, once, strict=True)]
    return control.batches(widths, WORDS_AT_ONCE)


def reductions(saved: Collection[str]) -> dict[str, Mean]:
    """What must be summed for the floors.

    A run that an older version scored lacks columns: its floors stay unknown.

    >>> reductions([])
    {}
    """
    known = all(name in saved for name in distance_columns())
    return {name: Mean(name) for name in distance_columns()} if known else {}


def named_floors(values: Mapping[str, float | None]) -> dict[str, Floor]:
    """Metric -> floor, from the values of `reductions`; no value where people told too little.

    >>> named_floors({"floor_low": 0.1, "floor_value": 0.2, "floor_high": 0.3})["tvd"].value
    0.2
    >>> named_floors({"floor_low": None, "floor_value": None, "floor_high": None})["tvd"].reason
    'one answer tells nothing of the truth: a floor needs two people'
    """
    return {
        metric: _named_floor(*(values[f"{start}_{end}"] for end in ENDS))
        for metric, start in DISTANCES.items()
        if f"{start}_value" in values
    }


def _named_floor(low: float | None, value: float | None, high: float | None) -> Floor:
    if low is None or value is None or high is None:
        return Floor(None, None, None, floor.METHOD, floor.ONE_ANSWER)
    # With a handful of people or items the estimate may leave its ends: they give way.
    value = max(0.0, value)  # of a distance; the correction may take more away than there is
    return Floor(value, min(low, value), max(high, value), floor.METHOD)
