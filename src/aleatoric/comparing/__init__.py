"""Saved runs to comparisons: every pair of systems, metric by metric, on the items both have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any

from aleatoric import levels, studies, token_pipeline
from aleatoric.comparing import matched as matching
from aleatoric.comparing.comparable import (
    Member,
    check_comparable,
    check_levels,
    without_clusters,
)
from aleatoric.comparing.family import Comparison, adjusted, by_metric, letters_of, order_of
from aleatoric.comparing.notes import Evidence, notes_of, value_notes
from aleatoric.comparing.statistics import ItemEvidence, ItemStatistics, read_statistics
from aleatoric.comparing.tokens import DocumentEvidence
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.inference.bounds import bounded_difference
from aleatoric.store import Store
from aleatoric.types import Result
from aleatoric.word_results import WITHHELD

__all__ = ["ALPHA", "DEFAULT_METRICS", "Compared", "Comparison", "compare", "labels_of"]

ALPHA = 0.05
DEFAULT_METRICS = {
    "word": ("overlap", "sq_distance", "log_loss", "agreement_M", "tvd", "tvd_syn", "tvd_sem"),
    "text": ("energy/*", "dmu_M/*", "w1_?/*"),
    "token": ("ece", "sce", "ace", "e_ece*", "sce_*", "ace_*"),
}
"""What is compared where no metric is named, the leading metrics first."""


@dataclass(frozen=True)
class Compared:
    """All comparisons of some systems: one family of tests per metric."""

    comparisons: tuple[Comparison, ...]
    values: Mapping[str, Mapping[str, float | None]]
    """Metric -> system -> its value on the items that all systems with this metric have."""
    n_items: Mapping[str, int]
    """Metric -> the number of those items (tokens, at the token level)."""
    order: Mapping[str, Sequence[str]]
    """Metric -> the systems, best first, by their paired differences; none if it ranks nothing."""
    letters: Mapping[str, Mapping[str, str]]
    """Metric -> system -> its letters; systems that share one do not differ significantly.

    Empty for a metric that ranks nothing, and where a pair has no test that could reach the level.
    """
    alpha: float
    notes: tuple[str, ...]
    matched: bool = False
    """Whether all systems were drawn down to the same number of draws per item."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        return {
            "comparisons": [one.as_dict() for one in self.comparisons],
            "values": self.values,
            "n_items": self.n_items,
            "order": {metric: list(order) for metric, order in self.order.items()},
            "letters": self.letters,
            "alpha": self.alpha,
            "families": self.families,
            "matched": self.matched,
            "notes": list(self.notes),
        }

    @property
    def families(self) -> dict[str, int]:
        """Metric -> the number of tests that its p-values are adjusted over."""
        return {
            metric: sum(one.paired.test is not None for one in family)
            for metric, family in by_metric(self.comparisons).items()
        }


def compare(
    stores: Sequence[Store],
    systems: Sequence[str] = (),
    metrics: Sequence[str] = (),
    alpha: float = ALPHA,
    seed: int = 0,
    interval: str = DEFAULT_METHOD,
    against: str | None = None,
    matched: bool = False,
) -> Compared:
    """Compare every two systems of one or more runs by every metric.

    `systems` are labels, all models where none is given; `metrics` are names or patterns;
    `interval` names the method of the intervals. With `against`, one of the systems, only its
    pairs with the others are compared: a smaller family of tests, without order and letters. With
    `matched`, all systems are first drawn down to the same number of draws per item.
    """
    check_method(interval)
    members = without_clusters(_members(stores, systems), metrics)
    check_comparable(members)
    notes: tuple[str, ...] = ()
    if matched:
        drawn = matching.match(members, seed)
        members, notes = list(drawn.members), drawn.notes
        evidence = _item_evidence(members, drawn.statistics, seed, interval)
    else:
        evidence = _evidence(members, seed, interval)
    names = _metrics(members, metrics)
    pairs = [p for p in combinations(members, 2) if against in (None, p[0].label, p[1].label)]
    family = tuple(adjusted([*_compare_all(pairs, names, evidence)]))
    if not family:
        listed = ", ".join(member.label for member in members)
        raise UsageError(
            f"{listed}: no two of these have answers; finish the runs with aleatoric resume."
        )
    common = {name: evidence.values(name, _having(name, members)) for name in names}
    values = {name: own for name, (own, _) in common.items()}
    n_items = {name: n for name, (_, n) in common.items()}
    order = {} if against else {m: order_of(m, own) for m, own in by_metric(family).items()}
    shown = {m: letters_of(order[m], own, alpha) for m, own in by_metric(family).items() if order}
    return Compared(
        family,
        values,
        n_items,
        order,
        shown,
        alpha,
        (*notes, *notes_of(members, family, evidence, alpha), *value_notes(order, values, n_items)),
        matched,
    )


def _members(stores: Sequence[Store], systems: Sequence[str]) -> list[Member]:
    """The asked-for systems of all runs under labels that no two share."""
    check_levels(stores)
    known = labels_of(stores)
    models = [label for label, (store, name) in known.items() if name in _models(store)]
    chosen = list(dict.fromkeys(systems)) or models
    for label in chosen:
        if label not in known:
            raise UsageError(f"there is no system {label!r}; there are: {', '.join(known)}.")
    if len(chosen) < 2:
        paths = ", ".join(str(store.path) for store in stores)
        raise UsageError(
            f"{paths}: has {len(chosen)} system to compare ({', '.join(chosen) or 'none'}); "
            "name another run or another --system."
        )
    places = {label: known[label] for label in chosen}
    of_store: dict[Path, list[str]] = {}
    for store, name in places.values():
        of_store.setdefault(store.path, []).append(name)
    found: dict[tuple[Path, str], dict[str, Result]] = {}
    for store in stores:
        for result in levels.results(store, systems=of_store.get(store.path, ())):
            if result.estimate.reason != WITHHELD:
                found.setdefault((store.path, result.system), {})[result.metric] = result
    return [
        Member(store, name, label, found.get((store.path, name), {}))
        for label, (store, name) in places.items()
    ]


def labels_of(stores: Sequence[Store]) -> dict[str, tuple[Store, str]]:
    """A name for every system: its own, with its run before it where several runs have it."""
    places = [(store, name) for store in stores for name in store.systems()]
    counts = Counter(name for _, name in places)
    return {
        name if counts[name] == 1 else f"{store.path}:{name}": (store, name)
        for store, name in places
    }


def _models(store: Store) -> list[str]:
    return studies.model_systems(store)


def _metrics(members: Sequence[Member], asked: Sequence[str]) -> list[str]:
    """The metrics that were asked for and that at least two systems have, as they were asked."""
    known = Counter(name for member in members for name in member.results)
    shared = [name for name, count in known.items() if count > 1]
    level = levels.level_of(members[0].store)
    patterns = asked or DEFAULT_METRICS.get(level, ("*",))
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in shared):
            raise UsageError(f"there is no metric {pattern!r}; there are: {', '.join(shared)}.")
    found = [name for pattern in patterns for name in shared if fnmatchcase(name, pattern)]
    if not found:
        labels = ", ".join(member.label for member in members)
        raise UsageError(f"no two of {labels} share a metric; name other systems.")
    return list(dict.fromkeys(found))


def _having(metric: str, members: Sequence[Member]) -> list[str]:
    return [member.label for member in members if metric in member.results]


def _evidence(members: Sequence[Member], seed: int, interval: str) -> Evidence:
    if levels.level_of(members[0].store) != "token":
        statistics = {m.label: read_statistics(m.store, m.system) for m in members}
        return _item_evidence(members, statistics, seed, interval)
    sums = {m.label: token_pipeline.grouped(m.store, m.system) for m in members}
    results = {m.label: {name: r.estimate for name, r in m.results.items()} for m in members}
    return DocumentEvidence(sums, results, seed, interval)


def _item_evidence(
    members: Sequence[Member], statistics: Mapping[str, ItemStatistics], seed: int, interval: str
) -> Evidence:
    choices = members[0].store.manifest.get("choices", {})
    return ItemEvidence(statistics, choices, seed, interval)


def _compare_all(
    pairs: Sequence[tuple[Member, Member]], metrics: Sequence[str], evidence: Evidence
) -> Iterator[Comparison]:
    """Every pair by every metric that both systems have."""
    for metric in metrics:
        for first, second in pairs:
            one, other = first.results.get(metric), second.results.get(metric)
            if one is None or other is None:
                continue
            found = evidence.compare(metric, first.label, second.label)
            found = found and replace(
                found, difference=bounded_difference(found.difference, metric)
            )
            if found is not None:
                signatures = str(one.signature), str(other.signature)
                yield Comparison(metric, first.label, second.label, found, signatures=signatures)
