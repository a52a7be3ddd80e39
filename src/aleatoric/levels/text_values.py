"""Distributions of one-text statistics: of people's texts and of a system's, per input.

`value_H` and `value_M` are means, `w1_value` the Wasserstein-1 distance between the values of a
system's texts and of people's. The control compares one half of the people with the other, and
`w1_value_matched` as many texts of a system with that half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aleatoric.levels.text_variability import ScoredTexts, Splitting, Statistics, random_orders
from aleatoric.metrics.distances import mean, w1
from aleatoric.probes.base import Probe
from aleatoric.probes.one_text import OneText, is_one_text
from aleatoric.types import Floats

HUMAN, OWN, W1 = "value_H", "value_M", "w1_value"
W1_MATCHED = f"{W1}_matched"
OF_SYSTEMS = (OWN, W1_MATCHED)
"""Statistics that people have none of."""


def columns(probes: Sequence[Probe]) -> list[str]:
    """Return the names of the statistics of the probes that are one-text statistics."""
    names = [probe.name for probe in probes if is_one_text(probe)]
    return [f"{name}/{probe}" for name in (HUMAN, OWN, W1, W1_MATCHED) for probe in names]


def score_values(
    items: Sequence[ScoredTexts], n_systems: int, probes: Sequence[Probe], splitting: Splitting
) -> list[Statistics]:
    """Return the statistics of people, then those of each system, one value per input."""
    found: list[Statistics] = [{} for _ in range(n_systems + 1)]
    for probe in filter(is_one_text, probes):
        for row, (item, sides) in enumerate(zip(items, _by_input(items, probe), strict=True)):
            for column, values in zip(found, _of_input(item, sides, splitting), strict=True):
                for name, value in values.items():
                    key = f"{name}/{probe.name}"
                    column.setdefault(key, np.full(len(items), np.nan))[row] = value
    return found


def _by_input(items: Sequence[ScoredTexts], probe: OneText) -> Iterator[list[Floats]]:
    """Yield, per input, the values of people's texts and of each system's."""
    parts = [[item.people, *item.systems] for item in items]
    values = iter(probe.values([text for sides in parts for side in sides for text in side]))
    for sides in parts:
        yield [np.array([next(values) for _ in side], dtype=np.float64) for side in sides]


def _of_input(
    item: ScoredTexts, sides: Sequence[Floats], splitting: Splitting
) -> Iterator[dict[str, float]]:
    people, *systems = sides
    half, seeds = len(people) // 2, ([item.item_id], splitting.seed, splitting.n_splits)
    orders = random_orders(len(people), *seeds)[0]
    one, other = people[orders[:, :half]], people[orders[:, half:]]
    mean_h = {HUMAN: _mean(people)}
    yield mean_h | {W1: _mean(w1(one, other))}
    for own in systems:
        values = mean_h | {OWN: _mean(own), W1: _mean(w1(own[None], people[None]))}
        if len(own) >= half:
            drawn = random_orders(len(own), *seeds, "text-matched")[0][:, :half]
            values[W1_MATCHED] = _mean(w1(own[drawn], other))
        yield values


def _mean(values: Floats) -> float:
    """Return the mean of the values that are defined; NaN if there are none."""
    return float(mean(values[None])[0])
