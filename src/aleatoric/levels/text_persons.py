"""Intervals of text-level metrics that cover people as well as groups, where texts have persons.

As at the word level (`aleatoric.inference.persons`): without a person, mean H of an input loses
that person's pairs and mean C that person's column; energy and differences of means follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from aleatoric.inference.components import Weights
from aleatoric.inference.estimate import GroupSums
from aleatoric.inference.persons import PersonSums, covering_cells, read_changes
from aleatoric.levels.text_scoring import CHUNK, CONTROL, Scorer
from aleatoric.levels.text_variability import Group, score_blocks
from aleatoric.metrics.reduction import Mean
from aleatoric.runs.formats import DamagedRowError
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.types import Estimate, Floats

KEY = "text persons"
_SIDES = ("mean_H", "mean_C")
"""Statistics whose changes are summed; those of the metrics are linear in them."""
METRICS = ("mean_H", "mean_C", "energy", "dmu_M", "dmu_C")


def save_changes(store: Store, scorer: Scorer, names: Sequence[str]) -> None:
    """Save how mean H and mean C change without each person; nothing where persons are unknown."""
    first = next(StoredTexts(store).walk(), None)
    facts: dict[str, Any] = {}
    if first is not None and first.item.persons is not None:
        sums = PersonSums(len(_SIDES))
        _add_changes(store, scorer, names, sums)
        facts = sums.facts()
    store.set_meta(KEY, facts)


def _add_changes(store: Store, scorer: Scorer, names: Sequence[str], sums: PersonSums) -> None:
    walk = StoredTexts(store).walk()
    while chunk := list(islice(walk, CHUNK)):
        items = scorer.texts(chunk, names)
        for group in score_blocks(items, names, scorer.probes, {}).groups:
            people = [chunk[row].item for row in group.rows]
            for system, changes in _of_systems(group, names):
                for p, probe in enumerate(scorer.probes):
                    for item, own in zip(people, changes[p], strict=True):
                        if item.persons is not None:
                            key = f"{system}/{probe.name}"
                            sums.add(key, item.group, item.persons, own)


def _of_systems(group: Group, names: Sequence[str]) -> Iterator[tuple[str, Floats]]:
    """Yield the control and each system with (probes, inputs, persons, sides) changes."""
    n = group.sizes[0]
    human = _without_each_pair(group.distances[:, :, :n, :n])
    yield CONTROL, np.stack([human, np.zeros_like(human)], axis=-1)
    for index, name in enumerate(names):
        if m := group.sizes[index + 1]:
            grid = group.with_people(index)[:, :, n : n + m, :n]
            yield name, np.stack([human, _without_each_column(grid)], axis=-1)


def _without_each_pair(square: Floats) -> Floats:
    """How the mean over pairs changes without each text; relative to the mean change."""
    n = square.shape[-1]
    values = np.where(np.eye(n, dtype=bool), np.nan, square)
    totals, counts = np.nansum(values, axis=-1), np.isfinite(values).sum(axis=-1)
    # Every pair is in the rows of both of its texts.
    total, count = (part.sum(axis=-1, keepdims=True) / 2 for part in (totals, counts))
    return _centred(total - totals, count - counts)


def _without_each_column(grid: Floats) -> Floats:
    """How the mean of a grid changes without each column; relative to the mean change."""
    totals, counts = np.nansum(grid, axis=-2), np.isfinite(grid).sum(axis=-2)
    total, count = (part.sum(axis=-1, keepdims=True) for part in (totals, counts))
    return _centred(total - totals, count - counts)


def _centred(totals: Floats, counts: Floats) -> Floats:
    """Means minus their mean; all 0 if one of them is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = totals / counts
    changes: Floats = means - means.mean(axis=-1, keepdims=True)
    return np.where(np.isfinite(changes), changes, 0.0)


def saved_changes(store: Store, interval: str) -> Mapping[str, Floats]:
    """Return system/probe -> (groups, persons, sides) changes, for intervals that can use them."""
    facts = store.meta(KEY) if interval in ("auto", "t") else None
    try:
        return {key: read_changes(own, len(_SIDES)) for key, own in (facts or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedRowError(str(error)) from None


def covering_persons(
    estimate: Estimate, system: str, metric: str, sums: GroupSums, saved: Mapping[str, Floats]
) -> Estimate:
    """The estimate with an interval over groups and persons, if persons are known."""
    statistic, _, probe = metric.partition("/")
    changes = saved.get(f"{system}/{probe}")
    # Differences of the control compare people with people.
    if changes is None or statistic not in (("mean_H",) if system == CONTROL else METRICS):
        return estimate
    weights = Weights.of(statistic)
    value = weights.human * changes[..., 0] + weights.cross * changes[..., 1]
    # The columns of a mean are the value and a count, which does not change.
    cells = np.stack([value, np.zeros_like(value)], axis=-1)
    return covering_cells(estimate, sums, Mean(metric), cells)


def person_notes(store: Store) -> Iterator[str]:
    """Note what the intervals of a run with persons cover."""
    if store.has_stats() and store.meta(KEY):
        yield (
            "texts have persons: intervals of mean H, mean C, energy and differences of means are "
            "over groups and persons (with --interval auto or t); all others are over groups"
        )
