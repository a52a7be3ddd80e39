"""What a reader of compared systems must know."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference.estimate import (
    CUT_MARK,
    Reduction,
    bounded,
    estimates,
    is_cut,
    with_cut_note,
)
from aleatoric.inference.paired import Paired
from aleatoric.levels.base import level_of
from aleatoric.levels.word import NextWords
from aleatoric.levels.word_results import WIDE, has_persons
from aleatoric.levels.word_scoring import CONTROLS, ORACLE
from aleatoric.metrics.agreement import COLUMNS, Overlap
from aleatoric.metrics.reduction import FiniteMean, Mean
from aleatoric.runs import Store
from aleatoric.studies.compare_statistics import (
    Comparison,
    DocumentEvidence,
    ItemStatistics,
    Member,
    Values,
    better,
    by_metric,
    read_statistics,
    tokens_differ,
)
from aleatoric.types import Estimate, Floats, Result, Table

_ABOUT_EQUAL = 1.1
GROW_WITH_FEW_DRAWS = ("tvd", "tvd_syn", "tvd_sem", "js")
BRACKET = ("tvd_debiased", "tvd")
PROPER = ("sq_distance", "log_loss")


class Evidence(Protocol):
    """What systems are compared by: statistics of items, or sums of documents."""

    def compare(self, metric: str, first: str, second: str) -> Paired | None:
        """Two systems by one metric on what they share; `None` if the metric is not theirs."""
        ...

    def values(self, metric: str, labels: Sequence[str]) -> tuple[Values, int]:
        """The value of every system on what all share, and the number of items or tokens there."""
        ...


def notes_of(
    members: Sequence[Member], comparisons: Sequence[Comparison], evidence: Evidence, alpha: float
) -> Iterator[str]:
    """All notes on the comparisons."""
    families = by_metric(comparisons)
    if "overlap" in families:
        overlaps = {m.label: m.results["overlap"] for m in members if "overlap" in m.results}
        yield from dependent_draws(overlaps)
    yield from _dependent_texts(members, families)
    yield from _uneven_draws(members, families)
    yield from _uneven_tokens(evidence)
    yield from _persons(members)
    yield from _reasons(comparisons)
    yield from _impossible(families, alpha)
    yield from _contradictions(families, alpha)
    yield from _brackets(members, families, evidence)


def dependent_draws(overlaps: Mapping[str, Result]) -> Iterator[str]:
    """A warning about systems whose overlap no independent draws have."""
    names = [label for label, result in overlaps.items() if is_dependent(result)]
    if names:
        yield (
            f"{', '.join(names)}: the overlap is significantly above 1, which independent draws of "
            "no model reach. These draws depend on the people (copied or memorised answers) or on "
            "each other (a list of different words): do not rank them."
        )


def _dependent_texts(
    members: Sequence[Member], families: Mapping[str, Sequence[Comparison]]
) -> Iterator[str]:
    """A warning about generators whose texts are closer to people's than independent ones are."""
    for metric in families:
        if metric.startswith("energy/"):
            ends = {
                m.label: m.results[metric].estimate.interval for m in members if metric in m.results
            }
            names = [label for label, own in ends.items() if own is not None and own.high < 0]
            if names:
                yield (
                    f"{metric}: {', '.join(names)}: the energy distance is significantly below 0, "
                    "which independent texts do not reach: the texts may be copies of people's. Do "
                    "not rank them"
                )


def is_dependent(result: Result) -> bool:
    """Whether an overlap is significantly above 1."""
    interval = result.estimate.interval
    return interval is not None and interval.low > 1


def value_notes(
    orders: Mapping[str, Sequence[str]],
    values: Mapping[str, Mapping[str, float | None]],
    n_items: Mapping[str, int],
) -> Iterator[str]:
    """Where no item is common to all systems, and where values and differences disagree in order.

    The order of the systems is that of their paired differences.
    """
    if lacking := [metric for metric, n in n_items.items() if n == 0]:
        yield (
            f"{', '.join(lacking)}: no item is common to all systems, so that no value is shown; "
            "name systems that share items with --system"
        )
    found = [
        metric
        for metric, order in orders.items()
        if _is_out_of_order([values[metric][label] for label in order], better(metric))
    ]
    if found:
        yield (
            f"{', '.join(found)}: systems are ordered by their paired differences, each on the "
            "items of its pair; their values on the items common to all are in another order"
        )


def _is_out_of_order(values: Sequence[float | None], direction: str | None) -> bool:
    known = [value for value in values if value is not None]
    return known != sorted(known, reverse=direction == "higher")


def _reasons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Why pairs have no test: one line per pair and reason, whatever the number of metrics."""
    concerned: dict[tuple[str, str, str], list[str]] = {}
    for one in comparisons:
        if one.paired.reason:
            key = (one.first, one.second, one.paired.reason)
            concerned.setdefault(key, []).append(one.metric)
    for (first, second, reason), metrics in concerned.items():
        yield f"{', '.join(metrics)}, {first} v {second}: {reason}"


def _impossible(families: Mapping[str, Sequence[Comparison]], alpha: float) -> Iterator[str]:
    """Where no difference could have been found, whatever the data."""
    said: dict[str, list[str]] = {}
    for metric, family in families.items():
        tested = [one for one in family if one.paired.test is not None]
        hopeless = [one for one in tested if one.is_impossible(alpha)]
        if hopeless:
            whom = "" if len(hopeless) == len(tested) else f"{_pairs(hopeless)}: "
            said.setdefault(whom + _impossibility(hopeless, len(tested), alpha), []).append(metric)
    for text, metrics in said.items():
        yield f"{', '.join(metrics)}: {text}"


def _impossibility(hopeless: Sequence[Comparison], n_tests: int, alpha: float) -> str:
    smallest = min(one.smallest for one in hopeless if one.smallest is not None)
    n_groups = max(one.paired.difference.n_groups for one in hopeless)
    tests = f" and {n_tests} tests" if n_tests > 1 else ""
    return (
        f"with {n_groups} groups{tests} no adjusted p-value below {smallest:.3g} is possible: "
        f"this comparison cannot find a difference at {alpha:g}"
    )


def _contradictions(families: Mapping[str, Sequence[Comparison]], alpha: float) -> Iterator[str]:
    """Pairs of systems that two proper metrics order differently."""
    square, loss = (families.get(metric, ()) for metric in PROPER)
    others = {(one.first, one.second): one for one in loss}
    for one in square:
        other = others.get((one.first, one.second))
        if other is not None and (one.value or 0.0) * (other.value or 0.0) < 0:
            yield (
                f"{PROPER[0]} and {PROPER[1]} order {one.first} and {one.second} differently: "
                f"{_favours(one, alpha)}, {_favours(other, alpha)}"
            )


def _favours(one: Comparison, alpha: float) -> str:
    closer = one.first if (one.value or 0.0) < 0 else one.second
    if one.p_holm is None:
        tested = "not tested"
    else:
        tested = "significant" if one.is_significant(alpha) else "not significant"
    return f"{closer} is closer to people by {one.metric} ({tested})"


def _brackets(
    members: Sequence[Member], families: Mapping[str, Sequence[Comparison]], evidence: Evidence
) -> Iterator[str]:
    """Pairs whose order by TVD is not identified."""
    has_both = {m.label for m in members if all(name in m.results for name in BRACKET)}
    pairs = [one for one in families.get("tvd", ()) if {one.first, one.second} <= has_both]
    found = [one for one in pairs if _overlap(one.first, one.second, evidence)]
    if found:
        yield (
            f"tvd: the brackets [tvd_debiased, tvd] of {_pairs(found)} overlap: the order of these "
            "systems by TVD is not identified"
        )


def _overlap(first: str, second: str, evidence: Evidence) -> bool:
    """Whether the ranges of two systems' true TVD on their common items have a point in common."""
    ends = [evidence.values(metric, (first, second))[0] for metric in BRACKET]
    ranges = []
    for label in (first, second):
        known = [value for own in ends if (value := own[label]) is not None]
        if len(known) < len(BRACKET):
            return False
        ranges.append((min(known), max(known)))
    (low, high), (other_low, other_high) = ranges
    return low <= other_high and other_low <= high


def _pairs(comparisons: Sequence[Comparison]) -> str:
    return ", ".join(f"{one.first} v {one.second}" for one in comparisons)


def _uneven_draws(members: Sequence[Member], metrics: Mapping[str, object]) -> Iterator[str]:
    """Distances that grow as draws become fewer must not be compared at different numbers."""
    concerned = [name for name in GROW_WITH_FEW_DRAWS if name in metrics]
    for metric in concerned[:1]:
        draws = {m.label: m.results[metric].signature.n for m in members if metric in m.results}
        if _is_uneven(list(draws.values())):
            listed = ", ".join(f"{label} {n}" for label, n in draws.items())
            yield (
                f"the systems have different numbers of draws per context ({listed}), and fewer "
                f"draws alone raise {', '.join(concerned)}: rely on overlap and sq_distance, or "
                "use --matched"
            )


def _persons(members: Sequence[Member]) -> Iterator[str]:
    """Paired intervals and tests resample groups only."""
    if any(has_persons(member.store) for member in members):
        yield (
            "answers have persons, but the intervals and tests of differences are over groups "
            "only: they are about these people, not about other people"
        )


def _uneven_tokens(evidence: Evidence) -> Iterator[str]:
    """Tokens of different vocabularies are not the same task."""
    if not isinstance(evidence, DocumentEvidence):
        return
    for (first, one), (second, other) in combinations(evidence.systems.items(), 2):
        if tokens_differ(one, other):
            yield (
                f"{first} and {second} cut the documents into different tokens: their errors are "
                "of different tasks, and swapping them is a test of both together"
            )


def _is_uneven(draws: Sequence[str]) -> bool:
    """Whether some have more than a few draws more; exact probabilities have infinitely many."""
    numbers = [math.inf if n == "exact" else _leading_number(n) for n in draws]
    return min(numbers) < max(numbers) and min(numbers) * _ABOUT_EQUAL < max(numbers)


def _leading_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


QUARTILES = ("lowest", "second", "third", "highest")
_TITLE = "By quartiles of human agreement"


def by_agreement(store: Store, systems: Collection[str] | None = None) -> Table:
    """One row per system and quartile of human agreement: H, M, C, overlap, log loss.

    `systems` are those of the rows, by default all models. The cut points are those of all
    contexts of the run, the same for every system.
    """
    if not isinstance(level_of(store), NextWords):
        raise UsageError(f"{store.path}: only word-level runs have levels of human agreement.")
    models = [name for name in store.systems() if name not in CONTROLS]
    for name in systems or ():
        if name not in models:
            raise UsageError(f"there is no system {name!r}; there are: {', '.join(models)}.")
    oracle = read_statistics(store, ORACLE)
    edges = _edges(oracle)
    rows = [
        (name, _level(quartile, edges), *_cells(found))
        for name in models
        if systems is None or name in systems
        for quartile, found in enumerate(_estimates(store, name, oracle, edges))
        if found["overlap"].n_items
    ]
    columns = ("system", "human agreement", "H", "M", "C", "overlap ↑", "log loss ↓", "halves")
    notes = (
        "Contexts are sorted by the agreement of one random half of their people and measured with "
        "the other half, then the other way round: a perfect model has overlap 1 in every row. "
        "The cut points are the quartiles of all halves of the run; equal values stay together, so "
        "that rows may differ in size. halves: how many halves of people a row stands on, two per "
        "context.",
    )
    return with_cut_note(Table(_TITLE, columns, tuple(rows), notes))


def _edges(oracle: ItemStatistics) -> Floats:
    """The quartiles of how often the people of a half agree, over all halves of the run."""
    halves = np.concatenate([oracle.values[f"agreement_{side}"][:, 0] for side in "HM"])
    known = halves[np.isfinite(halves)]
    return np.quantile(known, [0.25, 0.5, 0.75]) if len(known) else np.zeros(3)


def _level(quartile: int, edges: Floats) -> str:
    """The name of a quartile with its upper end; the last has none."""
    return QUARTILES[quartile] + (f", to {edges[quartile]:.3f}" if quartile < len(edges) else "")


def _cells(found: dict[str, Estimate]) -> Iterator[str]:
    for name in COLUMNS:
        yield _shown(found[name])
    yield _shown(found["overlap"], found["overlap"].interval is not None)
    yield _shown(found["log_loss"])
    yield str(found["overlap"].n_items)


def _shown(estimate: Estimate, with_ends: bool = False) -> str:
    if estimate.value is None:
        return "–"
    ends = estimate.interval
    mark = CUT_MARK if is_cut(ends) else ""
    beside = f" [{ends.low:.3f}, {ends.high:.3f}]{mark}" if with_ends and ends else ""
    return f"{estimate.value:.3f}{beside}"


def _estimates(
    store: Store, system: str, oracle: ItemStatistics, edges: Floats
) -> Iterator[dict[str, Estimate]]:
    """The metrics of a system in each quartile; both halves of an item's people are rows."""
    own = read_statistics(store, system)
    if not own.keys or not _is_known(own):
        return
    chunk, groups, sorted_by = _halves(own, oracle)
    reductions: dict[str, Reduction] = {name: Mean(name) for name in COLUMNS}
    reductions |= {"overlap": Overlap(), "log_loss": FiniteMean("log_loss", "agreement_C")}
    place = np.where(np.isfinite(sorted_by), np.searchsorted(edges, sorted_by, side="left"), -1)
    for quartile in range(4):
        rows = np.flatnonzero(place == quartile)
        part = {name: values[rows, None] for name, values in chunk.items()}
        page = ([groups[i] for i in rows.tolist()], part)
        found = estimates([page] if len(rows) else [], reductions, store.manifest["seed"])
        yield {name: bounded(one, name) for name, one in found.items()}


def _is_known(own: ItemStatistics) -> bool:
    """Whether M of a system is known well enough to be shown."""
    low, high = (own.values[f"agreement_M_{end}"][:, 0] for end in ("low", "high"))
    widths = (high - low)[np.isfinite(high - low)]
    return not len(widths) or float(widths.mean()) <= WIDE


def _halves(
    own: ItemStatistics, oracle: ItemStatistics
) -> tuple[dict[str, Floats], list[str], Floats]:
    """Statistics against each half of the people, and the agreement of the other half."""
    place = {key: i for i, (key, _) in enumerate(oracle.keys)}
    rows = np.array([place[key] for key, _ in own.keys], dtype=np.int64)
    target, player = (oracle.values[f"agreement_{side}"][rows, 0] for side in "HM")
    n = own.values["n_human"][:, 0]
    first = n // 2
    columns = {}
    for name in ("agreement_C", "log_loss"):
        all_, half = own.values[name][:, 0], own.values[f"{name}_half"][:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[name] = np.concatenate([half, (n * all_ - first * half) / (n - first)])
    columns["agreement_H"] = np.concatenate([target, player])
    columns["agreement_M"] = np.tile(own.values["agreement_M"][:, 0], 2)
    return columns, [*own.groups, *own.groups], np.concatenate([player, target])
