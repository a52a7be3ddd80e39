"""Saved runs to comparisons: every pair of systems, metric by metric, on the items both have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

from aleatoric import levels, studies, token_pipeline
from aleatoric.comparing.comparable import (
    Member,
    check_comparable,
    check_levels,
    without_clusters,
)
from aleatoric.comparing.statistics import (
    compare_metric,
    excess_name,
    floor_column,
    read_statistics,
)
from aleatoric.comparing.tokens import compare_sums, compare_values, tokens_differ
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.inference.letters import different_pairs, letters
from aleatoric.inference.multiple import benjamini_hochberg, holm
from aleatoric.inference.paired import Paired
from aleatoric.store import Store

ALPHA = 0.05
Pairing = Callable[[str, Member, Member], Paired | None]
"""A metric and two systems -> their comparison; `None` where the metric is not theirs."""
DEFAULT_METRICS = {
    "word": ("tvd", "tvd_excess", "tvd_syn", "tvd_sem", "sq_distance", "ece_*"),
    "text": ("energy/*", "dmu_M/*", "w1_?/*", "dmu_C/*"),
    "token": ("ece", "sce", "ace", "e_ece*", "sce_*", "ace_*"),
}
"""What is compared where nothing is named: about what a level's own table shows."""
_ABOUT_EQUAL = 1.1
GROW_WITH_FEW_DRAWS = ("tvd", "tvd_syn", "tvd_sem", "js")


@dataclass(frozen=True)
class Comparison:
    """Two systems by one metric, with p-values adjusted over all comparisons made together."""

    metric: str
    first: str
    second: str
    paired: Paired
    p_holm: float | None = None
    p_bh: float | None = None
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
            "test": {"method": test.method, "exact": test.exact} if test else None,
            "effect": asdict(found.effect) if found.effect else None,
            "reason": found.reason,
            "signatures": list(self.signatures),
        }


@dataclass(frozen=True)
class Compared:
    """All comparisons of some systems: one family of tests."""

    comparisons: tuple[Comparison, ...]
    values: Mapping[str, Mapping[str, float | None]]
    """Metric -> system -> its value on all its own items."""
    letters: Mapping[str, Mapping[str, str]]
    """Metric -> system -> its letters; systems that share one are not told apart."""
    alpha: float
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        return {
            "comparisons": [one.as_dict() for one in self.comparisons],
            "values": self.values,
            "letters": self.letters,
            "alpha": self.alpha,
            "family": sum(one.paired.test is not None for one in self.comparisons),
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
) -> Compared:
    """Compare every two systems of one or more runs by every metric.

    `systems` are labels, all models where none is given; `metrics` are names or patterns;
    `interval` names how replicates become an interval. With `against`, one of the systems, it
    alone is compared with each other: a smaller family of tests, and no letters.
    """
    check_method(interval)
    members = without_clusters(_members(stores, systems), metrics)
    check_comparable(members)
    names = _metrics(members, metrics)
    pairs = [p for p in combinations(members, 2) if against in (None, p[0].label, p[1].label)]
    family = _adjusted([*_compare_all(members, pairs, names, seed, interval)])
    values = {name: {m.label: _value(m, name) for m in members} for name in names}
    lettered = names if against is None else []
    shown = {name: _letters(name, values[name], family, alpha) for name in lettered}
    return Compared(tuple(family), values, shown, alpha, (*_notes(members, family, alpha),))


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
        places = ", ".join(str(store.path) for store in stores)
        raise UsageError(
            f"{places}: has {len(chosen)} system to compare ({', '.join(chosen) or 'none'}); "
            "name another run or another --system."
        )
    found = {store.path: levels.results(store) for store in stores}
    return [
        Member(store, name, label, {r.metric: r for r in found[store.path] if r.system == name})
        for label, (store, name) in ((label, known[label]) for label in chosen)
    ]


def labels_of(stores: Sequence[Store]) -> dict[str, tuple[Store, str]]:
    """A name for every system: its own, with its run before it where several runs have it."""
    places = [(store, name) for store in stores for name in store.systems()]
    names = [name for _, name in places]
    return {
        name if names.count(name) == 1 else f"{store.path}:{name}": (store, name)
        for store, name in places
    }


def _models(store: Store) -> list[str]:
    return studies.model_systems(store)


def _metrics(members: Sequence[Member], asked: Sequence[str]) -> list[str]:
    """The metrics that at least two systems have and that were asked for."""
    known = [name for member in members for name in _metrics_of(member)]
    shared = [name for name in dict.fromkeys(known) if known.count(name) > 1]
    level = levels.level_of(members[0].store)
    patterns = asked or DEFAULT_METRICS.get(level, ("*",))
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in shared):
            raise UsageError(f"there is no metric {pattern!r}; there are: {', '.join(shared)}.")
    found = [name for name in shared if any(fnmatchcase(name, p) for p in patterns)]
    if not found:
        labels = ", ".join(member.label for member in members)
        raise UsageError(f"no two of {labels} share a metric; name other systems.")
    return found


def _metrics_of(member: Member) -> Iterator[str]:
    columns: list[str] = member.store.meta("stat_columns") or []
    for metric in member.results:
        yield metric
        if floor_column(metric, columns) is not None:
            yield excess_name(metric)


def _compare_all(
    members: Sequence[Member],
    pairs: Sequence[tuple[Member, Member]],
    metrics: Sequence[str],
    seed: int,
    interval: str,
) -> Iterator[Comparison]:
    is_token = levels.level_of(members[0].store) == "token"
    pairing = _by_document if is_token else _by_item
    compared = pairing(members, seed, interval)
    for metric in metrics:
        for first, second in pairs:
            found = compared(metric, first, second)
            if found is not None:
                signed = _signature(first, metric), _signature(second, metric)
                yield Comparison(metric, first.label, second.label, found, signatures=signed)


def _by_item(members: Sequence[Member], seed: int, interval: str) -> Pairing:
    """Words and texts: statistics of items that both systems have."""
    statistics = {m.label: read_statistics(m.store, m.system) for m in members}
    choices = members[0].store.manifest.get("choices", {})

    def compared(metric: str, first: Member, second: Member) -> Paired | None:
        sides = statistics[first.label], statistics[second.label]
        return compare_metric(metric, *sides, choices, seed, interval)

    return compared


def _by_document(members: Sequence[Member], seed: int, interval: str) -> Pairing:
    """Tokens: sums over documents that both systems have read."""
    sums = {m.label: token_pipeline.grouped(m.store, m.system) for m in members}

    def compared(metric: str, first: Member, second: Member) -> Paired | None:
        sides = sums[first.label], sums[second.label]
        found = compare_sums(metric, *sides, seed, interval)
        own, other = (m.results.get(metric) for m in (first, second))
        if found is None and own is not None and other is not None:
            return compare_values(own.estimate, other.estimate)
        return found

    return compared


def _adjusted(family: list[Comparison]) -> list[Comparison]:
    p_values = [one.paired.test.p if one.paired.test else None for one in family]
    raised = zip(family, holm(p_values), benjamini_hochberg(p_values), strict=True)
    return [replace(one, p_holm=by_holm, p_bh=by_bh) for one, by_holm, by_bh in raised]


def _base(metric: str) -> str:
    return metric.replace("_excess", "", 1)


def _signature(member: Member, metric: str) -> str:
    result = member.results.get(_base(metric))
    return str(result.signature) if result else ""


def _value(member: Member, metric: str) -> float | None:
    result = member.results.get(_base(metric))
    if result is None:
        return None
    return result.estimate.value if metric in member.results else result.excess


def _letters(
    metric: str,
    values: Mapping[str, float | None],
    family: Sequence[Comparison],
    alpha: float,
) -> dict[str, str]:
    """Letters from Holm's p-values; the system with the lowest value has an a."""
    known = {name: value for name, value in values.items() if value is not None}
    p_values = {
        frozenset((one.first, one.second)): one.p_holm for one in family if one.metric == metric
    }
    ordered = sorted(known, key=lambda name: known[name])
    return letters(ordered, different_pairs(p_values, alpha))


def _notes(members: Sequence[Member], family: Sequence[Comparison], alpha: float) -> Iterator[str]:
    """What a reader of the p-values must know."""
    yield from _uneven_draws(members, {one.metric for one in family})
    yield from _uneven_tokens(members)
    yield from _reasons(family)
    smallest = max((one.paired.test.smallest for one in family if one.paired.test), default=0.0)
    if smallest > alpha:
        yield (
            f"with so few groups no p-value below {smallest:.3g} is possible: nothing can be told "
            f"apart at {alpha:g}"
        )


def _reasons(family: Sequence[Comparison]) -> Iterator[str]:
    """Why something has no test: a line a pair and reason, whatever the number of metrics."""
    concerned: dict[tuple[str, str, str], list[str]] = {}
    for one in family:
        if one.paired.reason:
            key = (one.first, one.second, one.paired.reason)
            concerned.setdefault(key, []).append(one.metric)
    for (first, second, reason), metrics in concerned.items():
        yield f"{', '.join(metrics)}, {first} v {second}: {reason}"


def _uneven_draws(members: Sequence[Member], metrics: set[str]) -> Iterator[str]:
    """Distances that grow as draws become fewer are no fair measure between different numbers."""
    concerned = [name for name in GROW_WITH_FEW_DRAWS if name in metrics]
    for metric in concerned[:1]:
        draws = {m.label: m.results[metric].signature.n for m in members if metric in m.results}
        if _is_uneven(list(draws.values())):
            listed = ", ".join(f"{label} {n}" for label, n in draws.items())
            yield (
                f"the systems have different numbers of draws a context ({listed}), and fewer "
                f"draws alone raise {', '.join(concerned)}: rely on tvd_excess and sq_distance"
            )


def _uneven_tokens(members: Sequence[Member]) -> Iterator[str]:
    """Tokens of different vocabularies are not the same task."""
    if levels.level_of(members[0].store) != "token":
        return
    sums = {m.label: token_pipeline.grouped(m.store, m.system) for m in members}
    for first, second in combinations(sums, 2):
        if tokens_differ(sums[first], sums[second]):
            yield (
                f"{first} and {second} cut the documents into different tokens: their errors are "
                "of different tasks, and swapping them is a test of both together"
            )


def _is_uneven(draws: Sequence[str]) -> bool:
    """Whether some have more than a few draws more; exact probabilities have endlessly many."""
    numbers = [math.inf if n == "exact" else _leading_number(n) for n in draws]
    return min(numbers) < max(numbers) and min(numbers) * _ABOUT_EQUAL < max(numbers)


def _leading_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
