"""Comparisons as tables: all pairs, all systems with letters, and several tasks on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aleatoric.inference.estimate import with_cut_note
from aleatoric.inference.paired import IDENTICAL
from aleatoric.reporting import tables
from aleatoric.reporting.tables import listed, number, p_value, table_of_records, with_interval
from aleatoric.reporting.views import view_of
from aleatoric.result_types import Table
from aleatoric.studies.compare import Compared, Comparison
from aleatoric.studies.compare_statistics import better, by_metric
from aleatoric.studies.tasks import PEOPLE, ComparedTasks, Task

_NOTES = tables.TEXTS["compare"]["notes"]
_TASK_NOTES = tables.TEXTS["tasks"]["notes"]
_DATA_COLUMNS = (
    *("metric", "first", "second", "first_value", "second_value", "difference", "difference_low"),
    *("difference_high", "p", "p_holm", "p_bh", "cohen_d", "share_lower", "n_items", "n_groups"),
)


def comparison_tables(compared: Compared) -> list[Table]:
    """Return the table of all pairs, one row per metric and pair, then that of all systems."""
    table = table_of_records("Pairs of systems", list(map(_pair_cells, compared.comparisons)))
    families = _family_sizes(compared)
    notes = tuple(note.format(families=families) for note in _NOTES["pairs"])
    wide = ("p", "p BH", "d", "first lower", "groups")
    return [with_cut_note(replace(table, notes=notes, wide=wide)), _letters_table(compared)]


def _letters_table(compared: Compared) -> Table:
    """One row per system: its value of each metric on the common items, with its letters."""
    metrics = list(compared.values)
    systems = list(dict.fromkeys(name for row in compared.values.values() for name in row))
    rows = tuple((name, *(_lettered(compared, m, name) for m in metrics)) for name in systems)
    notes = [_common_note(compared)]
    if any(compared.letters.values()):
        notes.insert(0, _NOTES["letters"].format(alpha=compared.alpha))
    return Table("Systems", ("system", *metrics), rows, tuple(notes))


def _common_note(compared: Compared) -> str:
    by_number: dict[int, list[str]] = {}
    for metric, n_items in compared.n_items.items():
        by_number.setdefault(n_items, []).append(metric)
    if len(by_number) == 1:
        return f"Values are over the {next(iter(by_number)):,} items that all systems share."
    counts = "; ".join(f"{', '.join(metrics)}: {n:,}" for n, metrics in by_number.items())
    return f"Values are over the items that all systems share ({counts})."


def _family_sizes(compared: Compared) -> str:
    """Return how many tests each metric has; one number if it is the same for all."""
    texts = {f"{n} {'test' if n == 1 else 'tests'} each" for n in compared.families.values()}
    if len(texts) == 1:
        return texts.pop()
    return ", ".join(f"{metric}: {n}" for metric, n in compared.families.items())


def _pair_cells(comparison: Comparison) -> dict[str, str]:
    """Return the cells of a comparison by column; some are of systems or of tasks only."""
    facts = comparison.record()
    p_values = {"p": "p", "p Holm": "p_holm", "p BH": "p_bh"}
    cells = {
        "metric": comparison.metric,
        "system": comparison.system,
        "first − second": f"{comparison.first} − {comparison.second}",
        "difference": with_interval(comparison.paired.difference),
        **{name: p_value(facts[key]) for name, key in p_values.items()},
        "d": number(facts["cohen_d"], 2),
        "first lower": number(facts["share_lower"], 2),
        "items": str(facts["n_items"]),
        "groups": str(facts["n_groups"]),
    }
    left_out = ("p BH", "groups") if comparison.system else ("system",)
    return {column: cell for column, cell in cells.items() if column not in left_out}


def _lettered(compared: Compared, metric: str, system: str) -> str:
    value = compared.values[metric].get(system)
    letters = compared.letters.get(metric, {}).get(system, "")
    return f"{number(value)} {letters}".strip()


def comparison_data(compared: Compared) -> Table:
    """Return one row per metric and pair of systems, with one number per cell."""
    records = []
    for c in compared.comparisons:
        facts, values = c.record(), compared.values[c.metric]
        facts |= {"first_value": values.get(c.first), "second_value": values.get(c.second)}
        records.append({name: facts[name] for name in _DATA_COLUMNS})
    return table_of_records("Pairs of systems", records)


def summary(compared: Compared) -> Iterator[str]:
    """Say which system is best by the first metric, and whether the difference is significant."""
    orders = {n: order for n, order in compared.order.items() if n not in compared.secondary}
    metric = next((name for name, order in orders.items() if len(order) > 1), None)
    if metric is None:
        return
    excluded = compared.not_ranked(metric)
    order = [name for name in compared.order[metric] if name not in excluded]
    family = [c for c in by_metric(compared.comparisons)[metric] if {c.first, c.second} <= {*order}]
    if not family:
        return
    if excluded:
        reason = "because the answers seem to depend on people's"
        yield f"Not ranked by {metric}, {reason}: {listed(excluded)}."
    yield _verdict(metric, order, family, compared.alpha)


def _verdict(metric: str, order: Sequence[str], family: Sequence[Comparison], alpha: float) -> str:
    best, second = order[:2]
    leads = f"{best} has the {'highest' if better(metric) == 'higher' else 'lowest'} {metric}"
    p_values = [c.p_holm for c in family if c.p_holm is not None]
    if all(c.paired.reason == IDENTICAL for c in family):
        return f"{listed(order)} have the same values of {metric}."
    if not p_values:
        return f"{leads}, but no test is possible, so that the order is not certain."
    if not any(c.is_significant(alpha) for c in family):
        p = _p_text(min(p_values))
        if len(family) == 1:
            return f"The difference in {metric} is not significant at {alpha:g} ({p})."
        return f"No difference in {metric} is significant at {alpha:g} (smallest {p})."
    top = next(c for c in family if {c.first, c.second} == {best, second})
    gap = f"{_gap(top, best, metric)} {better(metric)} than {second}"
    gap += ", the next best" if len(order) > 2 and top.is_significant(alpha) else ""
    equal = [c for c in family if best in (c.first, c.second) and c.paired.reason == IDENTICAL]
    if equal:
        tied = [name for name in order if any(name in (c.first, c.second) for c in equal)]
        return f"{listed(tied)} have the same {metric} on all items; no other is {better(metric)}."
    tested = _p_text(top.p_holm) if top.p_holm is not None else "no test"
    if top.is_significant(alpha):
        return f"{leads}: {gap} ({tested})."
    return f"{leads}, but does not differ significantly from {second}: {gap} ({tested})."


def _p_text(p: float) -> str:
    text = p_value(p)
    return f"adjusted p {text[0]} {text[1:]}" if text.startswith("<") else f"adjusted p = {text}"


def _gap(comparison: Comparison, best: str, metric: str) -> str:
    """Return how much better the best system is, with its interval."""
    difference = comparison.paired.difference
    if (comparison.first == best) != (better(metric) == "higher"):
        ends = difference.interval
        turned = ends and replace(ends, low=-ends.high, high=-ends.low)
        difference = replace(difference, value=-(difference.value or 0.0), interval=turned)
    return with_interval(difference)


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
    notes = [_TASK_NOTES["letters" if of_people else "systems"].format(alpha=compared.alpha)]
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
    most = max(numbers, default=0)
    families = " to ".join(map(str, sorted({min(numbers, default=0), most})))
    families += " test" if most == 1 else " tests"
    notes = [note.format(families=families) for note in _TASK_NOTES["pairs"]]
    if len(shown) < len(compared.comparisons):
        notes.append(_TASK_NOTES["more"])
    table = table_of_records("Pairs of tasks", list(map(_pair_cells, shown)))
    hidden = () if any(c.system != PEOPLE for c in shown) else ("system",)
    if shown:
        wide = (*hidden, "p", "d", "first lower", "items")
        yield replace(table, notes=tuple(notes), wide=wide)


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
    tests = [c for c in family if c.system == label and c.p_holm is not None]
    if not tests:
        return "no test is possible"
    n = sum(c.is_significant(compared.alpha) for c in tests)
    which = "the difference is" if len(tests) == 1 else f"{n} of {len(tests)} differences are"
    significant = "significant" if len(tests) > 1 or n else "not significant"
    return f"{which} {significant} at {compared.alpha:g}"
