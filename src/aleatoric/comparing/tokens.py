"""Systems that read the same documents: errors of tokens, compared by sums over documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.comparing.statistics import Values
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.inference.paired import NO_ITEMS, Paired, paired_sums
from aleatoric.tokens.grouped import GroupedSums
from aleatoric.types import Estimate

NOT_BY_GROUP = "its sums are not kept by group: there is nothing to resample or to swap"


@dataclass(frozen=True)
class DocumentEvidence:
    """What comparisons of token-level systems stand on: sums by document, and whole results."""

    systems: Mapping[str, GroupedSums]
    results: Mapping[str, Mapping[str, Estimate]]
    """System -> metric -> its estimate over all of its documents."""
    seed: int
    interval: str = DEFAULT_METHOD

    def compare(self, metric: str, first: str, second: str) -> Paired | None:
        """Two systems by one metric on their common documents; `None` if it is not theirs."""
        sides = self.systems[first], self.systems[second]
        found = compare_sums(metric, *sides, self.seed, self.interval)
        if found is not None:
            return found
        return compare_values(*(self.results[label].get(metric) for label in (first, second)))

    def values(self, metric: str, labels: Sequence[str]) -> tuple[Values, int]:
        """Every system's value on the documents that all have read, and their number of tokens.

        Metrics without sums by document have their value over all documents of the system.
        """
        sides = [self.systems[label] for label in labels]
        if not all(metric in own.metrics for own in sides):
            whole = [self.results[label][metric] for label in labels]
            values = [estimate.value for estimate in whole]
            n_tokens = min(estimate.n_items for estimate in whole)
        else:
            values, n_tokens = common_values(metric, sides)
        return dict(zip(labels, values, strict=True)), n_tokens


def compare_sums(
    metric: str,
    first: GroupedSums,
    second: GroupedSums,
    seed: int,
    interval: str = DEFAULT_METHOD,
) -> Paired | None:
    """Two systems by one metric on their common groups; `None` where it has no sums by group."""
    if metric not in first.metrics or metric not in second.metrics:
        return None
    places = _common(first.names, second.names)
    if not places.shape[1]:
        return Paired(Estimate(None, None, 0, 0, reason=NO_ITEMS), None, None, NO_ITEMS)
    one, other = first.metrics[metric], second.metrics[metric]
    tokens = int(first.tokens[places[0]].sum())
    counted = Estimate(None, None, tokens, places.shape[1])
    tables = one.table[places[0]], other.table[places[1]]
    return paired_sums(*tables, one.value, counted, seed, interval)


def common_values(metric: str, systems: Sequence[GroupedSums]) -> tuple[list[float | None], int]:
    """Every system's value on the groups that all have, and the tokens that the first has there."""
    shared = set.intersection(*(set(own.names) for own in systems))
    if not shared:
        return [None] * len(systems), 0
    rows = [[i for i, name in enumerate(own.names) if name in shared] for own in systems]
    summed = [own.metrics[metric] for own in systems]
    found = [
        float(one.value(one.table[taken].sum(axis=0)[None])[0])
        for one, taken in zip(summed, rows, strict=True)
    ]
    values = [None if np.isnan(value) else value for value in found]
    return values, int(systems[0].tokens[rows[0]].sum())


def compare_values(first: Estimate | None, second: Estimate | None) -> Paired | None:
    """The bare difference of two values whose sums are not kept by group."""
    if first is None or second is None or first.value is None or second.value is None:
        return None
    gap = Estimate(first.value - second.value, None, first.n_items, first.n_groups)
    return Paired(gap, None, None, NOT_BY_GROUP)


def tokens_differ(first: GroupedSums, second: GroupedSums) -> bool:
    """Whether two systems cut the same documents into different numbers of tokens."""
    places = _common(first.names, second.names)
    return not np.array_equal(first.tokens[places[0]], second.tokens[places[1]])


def _common(first: Sequence[str], second: Sequence[str]) -> NDArray[np.int64]:
    """(2, n): the places of the common groups in each, in the order of the first."""
    place = {name: i for i, name in enumerate(second)}
    both = [(i, place[name]) for i, name in enumerate(first) if name in place]
    return np.array(both, dtype=np.int64).reshape(-1, 2).T
