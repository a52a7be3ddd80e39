"""Several tasks on one page: tables with tasks as rows, findings, and figures with shared axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aleatoric.inference.estimate import with_cut_note
from aleatoric.reporting import tables
from aleatoric.reporting.parts import ReportPart
from aleatoric.reporting.tables import number, p_value, table_of_records, with_interval
from aleatoric.reporting.views import View, view_of, view_of_run
from aleatoric.result_types import Table
from aleatoric.studies.compare_statistics import by_metric
from aleatoric.studies.figure_data import Picture
from aleatoric.studies.tasks import (
    PEOPLE,
    ComparedTasks,
    Task,
    TaskComparison,
    compare_tasks,
    tasks_of,
)

TITLE = "Across tasks"
_NOTES = tables.TEXTS["tasks"]["notes"]


@dataclass(frozen=True)
class TasksSection:
    """What a report shows of several tasks together."""

    view: View
    compared: ComparedTasks
    pictures: Mapping[str, Picture]
    names: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def tables(self) -> list[Table]:
        """The tables with intervals."""
        return task_tables(self.compared, whole=True, intervals=True)

    @property
    def findings(self) -> list[str]:
        """One sentence for people and for each system."""
        return list(task_summary(self.compared))


def sections_of(report_parts: Sequence[ReportPart]) -> Iterator[TasksSection]:
    """Yield a section for each level whose runs have several corpora that it can compare."""
    by_level: dict[str, dict[str, ReportPart]] = {}
    left_out: dict[str, list[str]] = {}
    for part in report_parts:
        of_level = by_level.setdefault(part.level.name, {})
        if of_level.setdefault(part.first.manifest["corpus"]["sha256"], part) is not part:
            left_out.setdefault(part.level.name, []).append(str(part.first.path))
    for name, own in by_level.items():
        if len(own) > 1 and view_of_run(next(iter(own.values())).first).level.across:
            yield _section([part.leading for part in own.values()], left_out.get(name, []))


def _section(shown: Sequence[ReportPart], left_out: Sequence[str]) -> TasksSection:
    view = view_of_run(shown[0].first)
    labels = {member.label for part in shown for member in part.members}
    tasks = tasks_of([store for part in shown for store in part.stores], systems=labels)
    seed = shown[0].first.manifest["seed"]
    compared = compare_tasks(tasks, metrics=_patterns(view, tasks), seed=seed)
    names = tuple(task.name for task in tasks)
    pictures = view.task_figures(dict(zip(names, shown, strict=True)))
    notes = [f"{path}: the same corpus with other settings is not compared" for path in left_out]
    return TasksSection(view, compared, pictures, names, (*compared.notes, *notes))


def _patterns(view: View, tasks: Sequence[Task]) -> list[str]:
    """Return the metrics of a page: those that the view names, as far as a task has them."""
    known = {name for task in tasks for m in task.members.values() for name in m.results}
    return [metric for metric in view.task_metrics if metric in known]


# Tables ------------------------------------------------------------------------------------


def task_tables(compared: ComparedTasks, whole: bool, intervals: bool) -> list[Table]:
    """Return people by task, systems by task, and the pairs of tasks.

    Without `whole`, the last table has people only, if people are compared.
    """
    stems: dict[str, dict[str, None]] = {}
    for metrics in compared.metrics.values():
        for metric in metrics:
            stems.setdefault(metric.partition("/")[0], {})[metric] = None
    found = [_by_task(compared, stem, list(metrics), intervals) for stem, metrics in stems.items()]
    return [with_cut_note(table) for table in (*found, *_pairs(compared, whole))]


def _by_task(compared: ComparedTasks, stem: str, metrics: Sequence[str], intervals: bool) -> Table:
    """Return one row per task, of people or of each system."""
    labels = [n for n, own in compared.metrics.items() if set(own) & set(metrics)]
    of_people = labels == [PEOPLE]
    headings = [metric.partition("/")[2] or metric for metric in metrics]
    facts = list(compared.tasks[0].facts)
    rows = []
    for label in labels:
        for task in compared.tasks:
            if label in task.members:
                lead = (_fact(task, f) for f in facts) if of_people else (label,)
                cells = (_cell(compared, task, label, metric, intervals) for metric in metrics)
                rows.append((task.name, *lead, *cells))
    columns = ("task", *(facts if of_people else ["system"]), *headings)
    title = f"{view_of(compared.tasks[0].level.job_type.command).task_title(stem)}, by task"
    notes = [_NOTES["letters" if of_people else "systems"].format(alpha=compared.alpha)]
    return Table(title, columns, tuple(rows), tuple(notes))


def _fact(task: Task, name: str) -> str:
    value = task.facts.get(name)
    return number(value, 0 if value is None or float(value).is_integer() else 1)


def _cell(compared: ComparedTasks, task: Task, label: str, metric: str, intervals: bool) -> str:
    result = task.result(label, metric)
    if result is None:
        return tables.UNDEFINED
    value = with_interval(result.estimate) if intervals else number(result.estimate.value)
    return f"{value} {compared.letters.get((label, metric), {}).get(task.name, '')}".strip()


def _pairs(compared: ComparedTasks, whole: bool) -> Iterator[Table]:
    """Yield the table of pairs of tasks, if there are any."""
    of_people = [c for c in compared.comparisons if c.system == PEOPLE]
    shown = compared.comparisons if whole or not of_people else of_people
    numbers = compared.families.values()
    families = " to ".join(map(str, sorted({min(numbers, default=0), max(numbers, default=0)})))
    notes = [note.format(families=families) for note in _NOTES["pairs"]]
    if len(shown) < len(compared.comparisons):
        notes.append(_NOTES["more"])
    table = table_of_records("Pairs of tasks", list(map(_pair_cells, shown)))
    hidden = () if any(c.system != PEOPLE for c in shown) else ("system",)
    if shown:
        wide = (*hidden, "p", "d", "first lower", "items")
        yield replace(table, notes=tuple(notes), wide=wide)


def _pair_cells(comparison: TaskComparison) -> dict[str, str]:
    facts = comparison.record()
    return {
        "metric": comparison.metric,
        "system": comparison.system,
        "first − second": f"{comparison.first} − {comparison.second}",
        "difference": with_interval(comparison.paired.difference),
        "p": p_value(facts["p"]),
        "p Holm": p_value(facts["p_holm"]),
        "d": number(facts["cohen_d"], 2),
        "first lower": number(facts["share_lower"], 2),
        "items": str(facts["n_items"]),
    }


def task_data(compared: ComparedTasks) -> list[Table]:
    """Return values, then pairs, with one number per cell."""
    values = [
        {"task": task.name, "system": label, "metric": metric, **result.estimate.record()}
        for label, metrics in compared.metrics.items()
        for metric in metrics
        for task in compared.tasks
        if (result := task.result(label, metric))
    ]
    pairs = table_of_records("Pairs of tasks", compared.records())
    return [table_of_records("Tasks", values), pairs]


# Findings ----------------------------------------------------------------------------------


def task_summary(compared: ComparedTasks) -> Iterator[str]:
    """Say for people and each system which tasks have the lowest and highest values."""
    for label, metrics in compared.metrics.items():
        values = {
            task.name: result.estimate.value
            for task in compared.tasks
            if (result := task.result(label, metrics[0])) and result.estimate.value is not None
        }
        if len(values) > 1:
            low, high = (choose(values, key=lambda n: values[n] or 0.0) for choose in (min, max))
            ends = f"lowest in {low} ({number(values[low])}) and highest in {high}"
            tested = _tested(compared, label, metrics[0])
            yield f"{label}: {metrics[0]} is {ends} ({number(values[high])}); {tested}."


def _tested(compared: ComparedTasks, label: str, metric: str) -> str:
    family = by_metric(compared.comparisons).get(metric, [])
    own = [c for c in family if isinstance(c, TaskComparison) and c.system == label]
    tests = [c for c in own if c.p_holm is not None]
    if not tests:
        return "no test is possible"
    n = sum(c.is_significant(compared.alpha) for c in tests)
    which = "the difference is" if len(tests) == 1 else f"{n} of {len(tests)} differences are"
    significant = "significant" if len(tests) > 1 or n else "not significant"
    return f"{which} {significant} at {compared.alpha:g}"
