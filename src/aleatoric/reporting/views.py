"""How the runs of a level are shown: tables, sentences, figures, and items with their answers.

`View` shows the runs of any level. A level with tables or figures of its own has a subclass, which
is registered under the name of its command in `aleatoric.registry`.
"""

from __future__ import annotations

import heapq
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import filter as filter_names
from functools import cache
from itertools import islice
from typing import Any, ClassVar

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.inference.estimate import CUT_MARK, CUT_NOTE, with_cut_note
from aleatoric.levels.base import Level, find_level, level_of
from aleatoric.registry import Track
from aleatoric.reporting import page_data, parts, resource, tables
from aleatoric.reporting.page_data import ItemAnswers, ItemList, Measure
from aleatoric.reporting.parts import AGREEMENTS, ReportPart, ShownSystem
from aleatoric.reporting.tables import Column, Letters, TableCell, number, printable, with_interval
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store, item_and_draws
from aleatoric.studies.compare import Compared, compare
from aleatoric.studies.compare_statistics import better
from aleatoric.studies.figure_data import Picture
from aleatoric.types import Case, Categorical, Draws, Item, Pair

ByMetric = Mapping[tuple[str, str], Result]
"""System and metric -> result."""
PageItems = tuple[Mapping[str, Any] | None, tuple[ItemList, ...]]
"""The data of items on a page, and lists of some of them."""
Cells = tuple[TableCell, ...]
Rows = tuple[Cells, ...]
CAPTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = tomllib.loads(resource("captions.toml"))
"""Level -> figure, or list of items -> its title, and how to read it."""
_NOTES = tables.TEXTS["any"]["notes"]
FEW_GROUPS = 10
"""With fewer groups, intervals are wide and tests detect little."""
CONTEXT_CHARS = 180
"""Characters of a context that lists show."""
MOST_CONTEXTS = 4000
"""Contexts that fit on a page; of more, an even choice over the order of distances."""
N_WORST = 10


@dataclass(frozen=True)
class SystemsTable:
    """The table of systems: one row per system, or one per system and probe."""

    columns: tuple[Column, ...]
    rows: Rows
    compared: Compared | None = None
    notes: tuple[str, ...] = ()

    @property
    def letters(self) -> bool:
        """Whether cells have letters."""
        return bool(self.compared and any(self.compared.letters.values()))


class View:
    """How the runs of a level are shown, whatever the level."""

    title: ClassVar[str] = ""
    """The heading of a run; by default the name of the level."""
    items: ClassVar[str] = "items"
    """The plural name of its items."""
    recognized: ClassVar[str] = "(?!)"
    """A regular expression of the metrics that only this level has."""
    captions: ClassVar[Mapping[str, tuple[str, str]]] = CAPTIONS["any"]
    columns: ClassVar[Mapping[str, Sequence[tuple[str, str]]]] = {}
    """Metric -> headings and meanings of its columns; by default one column for every metric."""
    counted: ClassVar[str] = "items"
    """The heading of the column of numbers of items."""
    noted: ClassVar[str] = "overlap"
    """The metric beside the bars of each system in the picture of H, M and C."""
    sides: ClassVar[Mapping[str, str]] = AGREEMENTS
    """The bars of that picture and their labels."""
    people_figures: ClassVar[tuple[str, ...]] = ()
    """Figures of people alone, which show no system."""
    lists_title: ClassVar[str] = "Items least like people"
    hidden_figures: ClassVar[tuple[str, ...]] = ()
    """Figures that are drawn to files but not shown on the page."""
    letters_by: ClassVar[tuple[str, ...]] = ()
    """Patterns of the few metrics by which a page compares systems; by default the leading one."""
    item_stats: ClassVar[tuple[str, ...]] = ()
    """Statistics of items on a page; by default the first two that are saved."""
    worst_by: ClassVar[str] = ""
    """The statistic by which items are listed; by default the first that is lower if better."""
    across: ClassVar[str] = ""
    """The measure against which the explorer plots others, without its probe."""
    lists_all_tables: ClassVar[bool] = False
    """Whether a page shows `tables` too, because they hold more than the table of systems."""
    has_items: ClassVar[bool] = True
    """Whether single items are saved and can be looked at."""
    takes_inputs: ClassVar[bool] = False
    """Whether a page can be limited to some items."""
    not_compared: ClassVar[tuple[str, ...]] = ()
    """Controls without measures that models have too."""
    has_gap: ClassVar[bool] = False
    """Whether the answer fills a gap at the end of the context, after a word with a tag."""

    def __init__(self, level: Level) -> None:
        self.level = level

    @property
    def heading(self) -> str:
        """The heading of a run."""
        return self.title or self.level.name.capitalize()

    @property
    def item(self) -> str:
        """The singular name of its items."""
        return self.items.removesuffix("s")

    # Results -----------------------------------------------------------------------------------

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """Return the results as tables: one row per system, one column per metric."""
        columns, rows = self.system_rows(by_system(results), {})
        headings = tuple(column.heading for column in columns)
        texts = tuple(tuple(cell.plain() for cell in row) for row in rows)
        notes = dict.fromkeys(
            f"[low, high]: {ends.level:.0%} interval, {ends.method.partition(', cut at')[0]}."
            for result in results
            if (ends := result.estimate.interval)
        )
        return [with_cut_note(Table(self.heading, headings, texts, tuple(notes)))]

    def leading_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return what a terminal shows first; `--wide` shows `tables`."""
        return self.tables(results)

    def paper_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return tables for a paper, with an interval beside every value."""
        return self.tables(results)

    def document(self, store: Store, results: Sequence[Result], interval: str) -> dict[str, Any]:
        """Return what `--json` prints of a run, besides its notes."""
        return {"results": [result.to_dict() for result in results]}

    def printed(
        self, store: Store, results: Sequence[Result], interval: str, wide: bool
    ) -> tuple[list[Table], list[str]]:
        """Return the tables and sentences that the command line prints of a run."""
        tables = self.tables(results) if wide else self.leading_tables(results)
        return tables, [self.finding(results), *self.caveats(results)]

    def leading(self, results: Iterable[Result]) -> str:
        """Return the main metric of the level."""
        return self.level.leading or next((result.metric for result in results), "")

    def heading_of(self, metric: str) -> str:
        """Return the name of a metric in figures."""
        return metric

    def finding(self, results: Sequence[Result], compared: Compared | None = None) -> str:
        """Return the main finding in sentences; empty if no system has a value."""
        metric = self.leading(results)
        main = {r.system: r for r in self._models(results, metric) if r.estimate.value is not None}
        if not main:
            return ""
        values = {system: result.estimate.value or 0.0 for system, result in main.items()}
        direction = better(metric)
        if len(main) == 1 or direction is None:
            shown = (f"{s} has a {metric} of {with_interval(r.estimate)}." for s, r in main.items())
            return " ".join(shown).replace(CUT_MARK, "")
        best = (max if direction == "higher" else min)(values, key=lambda system: values[system])
        most = "highest" if direction == "higher" else "lowest"
        return f"Of {len(main)} systems, {best} has the {most} {metric}: {number(values[best])}."

    def caveats(self, results: Sequence[Result]) -> Iterator[str]:
        """Yield caveats on the table: few groups, different items."""
        models = self._models(results, self.leading(results))
        defined = [result for result in models if result.estimate.value is not None]
        yield from _few_groups(defined)
        if on_different_items(defined):
            counts = ", ".join(f"{r.system} {r.estimate.n_items}" for r in defined)
            yield _NOTES["different_items"].format(counts=counts)

    def _models(self, results: Iterable[Result], metric: str) -> list[Result]:
        return [r for r in results if r.metric == metric and r.system not in self.level.controls]

    def systems_table(self, part: ReportPart) -> SystemsTable:
        """Return the table of systems, with letters if two or more can be compared."""
        compared = self.compare(part.leading)
        columns, rows = self.system_rows(
            by_system(part.results), compared.letters if compared else {}
        )
        notes = compared.notes if compared else ()
        marked = any(CUT_MARK in cell.interval for row in rows for cell in row)
        return SystemsTable(columns, rows, compared, (*notes, CUT_NOTE) if marked else notes)

    def system_rows(self, by_metric: ByMetric, letters: Letters) -> tuple[tuple[Column, ...], Rows]:
        """Return the columns and rows of the table of systems."""
        return self._rows(by_metric, letters, self.cells)

    def _rows(
        self, by_metric: ByMetric, letters: Letters, cells: Callable[..., Cells]
    ) -> tuple[tuple[Column, ...], Rows]:
        metrics = dict.fromkeys(metric for _, metric in by_metric)
        shown = {metric: texts for metric, texts in self.columns.items() if metric in metrics}
        shown = shown if self.columns else {metric: [(metric, "")] for metric in metrics}
        numbers = (Column(name, help=text) for texts in shown.values() for name, text in texts)
        rows = []
        for name in systems_of(by_metric):
            values = [cell for m in shown for cell in cells(by_metric, name, m, letters)]
            count = TableCell.count(n_items(by_metric, name))
            rows.append((TableCell(name, name), *values, count))
        return (Column("system", "text"), *numbers, Column(self.counted)), tuple(rows)

    def cells(self, by_metric: ByMetric, system: str, metric: str, letters: Letters) -> Cells:
        """Return a value, and that of a perfect model if the metric has a second column."""
        result = by_metric.get((system, metric))
        value = TableCell.value(result, letters)
        return (
            (value, TableCell.perfect(result))
            if len(self.columns.get(metric, ())) > 1
            else (value,)
        )

    def compare(self, part: ReportPart) -> Compared | None:
        """Compare all pairs of systems by the main metrics; `None` if nothing can be compared."""
        labels = dict.fromkeys(member.label for member in part.members)
        counts = Counter(result.metric for result in part.results if result.system in labels)
        shared = {metric for metric, count in counts.items() if count > 1}
        requested = self.letters_by or (self.leading(part.results),)
        patterns = [pattern for pattern in requested if filter_names(shared, pattern)]
        if not patterns:
            return None
        try:
            return compare(part.stores, list(labels), patterns, seed=part.first.manifest["seed"])
        except UsageError:
            return None  # systems that have no metric in common

    def part_tables(self, part: ReportPart) -> list[Table]:
        """Return tables that are shown below the table of systems."""
        return []

    def run_tables(self, store: Store) -> list[Table]:
        """Return tables about one run, besides those of its results."""
        return []

    # Figures -----------------------------------------------------------------------------------

    def agreement(self, results: Sequence[Result]) -> Picture | None:
        """Return H, M and C of each system; `None` if no system has them."""
        estimates = {(r.system, r.metric): r.estimate for r in results}
        systems = list(dict.fromkeys(r.system for r in self._models(results, "agreement_M")))
        sides = {f"agreement_{side}": text for side, text in self.sides.items()}
        label = "probability that two answers agree"
        bars = parts.agreement_bars("", label, systems, estimates, sides, self.noted)
        return bars if systems else None

    def figures(self, part: ReportPart, track: Track[Any], for_page: bool) -> dict[str, Picture]:
        """Return the data of all figures by name; a page waits for fewer than a folder does."""
        metric = self.leading(part.results)
        estimates = {r.system: r.estimate for r in part.results if r.metric == metric}
        series = {metric: list(estimates.values())}
        return {"leading": parts.interval_dots("", metric, tuple(estimates), series)}

    def curves(self, store: Store) -> dict[str, Any]:
        """Return the reliability diagrams of each system."""
        return {}

    # Tasks -------------------------------------------------------------------------------------

    task_metrics: ClassVar[tuple[str, ...]] = ()
    """Metrics that a page compares between tasks."""

    def task_title(self, stem: str) -> str:
        """Return the heading of a metric, without its probe, in tables of tasks."""
        return self.columns.get(stem, [(stem, "")])[0][0]

    def task_figures(self, parts: Mapping[str, ReportPart]) -> dict[str, Picture]:
        """Return the figures that compare tasks, by name."""
        return {}

    # Items -------------------------------------------------------------------------------------

    def measures(self, saved: Collection[str]) -> tuple[Measure, ...]:
        """Return the measures of items that the saved statistics allow, those that rank first."""
        lead = self.level.leading
        ordered = sorted(saved, key=lambda name: (name != lead, better(name) is None))
        return tuple(Measure(name, name, "a saved statistic") for name in ordered)

    def one_line(self, context: str) -> str:
        """Return a saved context as one line of text."""
        return context

    def excerpt(self, context: str) -> str:
        """Return what a list shows of a saved context: its end, where the answer follows."""
        if len(context) <= CONTEXT_CHARS:
            return context
        return f"… {context[-CONTEXT_CHARS:].lstrip()}"

    def cases(self, store: Store, system: str) -> Iterator[Case]:
        """Yield the items that a system answered, with the distributions of both sides."""
        for item, rows in store.walk_system(system):
            people, model = self.people(item), self.model(item, rows, store)
            if people is not None and model is not None:
                yield Case(item, Pair(item.id, item.group, people, model))

    def people(self, item: Item) -> Categorical | None:
        """Return the distribution of people's answers."""
        return Categorical.from_counts(Counter(item.responses)) if item.responses else None

    def model(self, item: Item, rows: Sequence[Draws], store: Store) -> Categorical | None:
        """Return the distribution of a system's saved answers: the first if there are several."""
        row = next((row for row in rows if row.exact is not None or row.counts), None)
        if row is None:
            return None
        return row.exact.words if row.exact is not None else Categorical.from_counts(row.counts)

    def answers(self, store: Store, no: int) -> ItemAnswers:
        """Return an item by its number, with everything that was answered to it."""
        item, draws = item_and_draws(store, no)
        answers = {name: self.model(item, rows, store) for name, rows in draws.items()}
        systems = {name: answer for name, answer in answers.items() if answer is not None}
        context = (item.context,)
        return ItemAnswers(item.id, item.group, context, item.original, self.people(item), systems)

    def page_items(self, part: ReportPart, inputs: Sequence[str]) -> PageItems:
        """Return the data of the items that a page shows, and lists of some of them."""
        stats = self._item_stats(part.first) if part.members else ()
        if not stats:
            return None, ()
        worst_by = self._worst_by(stats)
        lists = (self._worst(member, worst_by) for member in part.members if worst_by)
        return self.contexts(part), tuple(lists)

    def _worst_by(self, stats: Sequence[Measure]) -> str:
        lower = (measure.column for measure in stats if better(measure.column) == "lower")
        return self.worst_by or next(lower, "")

    def _item_stats(self, store: Store) -> tuple[Measure, ...]:
        available = {measure.column: measure for measure in self.measures(store.stat_columns())}
        names = self.item_stats or tuple(islice(available, 2))
        return tuple(available[name] for name in names if name in available)

    def contexts(self, part: ReportPart, most: int = MOST_CONTEXTS) -> dict[str, Any]:
        """Return the likeliest and the shared answers per item, as numbers into one list."""
        stats = self._item_stats(part.first)
        worst_by, numbers = self._worst_by(stats) or stats[0].column, dict[str, int]()
        values = [{stat.column: m.values(stat.column) for stat in stats} for m in part.members]
        distances = [member.values(worst_by) for member in part.members]
        chosen = page_data.evenly_chosen(distances, most)
        items: dict[str, dict[str, Any]] = {}
        for place, member in enumerate(part.members):
            for case in self._first_cases(member, chosen):
                empty = page_data.people_data(case, numbers, len(part.members))
                row = items.setdefault(case.item.id, empty)
                shown = {
                    name: tables.short(v.get(case.item.id)) for name, v in values[place].items()
                }
                row["systems"][place] = shown | page_data.model_data(case, numbers)
        return {
            "kind": "answers",
            "item": self.item.capitalize(),
            "has_gap": self.has_gap,
            "systems": [printable(member.label) for member in part.members],
            "words": [page_data.answer_name(word) for word in numbers],
            "items": list(items.values()),
            "total": len({item_id for by_item in distances for item_id in by_item}),
            "measures": [{"key": stat.column, "heading": stat.heading} for stat in stats],
            "listed": worst_by,
        }

    def _first_cases(self, member: ShownSystem, chosen: set[str] | None) -> Iterator[Case]:
        """Yield one case per item: the first if a recording has several rows of it."""
        seen: set[str] = set()
        for case in member.cases:
            if case.item.id not in seen and (chosen is None or case.item.id in chosen):
                seen.add(case.item.id)
                yield case

    def _worst(self, member: ShownSystem, stat: str) -> ItemList:
        """Return the items of a system with the highest values of a statistic."""
        values = {k: v for k, v in member.values(stat).items() if v is not None}
        chosen = set(heapq.nlargest(N_WORST, values, key=lambda item_id: values[item_id]))
        cases = list(self._first_cases(member, chosen))
        rows = (
            (
                *(case.item.id, number(values[case.item.id]), self.excerpt(case.item.context)),
                *(page_data.first_answers(side) for side in (case.pair.human, case.pair.model)),
            )
            for case in sorted(cases, key=lambda case: -values[case.item.id])
        )
        heading = next(o.heading for o in self.measures([stat]) if o.column == stat)
        texts = (Column(name, "text") for name in ("context", "people", "model"))
        columns = (Column("item"), Column(heading), *texts)
        return ItemList(member.label, "", columns, tuple(rows))


@cache
def view_of(command: str) -> View:
    """Return the view that is registered for a command, else the default view."""
    is_known = command in registry.names("views")
    view: View = (registry.find("views", command) if is_known else View)(find_level(command))
    return view


def view_of_run(store: Store) -> View:
    """Return the view of a saved run."""
    return view_of(level_of(store).job_type.command)


def view_of_results(results: Iterable[Result]) -> View:
    """Return the view of the level that has such metrics."""
    metrics = {result.metric for result in results}
    views = [view_of(name) for name in registry.names("views")]
    other = type("OtherView", (View,), {"title": "Results"})(views[0].level)
    known = (v for v in views if any(re.fullmatch(v.recognized, metric) for metric in metrics))
    return next(known, other)


def by_system(results: Iterable[Result]) -> dict[tuple[str, str], Result]:
    """Return results by system and metric."""
    return {(result.system, result.metric): result for result in results}


def systems_of(by_metric: ByMetric) -> list[str]:
    """Return the systems of results, in their order."""
    return list(dict.fromkeys(system for system, _ in by_metric))


def n_items(by_metric: ByMetric, system: str) -> int:
    """Return the number of items that the row of a system counts."""
    return tables.counted(r for (name, _), r in by_metric.items() if name == system).n_items


def on_different_items(results: Sequence[Result]) -> bool:
    """Whether a system lacks items that another may have."""
    counts = {result.estimate.n_items for result in results}
    return len(results) > 1 and (len(counts) > 1 or any(r.estimate.n_missing for r in results))


def _few_groups(results: Sequence[Result]) -> Iterator[str]:
    few = {r.system: r.estimate.n_groups for r in results if r.estimate.n_groups < FEW_GROUPS}
    if not few:
        return
    most = max(few.values())
    which = "" if len(few) == len(results) else f"{tables.listed(list(few))}: "
    yield _NOTES["one_group" if most == 1 else "few_groups"].format(which=which, most=most)
