"""Per-item statistics of saved systems, and how a metric is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.codec import Facts
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.inference.estimate import Reduction
from aleatoric.inference.paired import NO_VALUE, Paired, paired
from aleatoric.metrics.agreement import COLUMNS as AGREEMENTS
from aleatoric.metrics.agreement import Overlap
from aleatoric.metrics.calibration import ECE, equal_mass_edges, equal_width_edges
from aleatoric.metrics.debiased import DebiasedECE
from aleatoric.metrics.reduction import Chunk, FiniteMean, Mean
from aleatoric.store import Store
from aleatoric.types import Floats

Places = Sequence[NDArray[np.int64]]
Key = tuple[str, int]
"""An item, and which of its rows: items that were recorded twice may count as two."""
Values = dict[str, float | None]
"""System -> value."""
INFINITE = "the log loss of a system is infinite or unknown on a common item"
HIGHER_IS_BETTER = ("overlap", "overlap/*", "accuracy")
LOWER_IS_BETTER = (
    *("sq_distance*", "log_loss*", "tvd*", "js", "energy/*", "w1_*"),
    *("ece*", "e_ece*", "mce*", "sce*", "ace*", "smooth_ece*", "brier*", "nll*"),
)


def better(metric: str) -> Literal["higher", "lower"] | None:
    """Which values of a metric are better; `None` for a metric that ranks nothing.

    A model should agree with itself as often as people do, not more or less: `agreement_M` has no
    better direction, and neither has a signed difference.

    >>> better("overlap"), better("w1_C/lexical-1"), better("agreement_M")
    ('higher', 'lower', None)
    """
    if any(fnmatchcase(metric, pattern) for pattern in HIGHER_IS_BETTER):
        return "higher"
    return "lower" if any(fnmatchcase(metric, p) for p in LOWER_IS_BETTER) else None


@dataclass(frozen=True)
class Rule:
    """How a metric is computed: the statistics that it needs per item, and their reduction."""

    columns: tuple[str, ...]
    reduction: Callable[[Sequence[Chunk], Mapping[str, str]], Reduction]
    """The statistics of all compared systems and the protocol's choices -> the reduction."""
    defining: tuple[str, ...]
    """The statistics that an item must have to take part."""
    undefined: str = NO_VALUE
    """Why items that take part may have no value together."""


def rule_of(metric: str, available: Collection[str]) -> Rule | None:
    """The rule of a metric; `None` where the available statistics are not enough for it.

    >>> rule_of("overlap", ["agreement_H", "agreement_M", "agreement_C"]).columns
    ('agreement_H', 'agreement_M', 'agreement_C')
    >>> rule_of("tvd_excess", ["tvd"])
    """
    makers = (make for pattern, make in _RULES.items() if fnmatchcase(metric, pattern))
    rule = next(makers, _mean)(metric)
    return rule if set(rule.columns) <= set(available) else None


def _mean(metric: str) -> Rule:
    return Rule((metric,), lambda chunks, choices: Mean(metric), (metric,))


def _overlap(metric: str) -> Rule:
    return Rule(AGREEMENTS, lambda chunks, choices: Overlap(), AGREEMENTS)


def _log_loss(metric: str) -> Rule:
    reduction = FiniteMean(metric, "confidence")
    # An infinite loss is no missing item: leaving it out would flatter the system.
    columns = (metric, "confidence")
    return Rule(columns, lambda chunks, choices: reduction, ("confidence",), INFINITE)


def _ece(metric: str) -> Rule:
    correct = metric.replace("ece_", "correct_", 1)
    columns = ("confidence", correct)
    return Rule(columns, lambda chunks, choices: ECE(correct, *_bins(chunks, choices)), columns)


def _debiased_ece(metric: str) -> Rule:
    correct = metric.replace("ece_debiased_", "correct_", 1)
    columns = ("confidence", correct)
    return Rule(
        columns, lambda chunks, choices: DebiasedECE(correct, *_bins(chunks, choices)), columns
    )


_RULES: Mapping[str, Callable[[str], Rule]] = {
    "overlap": _overlap,
    "log_loss*": _log_loss,
    "ece_debiased_*": _debiased_ece,
    "ece_*": _ece,
}
"""Patterns of metrics that are not the mean of the statistic of their name."""


def _bins(chunks: Sequence[Chunk], choices: Mapping[str, str]) -> tuple[tuple[float, ...], bool]:
    """The inner edges of the bins of confidence, and whether the last one holds a confidence of 1.

    Bins of equal mass are those of all systems together: swapped groups must keep their bins.
    """
    closed = choices.get("bins", "closed") == "closed"
    if choices.get("binning", "equal-width") == "equal-width":
        return equal_width_edges(), closed
    together = np.concatenate([chunk["confidence"][:, 0] for chunk in chunks])
    confidences = np.sort(together[np.isfinite(together)])
    return equal_mass_edges(confidences.tolist(), len(confidences)), closed


@dataclass(frozen=True)
class ItemStatistics:
    """Every statistic of one system: one row per item, (items, splits) values."""

    keys: Sequence[Key]
    groups: Sequence[str]
    values: Mapping[str, Floats]


def read_statistics(store: Store, system: str) -> ItemStatistics:
    """All of a system's saved statistics."""
    pages = list(store.stat_pages(system))
    ids = [item_id for page in pages for item_id in page.ids]
    groups = [group for page in pages for group in page.groups]
    names = pages[0].values if pages else {}
    values = {name: np.concatenate([page.values[name] for page in pages]) for name in names}
    return ItemStatistics(_numbered(ids), groups, Facts(values))


@dataclass(frozen=True)
class ItemEvidence:
    """What comparisons of words and texts stand on: the statistics of every system's items."""

    systems: Mapping[str, ItemStatistics]
    choices: Mapping[str, str]
    seed: int
    interval: str = DEFAULT_METHOD

    def compare(self, metric: str, first: str, second: str) -> Paired | None:
        """Two systems by one metric on their common items; `None` if the metric is not theirs."""
        sides = self.systems[first], self.systems[second]
        return compare_metric(metric, *sides, self.choices, self.seed, self.interval)

    def values(self, metric: str, labels: Sequence[str]) -> tuple[Values, int]:
        """Every system's value on the items that all of them have, and the number of those."""
        sides = [self.systems[label] for label in labels]
        values, n_items = common_values(metric, sides, self.choices)
        return dict(zip(labels, values, strict=True)), n_items


def compare_metric(
    metric: str,
    first: ItemStatistics,
    second: ItemStatistics,
    choices: Mapping[str, str],
    seed: int,
    interval: str = DEFAULT_METHOD,
) -> Paired | None:
    """Two systems by one metric on their common items; `None` where the metric is not theirs."""
    rule = rule_of(metric, first.values.keys() & second.values.keys())
    if rule is None:
        return None
    places = _common([first.keys, second.keys])
    one, other = _chunks([first, second], places, rule)
    groups = [first.groups[i] for i in places[0].tolist()]
    reduction = rule.reduction([one, other], choices)
    found = paired(one, other, groups, reduction, seed, interval, rule.defining)
    return replace(found, reason=rule.undefined) if found.reason == NO_VALUE else found


def common_values(
    metric: str, systems: Sequence[ItemStatistics], choices: Mapping[str, str]
) -> tuple[list[float | None], int]:
    """Every system's value of a metric on the items on which all have one, and their number."""
    rule = rule_of(metric, set.intersection(*(set(own.values) for own in systems)))
    if rule is None:
        return [None] * len(systems), 0
    chunks = _chunks(systems, _common([own.keys for own in systems]), rule)
    known = np.logical_and.reduce([_is_defined(chunk, rule.defining) for chunk in chunks])
    reduction = rule.reduction(chunks, choices)
    found = [
        reduction.values(reduction.columns(_taken(chunk, known)).sum(axis=0)) for chunk in chunks
    ]
    means = [float(by_split.mean()) if by_split.size else np.nan for by_split in found]
    return [None if np.isnan(mean) else mean for mean in means], int(known.sum())


def _chunks(systems: Sequence[ItemStatistics], places: Places, rule: Rule) -> list[Chunk]:
    return [
        {name: own.values[name][taken] for name in rule.columns}
        for own, taken in zip(systems, places, strict=True)
    ]


def _is_defined(chunk: Chunk, defining: Sequence[str]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = np.logical_and.reduce(
        [np.isfinite(chunk[name]).any(axis=1) for name in defining]
    )
    return known


def _taken(chunk: Chunk, rows: NDArray[np.bool_]) -> Chunk:
    return {name: values[rows] for name, values in chunk.items()}


def _common(keys: Sequence[Sequence[Key]]) -> Places:
    """The places of the items that all systems have, per system, in the order of the first."""
    first, *others = keys
    places = [{key: i for i, key in enumerate(own)} for own in others]
    shared = [(i, key) for i, key in enumerate(first) if all(key in own for own in places)]
    found = [[i for i, _ in shared], *([own[key] for _, key in shared] for own in places)]
    return [np.array(own, dtype=np.int64) for own in found]


def _numbered(ids: Sequence[str]) -> list[Key]:
    """Each item's id with the number of its row among the item's own."""
    seen: dict[str, int] = {}
    keys = []
    for item_id in ids:
        keys.append((item_id, seen.get(item_id, 0)))
        seen[item_id] = seen.get(item_id, 0) + 1
    return keys
