"""Paired comparison of systems: their statistics on common items, tests and adjusted p-values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.inference.estimate import Reduction
from aleatoric.inference.paired import IDENTICAL, NO_ITEMS, NO_VALUE, Paired, paired, paired_sums
from aleatoric.inference.two_samples import benjamini_hochberg, different_pairs, holm, letters
from aleatoric.metrics.agreement import COLUMNS as AGREEMENTS
from aleatoric.metrics.agreement import Agreement, Overlap
from aleatoric.metrics.calibration import ECE, DebiasedECE, confidence_edges
from aleatoric.metrics.reduction import Chunk, FiniteMean, Mean
from aleatoric.result_types import Result, Tabular
from aleatoric.rng import stream
from aleatoric.runs.formats import SavedDict
from aleatoric.runs.run import Store
from aleatoric.studies import notes_on
from aleatoric.types import Categorical, Estimate, Floats, Pair

if TYPE_CHECKING:
    from aleatoric.calibration.results import GroupedSums

Key = tuple[str, int]
"""Id of an item and the number of its row: an item that was recorded twice may count as two."""
Values = dict[str, float | None]
"""System -> value."""
INFINITE = "the log loss of a system is infinite or unknown on a common item"
NOT_BY_GROUP = "its sums are not kept by group: there is nothing to resample or to swap"
HIGHER_IS_BETTER = ("overlap", "overlap/*", "accuracy")
LOWER_IS_BETTER = (
    *("sq_distance*", "log_loss*", "tvd*", "js", "energy/*", "w1_*"),
    *("ece*", "e_ece*", "mce*", "sce*", "ace*", "smooth_ece*", "brier*", "nll*"),
)
MATCHED_PAIRWISE = ("tvd", "tvd_debiased", "js")
MATCHED_STATISTICS = (*MATCHED_PAIRWISE, *AGREEMENTS, "sq_distance")
MATCHED_METRICS = ("overlap", *MATCHED_STATISTICS)
"""Metrics that can be compared between systems with matched numbers of draws."""


def better(metric: str) -> Literal["higher", "lower"] | None:
    """Return which values of a metric are better; `None` for a metric without a direction.

    A model should agree with itself as often as people do, not more or less: `agreement_M` has no
    better direction, and neither has a signed difference.
    """
    if fits(metric, HIGHER_IS_BETTER):
        return "higher"
    return "lower" if fits(metric, LOWER_IS_BETTER) else None


def fits(metric: str, patterns: Sequence[str]) -> bool:
    """Whether a metric matches a pattern."""
    return any(fnmatchcase(metric, pattern) for pattern in patterns)


def matching(metrics: Collection[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics that match a pattern, pattern by pattern."""
    return tuple(dict.fromkeys(m for p in patterns for m in metrics if fnmatchcase(m, p)))


def check_known(metrics: Collection[str], patterns: Sequence[str]) -> None:
    """Refuse a pattern that no metric matches."""
    for pattern in patterns:
        if not matching(metrics, (pattern,)):
            raise UsageError(f"there is no metric {pattern!r}; there are: {', '.join(metrics)}.")


def differing(left: Mapping[str, str], right: Mapping[str, str]) -> str:
    """Say which fields of both have different values; empty if none has."""
    names = [name for name in left if name in right and left[name] != right[name]]
    listed = ", ".join(f"{name} ({left[name]} v {right[name]})" for name in names)
    return listed and f"{listed} {'differs' if len(names) == 1 else 'differ'}"


# Metrics per item --------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a metric is computed from per-item statistics."""

    columns: tuple[str, ...]
    """Statistics that it needs."""
    reduction: Callable[[Sequence[Chunk], Mapping[str, str]], Reduction]
    """Statistics of all compared systems and choices of the protocol -> the reduction."""
    defining: tuple[str, ...]
    """Statistics that an item must have to be included."""
    undefined: str = NO_VALUE
    """Why the included items may have no value."""


def _rule_of(metric: str) -> Rule:
    if metric == "overlap":
        return Rule(AGREEMENTS, lambda chunks, choices: Overlap(), AGREEMENTS)
    if metric.startswith("log_loss"):
        # Items with an infinite loss are included: leaving them out would favor the system.
        loss = FiniteMean(metric, "confidence")
        needed = (metric, "confidence")
        return Rule(needed, lambda chunks, choices: loss, ("confidence",), INFINITE)
    if metric.startswith("ece_"):
        kind = DebiasedECE if metric.startswith("ece_debiased_") else ECE
        correct = "correct_" + metric.removeprefix("ece_").removeprefix("debiased_")
        both = ("confidence", correct)
        return Rule(both, lambda chunks, choices: kind(correct, *_bins(chunks, choices)), both)
    return Rule((metric,), lambda chunks, choices: Mean(metric), (metric,))


def _bins(chunks: Sequence[Chunk], choices: Mapping[str, str]) -> tuple[tuple[float, ...], bool]:
    """Return the inner edges of the confidence bins, and whether the last includes 1."""
    closed = choices.get("bins", "closed") == "closed"
    # Of all systems together: swapped groups must keep their bins.
    together = (chunk["confidence"][:, 0] for chunk in chunks)
    return confidence_edges(choices.get("binning", "equal-width"), together), closed


@dataclass(frozen=True)
class ItemStatistics:
    """All statistics of one system: one row per item, values of shape (items, splits)."""

    keys: Sequence[Key]
    groups: Sequence[str]
    values: Mapping[str, Floats]


def read_statistics(store: Store, system: str) -> ItemStatistics:
    """Read all saved statistics of a system."""
    pages = list(store.stat_pages(system))
    groups = [group for page in pages for group in page.groups]
    names = pages[0].values if pages else {}
    values = {name: np.concatenate([page.values[name] for page in pages]) for name in names}
    rows: defaultdict[str, Iterator[int]] = defaultdict(count)
    keys = [(item_id, next(rows[item_id])) for page in pages for item_id in page.ids]
    return ItemStatistics(keys, groups, SavedDict(values))


@dataclass(frozen=True)
class ItemEvidence:
    """Per-item statistics of every system, for comparing words and texts."""

    systems: Mapping[str, ItemStatistics]
    choices: Mapping[str, str]
    seed: int
    interval: str = DEFAULT_METHOD

    def compare(self, metric: str, first: str, second: str) -> Paired | None:
        """Compare two systems on their common items; `None` if they lack the metric."""
        common = self._common(metric, (first, second))
        if common is None:
            return None
        rule, groups, (left, right) = common
        reduction = rule.reduction([left, right], self.choices)
        result = paired(left, right, groups, reduction, self.seed, self.interval, rule.defining)
        return replace(result, reason=rule.undefined) if result.reason == NO_VALUE else result

    def values(self, metric: str, labels: Sequence[str]) -> tuple[Values, int]:
        """Return the value of every system on the items that all of them have, and their number."""
        common = self._common(metric, labels)
        if common is None:
            return dict.fromkeys(labels), 0
        rule, _, chunks = common
        defined = np.logical_and.reduce(
            [np.isfinite(chunk[name]).any(axis=1) for chunk in chunks for name in rule.defining]
        )
        reduction, values = rule.reduction(chunks, self.choices), Values()
        for label, chunk in zip(labels, chunks, strict=True):
            rows = reduction.columns({name: column[defined] for name, column in chunk.items()})
            by_split = reduction.values(rows.sum(axis=0))
            mean = float(by_split.mean()) if by_split.size else np.nan
            values[label] = None if np.isnan(mean) else mean
        return values, int(defined.sum())

    def _common(
        self, metric: str, labels: Sequence[str]
    ) -> tuple[Rule, list[str], list[Chunk]] | None:
        """Return the rule of a metric, and the groups and statistics of the common items."""
        systems = [self.systems[label] for label in labels]
        rule = _rule_of(metric)
        if not all(system.values.keys() >= set(rule.columns) for system in systems):
            return None
        rows = _common_rows([system.keys for system in systems])
        chunks: list[Chunk] = [
            {name: system.values[name][places] for name in rule.columns}
            for system, places in zip(systems, rows, strict=True)
        ]
        return rule, [systems[0].groups[i] for i in rows[0].tolist()], chunks


def _common_rows(keys: Sequence[Sequence[Any]]) -> list[NDArray[np.int64]]:
    """Return the rows of the keys that all systems have, in the order of the first system."""
    places = [{key: i for i, key in enumerate(system_keys)} for system_keys in keys]
    shared = [key for key in keys[0] if all(key in place for place in places)]
    return [np.array([place[key] for key in shared], dtype=np.int64) for place in places]


# Metrics per document ----------------------------------------------------------------------


@dataclass(frozen=True)
class DocumentEvidence:
    """Sums per document and overall results of every system, for comparing token-level runs."""

    systems: Mapping[str, GroupedSums]
    results: Mapping[str, Mapping[str, Estimate]]
    """System -> metric -> estimate over all documents of the system."""
    seed: int
    interval: str = DEFAULT_METHOD

    def compare(self, metric: str, first: str, second: str) -> Paired | None:
        """Compare two systems on their common documents; `None` if they lack the metric."""
        systems = self.systems[first], self.systems[second]
        results = (self.results[label].get(metric) for label in (first, second))
        return compare_sums(metric, *systems, self.seed, self.interval) or compare_values(*results)

    def values(self, metric: str, labels: Sequence[str]) -> tuple[Values, int]:
        """Return the value of every system on their common documents, and the number of tokens."""
        systems = [self.systems[label] for label in labels]
        if not all(metric in s.metrics for s in systems):  # over all documents of a system
            overall = {label: self.results[label][metric] for label in labels}
            n_tokens = min(estimate.n_items for estimate in overall.values())
            return {label: estimate.value for label, estimate in overall.items()}, n_tokens
        shared = set.intersection(*(set(system.names) for system in systems))
        if not shared:
            return dict.fromkeys(labels), 0
        rows = [[i for i, name in enumerate(system.names) if name in shared] for system in systems]
        values = Values()
        for label, system, places in zip(labels, systems, rows, strict=True):
            sums = system.metrics[metric]
            value = float(sums.value(sums.table[places].sum(axis=0)[None])[0])
            values[label] = None if np.isnan(value) else value
        return values, int(systems[0].tokens[rows[0]].sum())


Evidence = ItemEvidence | DocumentEvidence


def compare_sums(
    metric: str, first: GroupedSums, second: GroupedSums, seed: int, interval: str = DEFAULT_METHOD
) -> Paired | None:
    """Compare two systems on their common groups; `None` for a metric without sums per group."""
    if metric not in first.metrics or metric not in second.metrics:
        return None
    rows, other_rows = _common_rows([first.names, second.names])
    if not len(rows):
        return Paired(Estimate(None, None, 0, 0, reason=NO_ITEMS), None, None, NO_ITEMS)
    sums, other_sums = first.metrics[metric], second.metrics[metric]
    counted = Estimate(None, None, int(first.tokens[rows].sum()), len(rows))
    tables, sizes = (sums.table[rows], other_sums.table[other_rows]), first.tokens[rows]
    return paired_sums(*tables, sums.value, counted, seed, interval, sizes)


def compare_values(first: Estimate | None, second: Estimate | None) -> Paired | None:
    """Return the plain difference of two values whose sums are not kept by group."""
    if first is None or second is None or first.value is None or second.value is None:
        return None
    difference = Estimate(first.value - second.value, None, first.n_items, first.n_groups)
    return Paired(difference, None, None, NOT_BY_GROUP)


def tokens_differ(first: GroupedSums, second: GroupedSums) -> bool:
    """Return whether two systems split the same documents into different numbers of tokens."""
    rows = _common_rows([first.names, second.names])
    return not np.array_equal(first.tokens[rows[0]], second.tokens[rows[1]])


# Families of comparisons -------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Difference of two systems, or of one between two tasks, by one metric.

    P-values are adjusted over all pairs.
    """

    metric: str
    first: str
    second: str
    paired: Paired
    p_holm: float | None = None
    p_bh: float | None = None
    smallest: float | None = None
    """Smallest adjusted p-value (Holm) that was possible for this pair."""
    signatures: tuple[str, str] = ("", "")
    system: str = ""
    """The system that is compared between two tasks, which are then `first` and `second`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        paired, test = self.paired, self.paired.test
        return ({"system": self.system} if self.system else {}) | {
            "metric": self.metric,
            "first": self.first,
            "second": self.second,
            "difference": asdict(paired.difference),
            "p": test.p if test else None,
            "p_holm": self.p_holm,
            "p_bh": self.p_bh,
            "smallest_p_holm": self.smallest,
            "test": {"method": test.method, "exact": test.exact} if test else None,
            "effect": asdict(paired.effect) if paired.effect else None,
            "reason": paired.reason,
            "signatures": list(self.signatures),
        }

    def record(self) -> dict[str, Any]:
        """Return the main facts, one number per key."""
        facts, effect = self.to_dict(), self.paired.effect
        pair, p_values = ("system", "metric", "first", "second"), ("p", "p_holm", "p_bh")
        return (
            {name: facts[name] for name in pair if name in facts}
            | self.paired.difference.record("difference")
            | {name: facts[name] for name in p_values}
            | {name: getattr(effect, name, None) for name in ("cohen_d", "share_lower")}
        )

    @property
    def pair(self) -> str:
        """What is compared, in notes."""
        return f"{self.first} v {self.second}" + (f" ({self.system})" if self.system else "")

    @property
    def value(self) -> float | None:
        """The first system's value minus the second's, on their common items."""
        return self.paired.difference.value

    def is_significant(self, alpha: float) -> bool:
        """Return whether the adjusted p-value is at most `alpha`."""
        return self.p_holm is not None and self.p_holm <= alpha

    def is_decided(self, alpha: float) -> bool:
        """Return whether the pair is equal, or has a test that could have been significant."""
        possible = self.smallest is not None and self.smallest <= alpha
        return possible or self.paired.reason == IDENTICAL


class Comparisons(Tabular):
    """Comparisons with one family of tests per metric."""

    comparisons: tuple[Comparison, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per comparison."""
        return [comparison.record() for comparison in self.comparisons]

    @property
    def families(self) -> dict[str, int]:
        """Return the number of tests over which the p-values of each metric are adjusted."""
        families = by_metric(self.comparisons).items()
        return {metric: sum(c.paired.test is not None for c in own) for metric, own in families}


def by_metric(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """Return the family of comparisons of each metric."""
    families: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        families.setdefault(comparison.metric, []).append(comparison)
    return families


def adjusted(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """Yield the comparisons with p-values adjusted within each metric."""
    for family in by_metric(comparisons).values():
        tests = [comparison.paired.test for comparison in family]
        p_values = [test.p if test else None for test in tests]
        # Holm's adjustment is monotone: the smallest p-values give the smallest adjusted ones.
        smallest = holm([test.smallest if test else None for test in tests])
        rows = zip(family, holm(p_values), benjamini_hochberg(p_values), smallest, strict=True)
        for comparison, by_holm, by_bh, least in rows:
            yield replace(comparison, p_holm=by_holm, p_bh=by_bh, smallest=least)


def order_of(metric: str, family: Sequence[Comparison]) -> tuple[str, ...]:
    """Return the systems from best to worst by the mean of their paired differences, if any."""
    direction = better(metric)
    if direction is None:
        return ()
    gaps: dict[str, list[float]] = {}
    for comparison in family:
        if comparison.value is not None:
            gaps.setdefault(comparison.first, []).append(comparison.value)
            gaps.setdefault(comparison.second, []).append(-comparison.value)
    means = {label: sum(values) / len(values) for label, values in gaps.items()}
    return tuple(sorted(means, key=lambda name: means[name], reverse=direction == "higher"))


def letters_of(order: Sequence[str], family: Sequence[Comparison], alpha: float) -> dict[str, str]:
    """Return a compact letter display from Holm's p-values; the best system has an a.

    Empty if the metric has no direction, or if a pair has no test that could be significant, and
    its values are not equal on every item.
    """
    if not order or not all(c.is_decided(alpha) for c in family):
        return {}
    p_values = {frozenset((c.first, c.second)): c.p_holm for c in family}
    return letters(order, different_pairs(p_values, alpha))


@dataclass(frozen=True)
class ComparedSystem:
    """One system of one run, under a label that is unique among all compared systems."""

    store: Store
    system: str
    label: str
    results: Mapping[str, Result]
    """Results by metric."""
    withheld: Collection[str] = ()
    """Metrics without a value because their bounds are too wide."""


def protocol_of(
    member: ComparedSystem, metric: str, ignored: Collection[str] = ()
) -> dict[str, str]:
    """Return the choices behind a metric, without the conventions of its system."""
    without = {*member.store.systems()[member.system].get("conventions", {}), *ignored}
    protocol = member.results[metric].signature.protocol
    return {name: value for name, value in protocol.items() if name not in without}


KeyedPairs = Iterable[tuple[ComparedSystem, Key, Pair]]
"""Distributions of people and of a system, per system and item."""


# Matched numbers of draws ------------------------------------------------------------------


def _item_statistics(table: Sequence[tuple[Key, str, list[float]]]) -> ItemStatistics:
    values = np.array([row for _, _, row in table]).reshape(-1, len(MATCHED_STATISTICS))
    columns = {name: values[:, i : i + 1] for i, name in enumerate(MATCHED_STATISTICS)}
    return ItemStatistics([key for key, *_ in table], [group for _, group, _ in table], columns)


def match(
    members: Sequence[ComparedSystem], pairs_of: Callable[[], KeyedPairs], seed: int
) -> tuple[list[ComparedSystem], dict[str, ItemStatistics], list[str]]:
    """Reduce every system to the smallest number of draws that any of them has on an item.

    Draws are subsampled without replacement, and exact probabilities sampled, from one random
    stream per system and item. Items on which no system has draws are left out. `pairs_of` yields
    the distributions of all systems. Return the systems, their statistics by label, notes.
    """
    sizes = _smallest_sizes(members, pairs_of())
    rows: dict[str, list[tuple[Key, str, list[float]]]] = {m.label: [] for m in members}
    sampled: dict[str, None] = {}
    for member, key, pair in pairs_of():
        if key in sizes:
            if pair.model.n is None:
                sampled[member.label] = None
            model = drawn(pair.model, sizes[key], stream(seed, "matched", member.system, *key))
            row = _pair_statistics(replace(pair, model=model))
            rows[member.label].append((key, pair.group, row))
    statistics = {label: _item_statistics(table) for label, table in rows.items()}
    signed = [_signed(m, [sizes[key] for key, _, _ in rows[m.label]], seed) for m in members]
    return signed, statistics, _matching_notes(list(sizes.values()), list(sampled), seed)


def drawn(model: Categorical, n: int, rng: np.random.Generator) -> Categorical:
    """Return a sample of size n: without replacement from draws, or from exact probabilities.

    Unassigned mass is drawn as distinct words that nobody else gave.
    """
    probs, rest = np.array(model.probs), 0
    if model.n is not None:
        draws = np.rint(probs * model.n).astype(np.int64)
        counts = rng.multivariate_hypergeometric(draws, n, method="marginals").tolist()
    else:
        mass = np.append(probs, model.rest)
        *counts, rest = rng.multinomial(n, mass / mass.sum()).tolist()
    words = {w: k for w, k in zip(model.support, counts, strict=True) if k}
    return Categorical.from_counts(words | {f"\0unassigned {i}": 1 for i in range(rest)})


def _smallest_sizes(members: Sequence[ComparedSystem], pairs: KeyedPairs) -> dict[Key, int]:
    """Return the smallest number of draws of any system per item; refuse systems without pairs."""
    sizes: dict[Key, int] = {}
    most: dict[str, int] = {}
    for member, key, pair in pairs:
        if (n := pair.model.n) is not None:
            sizes[key] = min(n, sizes.get(key, n))
            most[member.label] = max(n, most.get(member.label, 0))
    if not sizes:
        listed = ", ".join(member.label for member in members)
        problem = f"needs a system with draws, and {listed} have exact probabilities"
        raise UsageError(f"--matched {problem}; leave it out.")
    if max(sizes.values()) <= 1:
        single = sorted(label for label, n in most.items() if n <= 1)
        problem = f"{', '.join(single)}: has one draw per item, and agreements need two"
        raise UsageError(f"--matched: {problem}; name the other systems with --system.")
    return sizes


def _pair_statistics(pair: Pair) -> list[float]:
    values = {name: registry.find("metrics", name)(pair) for name in MATCHED_PAIRWISE}
    agreement = Agreement.of(pair)
    values |= agreement.columns() if agreement else {}
    return [np.nan if values.get(name) is None else values[name] for name in MATCHED_STATISTICS]


def _signed(member: ComparedSystem, sizes: Sequence[int], seed: int) -> ComparedSystem:
    """Keep the results that can be matched, with signatures that say so."""
    n = f"{np.mean(sizes):g} matched" if sizes else "0 matched"
    results = {}
    for metric in (name for name in MATCHED_METRICS if name in member.results):
        signature = member.results[metric].signature
        protocol = {**signature.protocol, "matched": f"seed={seed}"}
        signature = replace(signature, n=n, protocol=protocol)
        results[metric] = replace(member.results[metric], signature=signature)
    return replace(member, results=results)


def _matching_notes(sizes: Sequence[int], sampled: Sequence[str], seed: int) -> list[str]:
    number = " to ".join(map(str, sorted({min(sizes), max(sizes)})))
    notes = notes_on("matched", number=number, seed=seed)
    return [*notes, *(notes_on("matched_exact", systems=", ".join(sampled)) if sampled else ())]
