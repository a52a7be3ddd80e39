"""Intervals that cover people as well as groups, if it is known who gave each answer.

The variance is two-way (Cameron, Gelbach & Miller 2011): V_groups + V_persons - V_cells, jackknife
variances over groups, persons and cells (one person's answers within one group). The last two
together are what a person's answers in different groups share; a negative estimate counts as 0, so
that the interval is never narrower than with groups alone. Leaving out a person needs no rescoring:
the changes of an item's statistics are summed by group and person when a run is scored.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aleatoric.inference.bootstrap import (
    equal_groups,
    jackknife_error,
    leave_one_out,
    skewness,
    t_interval,
)
from aleatoric.inference.estimate import GroupSums, Reduction, ResamplingUnits, mean_of_splits
from aleatoric.types import Estimate, Floats, Interval

STATISTICS = ("agreement_H", "agreement_C", "log_loss", "tvd")
"""Statistics whose changes are summed; a cell's last column is its number of answers."""
METRICS = (
    *("overlap", "sq_distance", "agreement_H", "agreement_C", "agreement_gap"),
    *("log_loss", "tvd"),
)
"""Metrics that are functions of these and of what does not depend on people."""
METHOD = "Student's t, jackknife, two-way over groups and persons"


def changes_without_each(
    words: Sequence[str], model: Mapping[str, float] | None, is_pair_known: bool = True
) -> Floats:
    """(persons, statistics) changes of one item's statistics if one person had not answered.

    `words` are people's answers; `model` maps words to probabilities, and is `None` for people
    alone. `is_pair_known` says whether the agreements are defined: a single draw has none. Changes
    are relative to their mean, and 0 if the statistic is undefined without one of the people.
    """
    names, of_person, counts = np.unique(words, return_inverse=True, return_counts=True)
    n, changes = len(words), np.zeros((len(names), len(STATISTICS)))
    if n < 2:
        return changes[of_person]
    if is_pair_known and n > 2:
        agreeing = (counts - 1) / (n - 1)
        changes[:, 0] = 2 * (counts @ agreeing / n - agreeing) / (n - 2)
    if model is not None:
        probs = np.array([model.get(str(name), 0.0) for name in names])
        if is_pair_known:
            changes[:, 1] = (counts @ probs / n - probs) / (n - 1)
        if (probs > 0).all():
            losses = -np.log(probs)
            changes[:, 2] = (counts @ losses / n - losses) / (n - 1)
        gaps = counts / (n - 1) - probs
        tvd_changes = (np.abs(gaps - 1 / (n - 1)) - np.abs(gaps)) / 2
        changes[:, 3] = tvd_changes - counts @ tvd_changes / n
    return changes[of_person]


class PersonSums:
    """Summed changes by system, group and person, each at most 1000 units (`ResamplingUnits`)."""

    def __init__(self, n_statistics: int = len(STATISTICS)) -> None:
        self._n_statistics = n_statistics
        self._groups, self._persons = ResamplingUnits(), ResamplingUnits()
        self._tables: dict[str, Floats] = {}

    def add(self, system: str, group: str, persons: Sequence[str], changes: Floats) -> None:
        """Add the changes of one item."""
        (row,), columns = self._groups.numbers([group]), self._persons.numbers(persons)
        table = self._tables.get(system, np.zeros((0, 0, self._n_statistics + 1)))
        table = self._tables[system] = _grown(table, row + 1, max(columns) + 1)
        np.add.at(table, (row, columns), np.column_stack([changes, np.ones(len(columns))]))

    def facts(self) -> dict[str, dict[str, Any]]:
        """Each system's sums in a form that can be saved as JSON."""
        by_system = {}
        for name, table in self._tables.items():
            answers = table[:, :, -1]
            used = table[answers.any(axis=1)][:, answers.any(axis=0)]
            packed = zlib.compress(used.astype("<f8").tobytes(), 1)
            content = base64.b64encode(packed).decode("ascii")
            by_system[name] = {"shape": list(used.shape), "cells": content}
        return by_system


def _grown(table: Floats, n_groups: int, n_persons: int) -> Floats:
    """Enlarge the table if needed, at least doubling a dimension that grows."""
    sizes = zip(table.shape, (n_groups, n_persons, 0), strict=True)
    added = [(0, max(needed - size, size) if needed > size else 0) for size, needed in sizes]
    return np.pad(table, added) if np.any(added) else table


def read_changes(facts: Mapping[str, Any], n_statistics: int = len(STATISTICS)) -> Floats:
    """Read one system's summed changes, (groups, persons, statistics and number of answers).

    `facts` are those of `PersonSums`; raise ValueError if they are malformed.
    """
    groups, persons, width = facts["shape"]
    n_bytes = 8 * groups * persons * width
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(base64.b64decode(facts["cells"]), n_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(content) != n_bytes or width != n_statistics + 1:
        raise ValueError(f"{len(content)} bytes are no sums of shape {facts['shape']}")
    return np.frombuffer(content, dtype="<f8").reshape(facts["shape"])


def changes_of_columns(changes: Floats, reduction: Reduction) -> Floats:
    """(groups, persons, columns) changes of the sums that a reduction is computed from.

    Columns are linear in the statistics except for constants such as counts, which cancel.
    """
    groups, persons, width = changes.shape
    flat = changes.reshape(groups * persons, width)
    changed = {name: flat[:, [i]] for i, name in enumerate(STATISTICS)}
    changed["sq_distance"] = changed["agreement_H"] - 2 * changed["agreement_C"]
    changed["agreement_M"] = changed["confidence"] = np.zeros((len(flat), 1))
    unchanged = {name: np.zeros((1, 1)) for name in changed}
    columns = reduction.columns(changed) - reduction.columns(unchanged)
    return columns.reshape(groups, persons, -1)


def covering_persons(
    estimate: Estimate, sums: GroupSums, reduction: Reduction, changes: Floats
) -> Estimate:
    """The estimate with an interval over groups and persons; unchanged if it has no interval."""
    return covering_cells(estimate, sums, reduction, changes_of_columns(changes, reduction))


def covering_cells(
    estimate: Estimate, sums: GroupSums, reduction: Reduction, by_cell: Floats
) -> Estimate:
    """The same from (groups, persons, columns) changes of the reduction's columns."""
    if estimate.interval is None or by_cell.shape[1] < 2:
        return estimate
    level = estimate.interval.level
    interval = two_way_interval(sums.defined(reduction), reduction, by_cell, level)
    return replace(estimate, interval=interval)


def two_way_interval(
    sums: Floats, reduction: Reduction, changes: Floats, level: float = 0.95
) -> Interval:
    """Student's t with the two-way standard error; degrees of freedom of the fewer of the two.

    `sums` is (groups, k), `changes` is (groups, persons, k). Skewed groups and persons move an end
    outward, as in the interval over groups, in proportion to their share of the noise.
    """

    def value(rows: Floats) -> Floats:
        return mean_of_splits(reduction.values(rows))

    total, n_persons = sums.sum(axis=0), changes.shape[1]
    centre, left_out = float(value(total)), leave_one_out(sums, value)
    error = jackknife_error(left_out)
    assert error is not None  # the caller has an interval over these groups
    by_person, by_cell = (value(total + part) - centre for part in (changes.sum(axis=0), changes))
    shared = (n_persons - 1) / n_persons * float((by_person**2).sum() - (by_cell**2).sum())
    shared = max(shared, 0.0)
    variance, n = error**2 + shared, min(len(sums), n_persons)
    sizes = np.array([reduction.defined(row) for row in sums], np.float64)
    parts = (error**2, left_out, len(sums)), (shared, by_person, n_persons)
    skew = sum((part / variance) ** 1.5 * skewness(out) / math.sqrt(m) for part, out, m in parts)
    n_equal = min(equal_groups(sizes), n_persons)
    interval = t_interval(centre, math.sqrt(variance), n, level, skew * math.sqrt(n), n_equal)
    return replace(interval, method=METHOD)
