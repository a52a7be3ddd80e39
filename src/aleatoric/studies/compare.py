"""Saved runs to comparisons: every pair of systems, metric by metric, on the items both have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.inference.estimate import bounded_difference
from aleatoric.levels import base
from aleatoric.levels.word import NextWords
from aleatoric.levels.word_results import WITHHELD
from aleatoric.levels.word_scoring import pair_of
from aleatoric.metrics.agreement import COLUMNS as AGREEMENTS
from aleatoric.metrics.agreement import Agreement
from aleatoric.rng import stream
from aleatoric.runs import Store
from aleatoric.studies.compare_notes import Evidence, notes_of, value_notes
from aleatoric.studies.compare_statistics import (
    Comparison,
    DocumentEvidence,
    ItemEvidence,
    ItemStatistics,
    Key,
    Member,
    adjusted,
    by_metric,
    check_comparable,
    check_levels,
    letters_of,
    order_of,
    read_statistics,
    without_clusters,
)
from aleatoric.types import Categorical, Choices, Pair, Result

PAIRWISE = ("tvd", "tvd_debiased", "js")
STATISTICS = (*PAIRWISE, *AGREEMENTS, "sq_distance")
METRICS = ("overlap", *STATISTICS)
"""What can be compared between matched systems."""


@dataclass(frozen=True)
class Matched:
    """Systems with equal numbers of draws: their statistics, and what was done to get them."""

    members: tuple[Member, ...]
    statistics: dict[str, ItemStatistics]
    notes: tuple[str, ...]


def match(members: Sequence[Member], seed: int) -> Matched:
    """Draw every system down to the smallest number of draws that any of them has on an item.

    Draws are taken without replacement, from a random stream per system and item. A system of
    exact probabilities is sampled from them. Items on which no system has draws are left out.
    """
    _check(members)
    sizes = _smallest(members)
    if not sizes:
        listed = ", ".join(member.label for member in members)
        raise UsageError(
            f"--matched needs a system with draws, and {listed} have exact probabilities; leave "
            "it out."
        )
    _check_sizes(members, sizes)
    rows: dict[str, list[tuple[Key, str, list[float]]]] = {m.label: [] for m in members}
    sampled: dict[str, None] = {}
    for member, key, pair in _pairs(members):
        if key in sizes:
            if pair.model.n is None:
                sampled[member.label] = None
            rng = stream(seed, "matched", member.system, *key)
            model = drawn(pair.model, sizes[key], rng)
            rows[member.label].append((key, pair.group, _statistics(replace(pair, model=model))))
    statistics = {label: _table(own) for label, own in rows.items()}
    notes = _notes(sizes, list(sampled), seed)
    return Matched(tuple(_signed(m, sizes, statistics, seed) for m in members), statistics, notes)


def drawn(model: Categorical, n: int, rng: np.random.Generator) -> Categorical:
    """A sample of n: of the draws without replacement, or of exact probabilities.

    Unassigned mass is drawn as words that nobody else gave, each of them once.

    >>> drawn(Categorical.from_counts({"a": 2, "b": 1}), 3, np.random.default_rng(0)).as_dict()
    {'a': 0.6666666666666666, 'b': 0.3333333333333333}
    >>> drawn(Categorical(("a",), (0.0,), rest=1.0), 2, np.random.default_rng(0)).probs
    (0.5, 0.5)
    """
    probs = np.array(model.probs)
    if model.n is not None:
        counts = rng.multivariate_hypergeometric(
            np.rint(probs * model.n).astype(np.int64), n, method="marginals"
        )
        rest = 0
    else:
        mass = np.append(probs, model.rest)
        *counts, rest = rng.multinomial(n, mass / mass.sum()).tolist()
    words = {w: int(k) for w, k in zip(model.support, counts, strict=True) if k}
    return Categorical.from_counts(words | {f"\0unassigned {i}": 1 for i in range(rest)})


def _check(members: Sequence[Member]) -> None:
    for member in members:
        level = base.level_of(member.store)
        if not isinstance(level, NextWords):
            raise UsageError(
                f"{member.store.path}: is a run of the {level.name} level, and --matched is for "
                "words; leave it out."
            )
        if member.system not in level.model_systems(member.store):
            raise UsageError(
                f"{member.label} is no model and has no draws to match; leave out --matched, or "
                "name models with --system."
            )


def _check_sizes(members: Sequence[Member], sizes: Mapping[Key, int]) -> None:
    """Refuse a system of single draws: two draws of one system would never meet."""
    if max(sizes.values()) > 1:
        return
    single = {m.label for m, _, pair in _pairs(members) if pair.model.n is not None}
    single -= {m.label for m, _, pair in _pairs(members) if (pair.model.n or 0) > 1}
    raise UsageError(
        f"--matched: {', '.join(sorted(single))}: has one draw per item, and agreements need two; "
        "name the other systems with --system."
    )


def _pairs(members: Sequence[Member]) -> Iterator[tuple[Member, Key, Pair]]:
    """People and every system on every item; one walk per run."""
    for store in dict.fromkeys(member.store for member in members):
        choices = Choices(**store.manifest["choices"])
        own = [member for member in members if member.store is store]
        for _, item, systems in store.walk():
            for member in own:
                rows = systems.get(member.system, [])
                for place, pair in enumerate(pair_of(item, rows, choices) if rows else ()):
                    yield member, (item.id, place), pair


def _smallest(members: Sequence[Member]) -> dict[Key, int]:
    """The smallest number of draws that any system has, per item."""
    sizes: dict[Key, int] = {}
    for _, key, pair in _pairs(members):
        if pair.model.n is not None:
            sizes[key] = min(pair.model.n, sizes.get(key, pair.model.n))
    return sizes


def _statistics(pair: Pair) -> list[float]:
    values: dict[str, float | None] = {}
    values |= {name: registry.find("metrics", name)(pair) for name in PAIRWISE}
    found = Agreement.of(pair)
    values |= found.columns() if found else {}
    known = (values.get(name) for name in STATISTICS)
    return [np.nan if value is None else value for value in known]


def _table(rows: Sequence[tuple[Key, str, list[float]]]) -> ItemStatistics:
    values = np.array([own for _, _, own in rows]).reshape(-1, len(STATISTICS))
    columns = {name: values[:, i : i + 1] for i, name in enumerate(STATISTICS)}
    return ItemStatistics([key for key, _, _ in rows], [group for _, group, _ in rows], columns)


def _signed(
    member: Member, sizes: dict[Key, int], statistics: dict[str, ItemStatistics], seed: int
) -> Member:
    """A system with the results that can be matched, whose signatures say that they are."""
    keys = statistics[member.label].keys
    n = f"{np.mean([sizes[key] for key in keys]):g} matched" if keys else "0 matched"
    results = {}
    for metric in METRICS:
        if metric in member.results:
            old = member.results[metric]
            protocol = {**old.signature.protocol, "matched": f"seed={seed}"}
            signature = replace(old.signature, n=n, protocol=protocol)
            results[metric] = replace(old, signature=signature)
    return replace(member, results=results)


def _notes(sizes: dict[Key, int], sampled: Sequence[str], seed: int) -> tuple[str, ...]:
    low, high = min(sizes.values()), max(sizes.values())
    number = f"{low}" if low == high else f"{low} to {high}"
    drawn_down = (
        f"matched: every system has the same number of draws per item ({number}), taken without "
        f"replacement with seed {seed}"
    )
    if not sampled:
        return (drawn_down,)
    return (drawn_down, f"matched: {', '.join(sampled)}: draws are samples of exact probabilities")


__all__ = ["ALPHA", "Compared", "Comparison", "compare", "labels_of"]

ALPHA = 0.05


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
        drawn = match(members, seed)
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
        for result in base.results(store, systems=of_store.get(store.path, ())):
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
    return base.level_of(store).model_systems(store)


def _metrics(members: Sequence[Member], asked: Sequence[str]) -> list[str]:
    """The metrics that were asked for and that at least two systems have, as they were asked."""
    known = Counter(name for member in members for name in member.results)
    shared = [name for name, count in known.items() if count > 1]
    patterns = asked or base.level_of(members[0].store).compared
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
    level = base.level_of(members[0].store)
    found = {m.label: level.group_sums(m.store, m.system) for m in members}
    sums = {label: own for label, own in found.items() if own is not None}
    if len(sums) < len(members):
        statistics = {m.label: read_statistics(m.store, m.system) for m in members}
        return _item_evidence(members, statistics, seed, interval)
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
