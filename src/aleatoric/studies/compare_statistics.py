"""Per-item statistics of saved systems, and how a metric is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.results import GroupedSums
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.inference.estimate import Reduction
from aleatoric.inference.multiple import benjamini_hochberg, different_pairs, holm, letters
from aleatoric.inference.paired import IDENTICAL, NO_ITEMS, NO_VALUE, Paired, paired, paired_sums
from aleatoric.levels.base import level_of
from aleatoric.metrics.agreement import COLUMNS as AGREEMENTS
from aleatoric.metrics.agreement import Overlap
from aleatoric.metrics.calibration import ECE, DebiasedECE, equal_mass_edges, equal_width_edges
from aleatoric.metrics.reduction import Chunk, FiniteMean, Mean
from aleatoric.runs import Store
from aleatoric.runs.formats import SavedDict
from aleatoric.types import Estimate, Floats, Result

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
    return ItemStatistics(_numbered(ids), groups, SavedDict(values))


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
            values, n_tokens = common_token_values(metric, sides)
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
    places = _common_groups(first.names, second.names)
    if not places.shape[1]:
        return Paired(Estimate(None, None, 0, 0, reason=NO_ITEMS), None, None, NO_ITEMS)
    one, other = first.metrics[metric], second.metrics[metric]
    tokens = int(first.tokens[places[0]].sum())
    counted = Estimate(None, None, tokens, places.shape[1])
    tables = one.table[places[0]], other.table[places[1]]
    return paired_sums(*tables, one.value, counted, seed, interval)


def common_token_values(
    metric: str, systems: Sequence[GroupedSums]
) -> tuple[list[float | None], int]:
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
    places = _common_groups(first.names, second.names)
    return not np.array_equal(first.tokens[places[0]], second.tokens[places[1]])


def _common_groups(first: Sequence[str], second: Sequence[str]) -> NDArray[np.int64]:
    """(2, n): the places of the common groups in each, in the order of the first."""
    place = {name: i for i, name in enumerate(second)}
    both = [(i, place[name]) for i, name in enumerate(first) if name in place]
    return np.array(both, dtype=np.int64).reshape(-1, 2).T


@dataclass(frozen=True)
class Comparison:
    """Two systems by one metric, with p-values adjusted over all pairs by the same metric."""

    metric: str
    first: str
    second: str
    paired: Paired
    p_holm: float | None = None
    p_bh: float | None = None
    smallest: float | None = None
    """The smallest adjusted p-value (Holm) that this pair could have had."""
    signatures: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        found, test = self.paired, self.paired.test
        return {
            "metric": self.metric,
            "first": self.first,
            "second": self.second,
            "difference": asdict(found.difference),
            "p": test.p if test else None,
            "p_holm": self.p_holm,
            "p_bh": self.p_bh,
            "smallest_p_holm": self.smallest,
            "test": {"method": test.method, "exact": test.exact} if test else None,
            "effect": asdict(found.effect) if found.effect else None,
            "reason": found.reason,
            "signatures": list(self.signatures),
        }

    @property
    def value(self) -> float | None:
        """The first system's value minus the second's, on their common items."""
        return self.paired.difference.value

    def is_significant(self, alpha: float) -> bool:
        """Whether the adjusted p-value reaches the level."""
        return self.p_holm is not None and self.p_holm <= alpha

    def is_impossible(self, alpha: float) -> bool:
        """Whether there is a test, but no adjusted p-value of it could reach the level."""
        return self.smallest is not None and self.smallest > alpha

    def is_decided(self, alpha: float) -> bool:
        """Whether the pair is known to be equal, or has a test that could have found it unequal."""
        if self.paired.reason == IDENTICAL:
            return True
        return self.smallest is not None and self.smallest <= alpha


def by_metric(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """The family of each metric."""
    families: dict[str, list[Comparison]] = {}
    for one in comparisons:
        families.setdefault(one.metric, []).append(one)
    return families


def adjusted(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """The comparisons with p-values adjusted within each metric."""
    for family in by_metric(comparisons).values():
        tests = [one.paired.test for one in family]
        p_values = [test.p if test else None for test in tests]
        # Holm's p-values only fall as p-values fall: with all of them at their smallest, every
        # adjusted one is at its smallest too.
        smallest = holm([test.smallest if test else None for test in tests])
        rows = zip(family, holm(p_values), benjamini_hochberg(p_values), smallest, strict=True)
        for one, by_holm, by_bh, least in rows:
            yield replace(one, p_holm=by_holm, p_bh=by_bh, smallest=least)


def order_of(metric: str, family: Sequence[Comparison]) -> tuple[str, ...]:
    """The systems from best to worst; empty for a metric that has no better direction.

    A system's place is the mean of its paired differences from the others, each on the items of
    its pair. Where all systems have the same items, that is the order of their values.
    """
    direction = better(metric)
    if direction is None:
        return ()
    gaps: dict[str, list[float]] = {}
    for one in family:
        if one.value is not None:
            gaps.setdefault(one.first, []).append(one.value)
            gaps.setdefault(one.second, []).append(-one.value)
    means = {label: sum(own) / len(own) for label, own in gaps.items()}
    return tuple(sorted(means, key=lambda name: means[name], reverse=direction == "higher"))


def letters_of(
    order: Sequence[str], family: Sequence[Comparison], alpha: float
) -> Mapping[str, str]:
    """Letters from Holm's p-values; the best system has an a.

    None where the metric ranks nothing, or where a pair has no test that could reach the level:
    a shared letter would then say nothing.
    """
    if not order or not all(one.is_decided(alpha) for one in family):
        return {}
    p_values = {frozenset((one.first, one.second)): one.p_holm for one in family}
    return letters(order, different_pairs(p_values, alpha))


@dataclass(frozen=True)
class Member:
    """One system of one run, under the label that it has among all compared ones."""

    store: Store
    system: str
    label: str
    results: Mapping[str, Result]
    """By metric."""


def check_levels(stores: Sequence[Store]) -> None:
    """Refuse runs of different levels."""
    first, *others = stores
    for other in others:
        if level_of(first).name != level_of(other).name:
            raise _refusal(first, other, {"level": (level_of(first).name, level_of(other).name)})


def check_comparable(members: Sequence[Member]) -> None:
    """Refuse systems whose signatures differ in anything but the system itself."""
    for first, second in combinations(members, 2):
        for metric in first.results.keys() & second.results.keys():
            found = differing(_fields(first, metric), _fields(second, metric))
            if found:
                raise _refusal(first.store, second.store, found)


def without_clusters(members: Sequence[Member], asked: Sequence[str]) -> list[Member]:
    """The members without TVD_sem where they are of several runs: each run has its own clusters."""
    if len({member.store.path for member in members}) == 1:
        return list(members)
    if "tvd_sem" in asked:
        raise UsageError(
            "tvd_sem cannot be compared between runs: its clusters are those of one run's systems; "
            "give all models to one command."
        )
    return [
        replace(m, results={name: r for name, r in m.results.items() if name != "tvd_sem"})
        for m in members
    ]


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The fields that both have and that differ.

    >>> differing({"rule": "paper", "seed": "0"}, {"rule": "corrected"})
    {'rule': ('paper', 'corrected')}
    """
    shared = (name for name in first if name in second)
    return {name: (first[name], second[name]) for name in shared if first[name] != second[name]}


def _fields(member: Member, metric: str) -> dict[str, str]:
    """What must agree: the corpus and how it was measured, not what the system itself is."""
    signature = member.results[metric].signature
    own = member.store.systems()[member.system].get("conventions", {})
    protocol = {name: value for name, value in signature.protocol.items() if name not in own}
    return {"corpus": f"{signature.corpus}#{signature.corpus_sha256[:12]}", **protocol}


def _refusal(first: Store, second: Store, found: Mapping[str, tuple[str, str]]) -> UsageError:
    listed = ", ".join(f"{name} ({one} v {other})" for name, (one, other) in found.items())
    differ = "differs" if len(found) == 1 else "differ"
    return UsageError(
        f"{first.path} and {second.path} cannot be compared: {listed} {differ}; "
        "run both on the same corpus with the same choices."
    )
