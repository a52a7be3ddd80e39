"""Comparing tasks: people's variability, and each system, on several corpora; tests are unpaired.

Tasks have inputs of their own, so that there are no common items. Whole groups of inputs are the
unit, as everywhere: see `aleatoric.inference.unpaired`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, repeat
from typing import Any

from aleatoric.data.selection import PART_ONLY
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, NO_INTERVALS, check_method
from aleatoric.inference.estimate import bounded_difference
from aleatoric.inference.paired import Paired
from aleatoric.inference.unpaired import Sample, unpaired
from aleatoric.levels.base import Level, level_of, unfinished_notes
from aleatoric.levels.base import results as results_of
from aleatoric.result_types import Result
from aleatoric.runs.run import Store, labels_of
from aleatoric.runs.session import saved_notes
from aleatoric.studies import compare_statistics as comparing
from aleatoric.studies import notes_on
from aleatoric.studies.compare import ALPHA, Compared, compare, impossible, joined, reasons
from aleatoric.studies.compare_statistics import ComparedSystem, Comparison, Comparisons
from aleatoric.types import Estimate

_ALL = 2**62
"""More than the number of the last input."""
PEOPLE = "people"
"""The name of people in comparisons of tasks."""


@dataclass(frozen=True)
class Task:
    """One corpus: facts about it, and its people and models with their results."""

    name: str
    level: Level
    facts: Mapping[str, float | None]
    stores: tuple[Store, ...]
    members: Mapping[str, ComparedSystem]
    """By label; people are under `PEOPLE`."""

    def result(self, label: str, metric: str) -> Result | None:
        """Return a result, if the task has it."""
        member = self.members.get(label)
        return member.results.get(metric) if member else None


@dataclass(frozen=True, repr=False)
class ComparedTasks(Comparisons):
    """People and systems on several tasks, with one family of unpaired tests per metric."""

    tasks: tuple[Task, ...]
    metrics: Mapping[str, tuple[str, ...]]
    """Label of people and of every system -> the compared metrics that a task has of it."""
    comparisons: tuple[Comparison, ...]
    letters: Mapping[tuple[str, str], Mapping[str, str]]
    """Label and metric -> task -> letters; tasks that share one do not differ significantly."""
    alpha: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        return {
            "tasks": {task.name: dict(task.facts) for task in self.tasks},
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "values": {
                label: {metric: self._values(label, metric) for metric in metrics}
                for label, metrics in self.metrics.items()
            },
            "letters": {
                label: {m: dict(self.letters[label, m]) for m in own if (label, m) in self.letters}
                for label, own in self.metrics.items()
            },
            "alpha": self.alpha,
            "families": self.families,
            "notes": list(self.notes),
        }

    def _values(self, label: str, metric: str) -> dict[str, float | None]:
        found = {task.name: task.result(label, metric) for task in self.tasks}
        return {name: result.estimate.value for name, result in found.items() if result}


def compare_runs(
    stores: Sequence[Store],
    systems: Sequence[str] = (),
    metrics: Sequence[str] = (),
    alpha: float = ALPHA,
    seed: int = 0,
    interval: str = DEFAULT_METHOD,
    matched: bool = False,
    only_leading: bool = False,
) -> Compared | ComparedTasks:
    """Compare the systems of runs of one corpus, or the tasks if the runs have several corpora."""
    asked = systems, metrics, alpha, seed, interval
    levels = {level_of(store).name: level_of(store) for store in stores}
    corpora = {store.manifest["corpus"].get("sha256") for store in stores}
    if len(levels) > 1 or len(corpora) < 2 or not all(lev.across for lev in levels.values()):
        return compare(stores, *asked, matched=matched, only_leading=only_leading)
    if matched:
        raise UsageError(f"{stores[0].path}: --matched compares one corpus only; leave it out.")
    return compare_tasks(tasks_of(stores, interval), *asked, only_leading=only_leading)


def tasks_of(
    stores: Sequence[Store],
    interval: str = DEFAULT_METHOD,
    systems: Collection[str] | None = None,
) -> list[Task]:
    """Return one task per corpus, in the order of its first run; by default with all models."""
    check_method(interval)
    grouped: dict[str, list[Store]] = {}
    for store in stores:
        grouped.setdefault(store.manifest["corpus"]["sha256"], []).append(store)
    names = [runs[0].manifest["corpus"]["name"] for runs in grouped.values()]
    counts = Counter(names)
    labels = [
        name if counts[name] == 1 else f"{name} ({runs[0].path})"
        for name, runs in zip(names, grouped.values(), strict=True)
    ]
    runs_of = zip(labels, grouped.values(), strict=True)
    return [_task(label, runs, interval, systems) for label, runs in runs_of]


def _task(
    name: str, stores: Sequence[Store], interval: str, systems: Collection[str] | None
) -> Task:
    """Return a task; its people are those of the first run."""
    first, level = stores[0], level_of(stores[0])
    results: dict[tuple[Store, str], dict[str, Result]] = {}
    for store in stores:
        for result in results_of(store, interval):
            results.setdefault((store, result.system), {})[result.metric] = result
    control = level.controls[0]
    members = {PEOPLE: ComparedSystem(first, control, PEOPLE, results.get((first, control), {}))}
    models = {store: level.model_systems(store) for store in stores}
    for label, (store, system) in labels_of(stores).items():
        if system in models[store] and (systems is None or label in systems):
            members[label] = ComparedSystem(store, system, label, results.get((store, system), {}))
    return Task(name, level, level.task_facts(first), tuple(stores), members)


def compare_tasks(
    tasks: Sequence[Task],
    systems: Sequence[str] = (),
    metrics: Sequence[str] = (),
    alpha: float = ALPHA,
    seed: int = 0,
    interval: str = DEFAULT_METHOD,
    only_leading: bool = False,
) -> ComparedTasks:
    """Compare people, and every system that two tasks have, between all pairs of tasks.

    `systems` are labels, by default of all models; `metrics` are names or patterns.
    """
    labels = _labels(tasks, systems)
    chosen = _metrics(tasks, labels, metrics, only_leading)
    tested = tuple(comparing.adjusted(list(_compare_all(tasks, chosen, seed, interval))))
    letters = {
        (label, metric): own
        for label, names in chosen.items()
        for metric in names
        if (own := _letters(tasks, tested, label, metric, alpha))
    }
    notes = tuple(_notes(tasks, chosen, tested, alpha))
    return ComparedTasks(tuple(tasks), chosen, tested, letters, alpha, notes)


def _labels(tasks: Sequence[Task], systems: Sequence[str]) -> list[str]:
    known = dict.fromkeys(label for task in tasks for label in task.members)
    for label in systems:
        if label not in known:
            listed = ", ".join(known)
            raise UsageError(f"no task has a system {label!r}; there are: {listed}.")
    return [label for label in known if label == PEOPLE or not systems or label in systems]


def _metrics(
    tasks: Sequence[Task], labels: Sequence[str], patterns: Sequence[str], only_leading: bool
) -> dict[str, tuple[str, ...]]:
    """Return the metrics of people and of every system that match a pattern."""
    level = tasks[0].level
    available = {
        label: dict.fromkeys(
            metric
            for task in tasks
            for metric in (task.members[label].results if label in task.members else ())
            if comparing.fits(metric, level.across_people) == (label == PEOPLE)
        )
        for label in labels
    }
    every = dict.fromkeys(metric for names in available.values() for metric in names)
    comparing.check_known(every, patterns)
    asked = tuple(patterns) or (*level.across_people, *level.across)
    if only_leading and not patterns and comparing.matching(every, level.across_first):
        asked = level.across_first
    chosen = {label: comparing.matching(names, asked) for label, names in available.items()}
    return {label: names for label, names in chosen.items() if names}


def _compare_all(
    tasks: Sequence[Task], chosen: Mapping[str, Sequence[str]], seed: int, interval: str
) -> Iterator[Comparison]:
    """Yield all pairs of tasks; each pair is complete before the next, which moves other groups."""
    for first, second in combinations(tasks, 2):
        for label, metrics in chosen.items():
            shared = [m for m in metrics if first.result(label, m) and second.result(label, m)]
            sides = [task.members[label] for task in (first, second)] if shared else []
            samples = [_samples(member, shared) for member in sides]
            for metric in shared:
                left, right = (member.results[metric] for member in sides)
                paired = _unlike(sides, metric) or unpaired(
                    samples[0][metric], samples[1][metric], seed, interval
                )
                paired = _withheld(paired, (first, left), (second, right), interval)
                signatures = str(left.signature), str(right.signature)
                names = metric, first.name, second.name
                yield Comparison(*names, paired, signatures=signatures, system=label)


def _samples(member: ComparedSystem, metrics: Sequence[str]) -> dict[str, Sample]:
    """Return the values and groups of all items that a system answered, by metric."""
    statistics = comparing.read_statistics(member.store, member.system)
    return {metric: (statistics.values[metric][:, 0], statistics.groups) for metric in metrics}


def _unlike(sides: Sequence[ComparedSystem], metric: str) -> Paired | None:
    """Return a comparison without a value if a metric means something else in the other task."""
    ignored = (level_of(member.store).task_fields for member in sides)
    differences = comparing.differing(*map(comparing.protocol_of, sides, repeat(metric), ignored))
    if not differences:
        return None
    return Paired(Estimate(None, None, 0, 0), None, None, f"not on one scale: {differences}")


def _withheld(
    paired: Paired, left: tuple[Task, Result], right: tuple[Task, Result], interval: str
) -> Paired:
    """Return a comparison without a test where a value is too doubtful to have an interval."""
    difference = bounded_difference(paired.difference, left[1].metric)
    paired = replace(paired, difference=difference)
    for task, result in (left, right):
        estimate = result.estimate
        if estimate.interval is None and estimate.reason and interval != NO_INTERVALS:
            difference = replace(difference, interval=None, reason=estimate.reason)
            reason = paired.reason or f"{task.name}: {estimate.reason}"
            return replace(paired, difference=difference, test=None, reason=reason)
    return paired


def _letters(
    tasks: Sequence[Task],
    comparisons: Sequence[Comparison],
    label: str,
    metric: str,
    alpha: float,
) -> dict[str, str]:
    """Return letters of tasks: a is the task closest to people, or with the highest value."""
    family = [c for c in comparisons if (c.system, c.metric) == (label, metric)]
    found = {task.name: task.result(label, metric) for task in tasks}
    values = {n: r.estimate.value for n, r in found.items() if r and r.estimate.value is not None}
    is_down = comparing.better(metric) != "lower"
    order = sorted(values, key=lambda name: values[name], reverse=is_down)
    return comparing.letters_of(order, family, alpha) if family else {}


# Notes -------------------------------------------------------------------------------------


def _notes(
    tasks: Sequence[Task],
    chosen: Mapping[str, Sequence[str]],
    comparisons: Sequence[Comparison],
    alpha: float,
) -> Iterator[str]:
    yield from notes_on("tasks")
    yield from _shared_inputs(tasks)
    for task in tasks:
        yield from _lacking(task, chosen)
    yield from _differing_fields(tasks, chosen)
    for task in tasks:
        yield from (note for store in task.stores for note in unfinished_notes(store))
        saved = dict.fromkeys(note for store in task.stores for note in saved_notes(store))
        yield from (f"{task.name}: {note}" for note in saved if note.startswith(PART_ONLY))
    yield from reasons(comparisons)
    yield from joined(impossible(comparing.by_metric(comparisons), alpha))


def _shared_inputs(tasks: Sequence[Task]) -> Iterator[str]:
    """Warn about inputs that two tasks share: these are not independent."""
    inputs = {
        task.name: {item.context for store in task.stores for item in store.items_between(0, _ALL)}
        for task in tasks
    }
    for first, second in combinations(inputs, 2):
        if n_shared := len(inputs[first] & inputs[second]):
            facts = {"n": n_shared, "total": len(inputs[first])}
            yield from notes_on("shared_inputs", first=first, second=second, **facts)


def _lacking(task: Task, chosen: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Note systems and metrics that other tasks have."""
    if absent := [label for label in chosen if label not in task.members]:
        yield f"{task.name}: has no {', '.join(absent)}"
    pairs = ((label, m) for label in chosen if label in task.members for m in chosen[label])
    lacking = dict.fromkeys(metric for label, metric in pairs if not task.result(label, metric))
    if lacking:
        yield f"{task.name}: not measured: {', '.join(lacking)}"


def _differing_fields(tasks: Sequence[Task], chosen: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Note choices of the language, such as the tokenizer, that differ between tasks."""
    fields: dict[str, dict[str, str]] = {}
    for task in tasks:
        for metric in chosen.get(PEOPLE, ()):
            result = task.result(PEOPLE, metric)
            protocol = result.signature.protocol if result else {}
            for name in task.level.task_fields:
                if name in protocol:
                    fields.setdefault(name, {}).setdefault(task.name, protocol[name])
    for name, by_task in fields.items():
        if len(set(by_task.values())) > 1:
            yield f"{name}: {', '.join(f'{task} {value}' for task, value in by_task.items())}"
