"""Comparing the systems of saved runs: every pair by every metric, on their common items."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

from aleatoric.data.selection import PART_ONLY
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.inference.estimate import at_level, bounded_difference
from aleatoric.levels.base import level_of, unfinished_notes
from aleatoric.levels.base import results as results_of
from aleatoric.levels.word_results import has_persons, is_withheld, remedy
from aleatoric.result_types import Result
from aleatoric.runs.run import Store, labels_of
from aleatoric.runs.session import saved_notes
from aleatoric.studies import compare_statistics as comparing
from aleatoric.studies import notes_on
from aleatoric.studies.compare_statistics import (
    ComparedSystem,
    Comparison,
    Comparisons,
    DocumentEvidence,
    Evidence,
    ItemEvidence,
    KeyedPairs,
)

__all__ = ["ALPHA", "Compared", "Comparison", "compare"]

_ABOUT_EQUAL = 1.1
GROW_WITH_FEW_DRAWS = ("tvd", "tvd_syn", "tvd_sem", "js")
BRACKETS = {"tvd": ("tvd_debiased", "tvd"), "log_loss": ("log_loss_low", "log_loss_high")}
"""Metric -> the ends of the range of its true value."""
_SPOKEN = {"tvd": "TVD", "log_loss": "log loss"}
PROPER = ("sq_distance", "log_loss")
MOST_NAMED = 4
"""The number of systems or pairs that a note names."""
Members = Sequence[ComparedSystem]
Families = Mapping[str, Sequence[Comparison]]
"""Metric -> comparisons whose p-values are adjusted together."""
ALPHA = 0.05
_DEPENDENCE = 0.001
"""The level at which draws with an overlap above 1 are called dependent."""


@dataclass(frozen=True, repr=False)
class Compared(Comparisons):
    """All comparisons of some systems, with one family of tests per metric."""

    comparisons: tuple[Comparison, ...]
    values: Mapping[str, Mapping[str, float | None]]
    """Metric -> system -> value on the items common to all systems with this metric."""
    n_items: Mapping[str, int]
    """Metric -> number of those items (tokens at the token level)."""
    order: Mapping[str, Sequence[str]]
    """Metric -> systems, best first, by their paired differences; empty without a direction."""
    letters: Mapping[str, Mapping[str, str]]
    """Metric -> system -> letters; systems that share one do not differ significantly."""
    alpha: float
    notes: tuple[str, ...]
    matched: bool = False
    """Whether all systems were reduced to the same number of draws per item."""
    dependent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Overlap, or energy by a probe -> systems whose answers seem to depend on the people's."""
    secondary: tuple[str, ...] = ()
    """Metrics that were not asked for by name and do not lead: no sentence ranks systems by them.
    """

    def not_ranked(self, metric: str) -> tuple[str, ...]:
        """Return the systems that a metric does not rank; an overlap above 1 concerns all words."""
        return self.dependent.get(metric if metric.startswith("energy/") else "overlap", ())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        return {
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "values": self.values,
            "n_items": self.n_items,
            "order": {metric: list(order) for metric, order in self.order.items()},
            "letters": self.letters,
            "alpha": self.alpha,
            "families": self.families,
            "matched": self.matched,
            "notes": list(self.notes),
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
    only_leading: bool = False,
) -> Compared:
    """Compare every two systems of one or more runs by every metric.

    `systems` are labels, by default of all models; `metrics` are names or patterns; `interval` is
    the method of the intervals. With `against`, only the pairs of that system are compared: a
    smaller family of tests, without order and letters. With `matched`, all systems are first
    reduced to the same number of draws per item. `only_leading` leaves out metrics that are neither
    named nor among the leading ones of the level.
    """
    check_method(interval)
    members = _without_clusters(_members(stores, systems), metrics)
    _check_comparable(members)
    members, evidence, notes = _evidence(members, matched, seed, interval)
    names = _metrics(members, metrics, only_leading)
    comparisons = tuple(comparing.adjusted(_compare_all(members, against, names, evidence)))
    having = {name: [m.label for m in members if name in m.results] for name in names}
    common = {name: evidence.values(name, labels) for name, labels in having.items()}
    values = {name: by_system for name, (by_system, _) in common.items()}
    n_items = {name: n for name, (_, n) in common.items()}
    families = comparing.by_metric(comparisons)
    order = {} if against else {m: comparing.order_of(m, family) for m, family in families.items()}
    letters = {
        m: comparing.letters_of(order[m], family, alpha) for m, family in families.items() if order
    }
    used = {member.store.path for member in members}
    unused = [store.path for store in stores if store.path not in used]
    # All compared runs have the same note about a part of their corpus.
    saved = (note for member in members for note in saved_notes(member.store))
    leading = tuple(metrics) or level_of(members[0].store).compared_first
    secondary = tuple(name for name in names if not comparing.fits(name, leading))
    notes += [
        *_withheld_notes(members, leading, is_ranked=len(secondary) < len(names)),
        *dict.fromkeys(note for note in saved if note.startswith(PART_ONLY)),
        *(note for store in stores for note in unfinished_notes(store)),
        *(f"{path}: no system of this run is compared" for path in unused),
        *notes_of(members, comparisons, evidence, alpha),
        *_value_notes(order, values, n_items),
    ]
    facts = alpha, tuple(notes), matched, _dependent(members), secondary
    return Compared(comparisons, values, n_items, order, letters, *facts)


def _members(stores: Sequence[Store], systems: Sequence[str]) -> list[ComparedSystem]:
    """Return the chosen systems of all runs, by default all models, with their results."""
    _check_levels(stores)
    named = labels_of(stores)
    models = {store.path: level_of(store).model_systems(store) for store in stores}
    chosen = list(dict.fromkeys(systems)) or [
        label for label, (store, name) in named.items() if name in models[store.path]
    ]
    for label in chosen:
        if label not in named:
            raise UsageError(f"there is no system {label!r}; there are: {', '.join(named)}.")
    empty = [path for path, names in models.items() if not names]
    if empty and not systems and len(stores) > 1:
        raise UsageError(
            f"{empty[0]}: has no model to compare; leave it out, or name systems with --system."
        )
    if len(chosen) < 2:
        paths = ", ".join(str(store.path) for store in stores)
        raise UsageError(
            f"{paths}: has {len(chosen)} system to compare ({', '.join(chosen) or 'none'}); "
            "name another run or another --system."
        )
    saved: dict[tuple[Path, str], dict[str, Result]] = {}
    withheld: dict[tuple[Path, str], list[str]] = {}
    for store in stores:
        names = [name for owner, name in map(named.__getitem__, chosen) if owner.path == store.path]
        for result in results_of(store, systems=names):
            key = store.path, result.system
            if is_withheld(result.estimate):
                withheld.setdefault(key, []).append(result.metric)
            else:
                saved.setdefault(key, {})[result.metric] = result
    keys = {label: (named[label][0].path, named[label][1]) for label in chosen}
    return [
        ComparedSystem(*named[label], label, saved.get(key, {}), withheld.get(key, ()))
        for label, key in keys.items()
    ]


def _metrics(members: Members, metrics: Sequence[str], only_leading: bool) -> list[str]:
    """Return the metrics that match a pattern and that at least two systems have."""
    level = level_of(members[0].store)
    counts = Counter(name for member in members for name in member.results)
    shared = [name for name, count in counts.items() if count > 1]
    for pattern in metrics:
        if not comparing.matching(shared, (pattern,)):
            _check_reported(members, (pattern,))
    comparing.check_known(shared, metrics)
    first = comparing.matching(shared, level.compared_first) if only_leading else ()
    chosen = (
        comparing.matching(shared, metrics) or first or comparing.matching(shared, level.compared)
    )
    if not chosen:
        _check_reported(members, level.compared)
        labels = ", ".join(member.label for member in members)
        raise UsageError(f"no two of {labels} share a metric; name other systems.")
    return list(chosen)


def _check_reported(members: Members, patterns: Sequence[str]) -> None:
    """Refuse metrics that systems lack because their bounds are too wide."""
    if lacking := _withheld(members, patterns):
        raise UsageError(f"{'; '.join(lacking)}, or name another --metric.")


def _withheld(members: Members, patterns: Sequence[str]) -> list[str]:
    """Say which metrics of which systems have too wide bounds, and what helps."""
    by_metrics: dict[tuple[str, ...], list[ComparedSystem]] = {}
    for member in members:
        if lacking := comparing.matching(member.withheld, patterns):
            by_metrics.setdefault(lacking, []).append(member)
    return [
        f"{_some(names, len(names))} of {_some([m.label for m in lacking])} "
        f"{'is' if len(names) == 1 else 'are'} not reported, because the bounds are too wide; "
        f"use {remedy(lacking[0].store, names)}"
        for names, lacking in by_metrics.items()
    ]


def _some(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Name the first of many in a list, and say how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _evidence(
    members: list[ComparedSystem], matched: bool, seed: int, interval: str
) -> tuple[list[ComparedSystem], Evidence, list[str]]:
    """Return the systems, the statistics that they are compared by, and notes on matching."""
    level, choices = level_of(members[0].store), members[0].store.manifest.get("choices", {})
    if matched:
        check_matchable(members)
        members, statistics, notes = comparing.match(members, lambda: _pairs(members), seed)
        return members, ItemEvidence(statistics, choices, seed, interval), notes
    by_label = {m.label: level.group_sums(m.store, m.system) for m in members}
    sums = {label: grouped for label, grouped in by_label.items() if grouped is not None}
    if len(sums) < len(members):
        statistics = {m.label: comparing.read_statistics(m.store, m.system) for m in members}
        return members, ItemEvidence(statistics, choices, seed, interval), []
    results = {m.label: {name: r.estimate for name, r in m.results.items()} for m in members}
    return members, DocumentEvidence(sums, results, seed, interval), []


def check_matchable(members: Members) -> None:
    """Refuse systems without draws of words."""
    for member in members:
        level = level_of(member.store)
        if level.pairs(member.store, ()) is None:
            raise UsageError(
                f"{member.store.path}: is a run of the {level.name} level, and --matched is for "
                "words; leave it out."
            )
        if member.system not in level.model_systems(member.store):
            raise UsageError(
                f"{member.label} is no model and has no draws to match; leave out --matched, or "
                "name models with --system."
            )


def _pairs(members: Members) -> KeyedPairs:
    """Yield people and every system on every item, reading each run once."""
    for store in dict.fromkeys(member.store for member in members):
        of_store = {member.system: member for member in members if member.store is store}
        for system, key, pair in level_of(store).pairs(store, of_store) or ():
            yield of_store[system], key, pair


def _compare_all(
    members: Members, against: str | None, metrics: Sequence[str], evidence: Evidence
) -> list[Comparison]:
    comparisons = []
    pairs = [p for p in combinations(members, 2) if against in (None, p[0].label, p[1].label)]
    for metric, (first, second) in product(metrics, pairs):
        if metric not in first.results or metric not in second.results:
            continue
        paired = evidence.compare(metric, first.label, second.label)
        if paired is not None:
            paired = replace(paired, difference=bounded_difference(paired.difference, metric))
            left, right = (str(side.results[metric].signature) for side in (first, second))
            labels = first.label, second.label
            comparisons.append(Comparison(metric, *labels, paired, signatures=(left, right)))
    if not comparisons:
        _check_reported(members, metrics)
        listed = ", ".join(member.label for member in members)
        raise UsageError(
            f"{listed}: no two of these have answers; finish the runs with aleatoric resume."
        )
    return comparisons


def _check_levels(stores: Sequence[Store]) -> None:
    names = [level_of(store).name for store in stores]
    for store, name in zip(stores, names, strict=True):
        _check_equal(stores[0], store, {"level": names[0]}, {"level": name})


def _check_comparable(members: Members) -> None:
    """Refuse systems whose signatures differ in anything but the system itself."""
    for first, second in combinations(members, 2):
        for metric in first.results.keys() & second.results.keys():
            left, right = (_fields(member, metric) for member in (first, second))
            if _corpus_of(first, metric) == _corpus_of(second, metric):
                right["corpus"] = left["corpus"]
            _check_equal(first.store, second.store, left, right)


def _without_clusters(members: Members, metrics: Sequence[str]) -> list[ComparedSystem]:
    """Remove TVD_sem from systems of several runs: each run has its own clusters."""
    if len({member.store.path for member in members}) == 1:
        return list(members)
    if "tvd_sem" in metrics:
        raise UsageError(
            "tvd_sem cannot be compared between runs: its clusters are those of one run's systems; "
            "give all models to one command."
        )
    return [
        replace(m, results={name: r for name, r in m.results.items() if name != "tvd_sem"})
        for m in members
    ]


def _fields(member: ComparedSystem, metric: str) -> dict[str, str]:
    """Return what must agree: corpus and protocol."""
    signature = member.results[metric].signature
    corpus = f"{signature.corpus}#{signature.corpus_sha256[:12]}"
    return {"corpus": corpus, **comparing.protocol_of(member, metric)}


def _corpus_of(member: ComparedSystem, metric: str) -> tuple[str, str]:
    """Return what identifies a corpus: of a user's file its checksum and part, not its name."""
    facts, signature = member.store.manifest["corpus"], member.results[metric].signature
    is_own = facts.get("version") == "own"
    name = signature.corpus.removeprefix(facts["name"]) if is_own else signature.corpus
    return name, signature.corpus_sha256


def _check_equal(
    first: Store, second: Store, left: Mapping[str, str], right: Mapping[str, str]
) -> None:
    if differences := comparing.differing(left, right):
        raise UsageError(
            f"{first.path} and {second.path} cannot be compared: {differences}; "
            "run both on the same corpus with the same choices."
        )


# Notes -------------------------------------------------------------------------------------


def notes_of(
    members: Members, comparisons: Sequence[Comparison], evidence: Evidence, alpha: float
) -> Iterator[str]:
    """Yield all notes on the comparisons."""
    families = comparing.by_metric(comparisons)
    yield from dependent_notes({m: own for m, own in _dependent(members).items() if m in families})
    yield from _uneven_draws(members, families)
    yield from _uneven_tokens(evidence)
    if any(has_persons(member.store) for member in members):
        yield from notes_on("over_groups_only")
    yield from reasons(comparisons)
    yield from joined(impossible(families, alpha))
    yield from _contradictions(families, alpha)
    yield from _brackets(members, families, evidence)


def _withheld_notes(members: Members, leading: Sequence[str], is_ranked: bool) -> Iterator[str]:
    """Note leading metrics that are not reported, and whether any is left to rank systems by."""
    lacking = _withheld(members, leading)
    yield from lacking
    if lacking and not is_ranked:
        yield f"the systems are not ranked: no two of them have {' or '.join(leading)}"


def dependent_notes(dependent: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Warn about systems with an overlap or an energy that independent answers cannot have."""
    for metric, systems in dependent.items():
        kind = "dependent_overlap" if metric == "overlap" else "dependent_energy"
        if systems:
            yield from notes_on(kind, metric=metric, systems=", ".join(systems))


def _dependent(members: Members) -> dict[str, tuple[str, ...]]:
    """Return, per metric, the systems that it does not rank."""
    energies = [n for m in members for n in m.results if n.startswith("energy/")]
    n_tests, found = max(1, len(energies)), {}
    for metric in sorted({"overlap", *energies}):
        results = _results_by(members, metric).items()
        found[metric] = tuple(label for label, one in results if is_dependent(one, n_tests))
    return found


def _results_by(members: Members, metric: str) -> dict[str, Result]:
    return {m.label: m.results[metric] for m in members if metric in m.results}


def is_dependent(result: Result, n_tests: int = 1) -> bool:
    """Return whether answers depend on people's: an overlap above 1, or an energy below 0.

    The level for energies is adjusted over `n_tests` systems and probes: one of many intervals
    lies below 0 by chance.
    """
    is_energy = result.metric.startswith("energy/")
    level = 1 - (ALPHA / n_tests if is_energy else _DEPENDENCE)
    interval = at_level(result.estimate, level).interval
    return interval is not None and (interval.high < 0 if is_energy else interval.low > 1)


def _value_notes(
    orders: Mapping[str, Sequence[str]],
    values: Mapping[str, Mapping[str, float | None]],
    n_items: Mapping[str, int],
) -> Iterator[str]:
    """Note metrics without common items, and those whose values are not in the order of systems."""
    if lacking := [metric for metric, n in n_items.items() if n == 0]:
        yield from notes_on("no_common_items", metrics=", ".join(lacking))
    unsorted = []
    for metric, order in orders.items():
        ordered = [value for label in order if (value := values[metric][label]) is not None]
        if ordered != sorted(ordered, reverse=comparing.better(metric) == "higher"):
            unsorted.append(metric)
    if unsorted:
        yield from notes_on("other_order", metrics=", ".join(unsorted))


def reasons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Note why pairs have no test: one line per reason, with some of its pairs."""
    without: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.paired.reason:
            key = comparison.paired.reason, comparison.metric
            without.setdefault(key, []).append(comparison)
    texts = ((f", {_listed(own)}: {why}", metric) for (why, metric), own in without.items())
    yield from joined(texts)


def joined(notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each text once, after the names of all metrics that have it."""
    metrics: dict[str, list[str]] = {}
    for text, metric in notes:
        metrics.setdefault(text, []).append(metric)
    yield from (", ".join(names) + text for text, names in metrics.items())


def impossible(families: Families, alpha: float) -> Iterator[tuple[str, str]]:
    """Note where no difference could have been significant, whatever the data."""
    for metric, family in families.items():
        tested = [comparison for comparison in family if comparison.paired.test is not None]
        hopeless = [c for c in tested if c.smallest is not None and c.smallest > alpha]
        if hopeless:
            whom = "" if len(hopeless) == len(tested) else f"{_listed(hopeless)}: "
            smallest = min(c.smallest for c in hopeless if c.smallest is not None)
            n_groups = max(c.paired.difference.n_groups for c in hopeless)
            tests = f" and {len(tested)} tests" if len(tested) > 1 else ""
            text = (
                f": {whom}with {n_groups} groups{tests} no adjusted p-value below {smallest:.3g} "
                f"is possible: this comparison cannot find a difference at {alpha:g}"
            )
            yield text, metric


def _contradictions(families: Families, alpha: float) -> Iterator[str]:
    """Note pairs of systems that two proper metrics order differently."""
    square, loss = (families.get(metric, ()) for metric in PROPER)
    others = {(c.first, c.second): c for c in loss}
    for c in square:
        other = others.get((c.first, c.second))
        if other is not None and (c.value or 0.0) * (other.value or 0.0) < 0:
            yield (
                f"{PROPER[0]} and {PROPER[1]} order {c.first} and {c.second} differently: "
                f"{_favors(c, alpha)}, {_favors(other, alpha)}"
            )


def _favors(comparison: Comparison, alpha: float) -> str:
    closer = comparison.first if (comparison.value or 0.0) < 0 else comparison.second
    tested = "significant" if comparison.is_significant(alpha) else "not significant"
    tested = "not tested" if comparison.p_holm is None else tested
    return f"{closer} is closer to people by {comparison.metric} ({tested})"


def _brackets(members: Members, families: Families, evidence: Evidence) -> Iterator[str]:
    """Note pairs whose order by a metric with a range is not identified."""
    for metric, names in BRACKETS.items():
        has_both = {m.label for m in members if all(name in m.results for name in names)}
        pairs = [c for c in families.get(metric, ()) if {c.first, c.second} <= has_both]
        if overlaps := [c for c in pairs if _brackets_overlap(c, names, evidence)]:
            facts = {"ends": ", ".join(names), "pairs": _listed(overlaps)}
            yield from notes_on("brackets", metric=metric, name=_SPOKEN[metric], **facts)


def _brackets_overlap(pair: Comparison, names: tuple[str, str], evidence: Evidence) -> bool:
    """Return whether the ranges of two systems' true values on their common items overlap."""
    low, high = (evidence.values(name, (pair.first, pair.second)) for name in names)
    ends, systems = (low[0], high[0]), (pair.first, pair.second)
    a, b = ([v for end in ends if (v := end[label]) is not None] for label in systems)
    if min(len(a), len(b)) < len(names) or low[1] != high[1]:
        return False  # no range, or ends over different items
    return min(a) <= max(b) and min(b) <= max(a)


def _listed(comparisons: Sequence[Comparison]) -> str:
    """Name the first of many pairs, and say how many more there are."""
    more = len(comparisons) - MOST_NAMED
    named = ", ".join(c.pair for c in comparisons[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _uneven_draws(members: Members, metrics: Mapping[str, object]) -> Iterator[str]:
    """Warn about different numbers of draws if a metric grows with fewer draws."""
    concerned = [name for name in GROW_WITH_FEW_DRAWS if name in metrics]
    for metric in concerned[:1]:
        results = _results_by(members, metric).items()
        draws = {label: result.signature.n for label, result in results}
        if _is_uneven(list(draws.values())):
            listed = ", ".join(f"{label} {n}" for label, n in draws.items())
            yield from notes_on("uneven_draws", draws=listed, metrics=", ".join(concerned))


def _uneven_tokens(evidence: Evidence) -> Iterator[str]:
    """Note systems with different tokens: they solve different tasks."""
    systems = evidence.systems.items() if isinstance(evidence, DocumentEvidence) else ()
    for (first, left), (second, right) in combinations(systems, 2):
        if comparing.tokens_differ(left, right):
            yield from notes_on("uneven_tokens", first=first, second=second)


def _is_uneven(draws: Sequence[str]) -> bool:
    """Return whether numbers of draws differ by over 10%; matched draws do not."""
    if any(n.endswith("matched") for n in draws):
        return False
    numbers = [math.inf if n == "exact" else float(n) for n in draws]
    return min(numbers) < max(numbers) and min(numbers) * _ABOUT_EQUAL < max(numbers)
