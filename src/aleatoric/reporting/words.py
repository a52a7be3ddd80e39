"""How word-level runs are shown: tables, findings, contexts; and fine-tuning runs with curves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import isclose
from pathlib import Path
from typing import Any

from aleatoric.inference.estimate import CUT_MARK, at_level, with_cut_note
from aleatoric.levels.word import cases
from aleatoric.levels.word_results import WIDE, WIDEST_LOSS
from aleatoric.levels.word_scoring import HUMAN, ORACLE, pair_of
from aleatoric.nextword.answers import human_counts
from aleatoric.registry import Track
from aleatoric.reporting import finetune, tables, views, word_figures
from aleatoric.reporting.page_data import Measure
from aleatoric.reporting.parts import ReportPart
from aleatoric.reporting.tables import Letters, TableCell, listed, number, with_interval
from aleatoric.reporting.views import ByMetric, Cells, View, by_system, systems_of
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies.by_agreement import by_agreement
from aleatoric.studies.compare import ALPHA, Compared, dependent_draws, is_dependent
from aleatoric.studies.figure_data import Picture
from aleatoric.types import Case, Categorical, Choices, Draws, Item

_NOTES = tables.TEXTS["word"]["notes"]
_LEADING = ("overlap", "sq_distance", "log_loss", "tvd")
_MEASURES = [Measure(key, *facts) for key, facts in tables.TEXTS["word"]["measures"].items()]


class WordView(View):
    """Next words: overlap and distance to people, with the papers' metrics and figures."""

    title = "Next words"
    items = "contexts"
    recognized = "(overlap|agreement_H|tvd|ece_original|ece_human)[^/]*"
    lists_title = "Contexts least like people"
    captions = views.CAPTIONS["word"]
    columns = tables.TEXTS["word"]["columns"]
    hidden_figures = ("fig1_context", "figH_passage")
    letters_by = ("overlap", "sq_distance", "log_loss")
    item_stats = ("sq_distance", "tvd")
    worst_by = "tvd"
    across = "entropy_human"
    not_compared = (HUMAN,)
    has_gap = True

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """Return the table of systems, with the interval of the overlap."""
        return [self._table(results, self.cells, self.columns["overlap"][0][:1])]

    def leading_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return overlap, squared distance, log loss and TVD; the rest is left to `--wide`."""
        (table,), leading = self.tables(results), [self.columns[m][0][0] for m in _LEADING]
        rest = tuple(name for name in table.columns[1:-1] if name not in leading)
        notes = ["overlap: 1 for a perfect model.", "D²: squared distance, 0 for a perfect model."]
        if any(result.metric == "log_loss" for result in results):
            notes.append("log loss: people's mean negative log-probability in nats, if exact.")
        meaning = "TVD: the papers' metric, from its debiased to its plain value; not for ranking."
        counts = self._count_note(results, ("log_loss", "tvd"))
        shown = (*notes, meaning, *counts, *_interval_note(results))
        return [with_cut_note(replace(table, wide=rest, notes=shown))]

    def paper_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return the table of systems, with an interval beside every value."""
        return [
            self._table(results, super().cells, [c[0] for cs in self.columns.values() for c in cs])
        ]

    def _table(
        self,
        results: Sequence[Result],
        cells: Callable[..., Cells],
        with_intervals: Collection[str],
    ) -> Table:
        columns, rows = self._rows(by_system(results), {}, cells)
        names = tuple(column.heading for column in columns)
        texts = tuple(
            tuple(c.plain(name in with_intervals) for name, c in zip(names, row, strict=True))
            for row in rows
        )
        return with_cut_note(Table("Word level", names, texts, self._notes(results)))

    def cells(self, by_metric: ByMetric, system: str, metric: str, letters: Letters) -> Cells:
        """Return values; a TVD or a log loss that is not known exactly is a range."""
        cell, *perfect = super().cells(by_metric, system, metric, letters)
        if metric == "tvd" and (result := by_metric.get((system, metric))):
            # The true value lies between the debiased and the plain one.
            other, plain = by_metric.get((system, "tvd_debiased")), result.estimate.value
            same = other and other.estimate.n_items == result.estimate.n_items
            low = other.estimate.value if other and same else None
            text = number(plain) if low is None else tables.between(max(0.0, low), plain)
            cell = replace(cell, text=text, interval="")
        if metric == "log_loss":
            cell = _loss_range(cell, by_metric, system)
        return (cell, *perfect)

    def heading_of(self, metric: str) -> str:
        """Return the name of a metric in figures."""
        heading: str = self.columns.get(metric, [(metric, "")])[0][0]
        return heading.rstrip(" ↓↑")

    def finding(self, results: Sequence[Result], compared: Compared | None = None) -> str:
        """Say who is closest to people, and who varies more or less than people."""
        defined = [result for result in results if result.estimate.value is not None]
        main = {result.system: result for result in self._models(defined, "overlap")}
        if not main:
            return ""
        first = closest(main, compared) if len(main) > 1 else _alone(*next(iter(main.items())))
        independent = [system for system, result in main.items() if not is_dependent(result)]
        gaps = {
            r.system: r for r in defined if r.metric == "agreement_gap" and r.system in independent
        }
        directions = {system: _direction(r, len(gaps)) for system, r in gaps.items()}
        return " ".join([first, *variability(directions)])

    def caveats(self, results: Sequence[Result]) -> Iterator[str]:
        """Yield caveats on dependent draws and single answers, then those of all levels."""
        overlaps = self._models(results, "overlap")
        yield from dependent_draws({r.system: r for r in overlaps if r.estimate.value is not None})
        controls = ((HUMAN, "agreement_H"), (ORACLE, "overlap"))
        people = [r for r in results if (r.system, r.metric) in controls]
        counted = [f"{r.system} {n}" for r in (*people, *overlaps) if (n := r.estimate.n_undefined)]
        if counted:
            yield (
                "Overlap, squared distance and agreements need two people and two draws per item, "
                "for the oracle four people, because it compares two halves of them. Items that "
                f"lack them ({', '.join(counted)}) count at most in TVD and ECE."
            )
        yield from super().caveats(results)

    def _notes(self, results: Sequence[Result]) -> tuple[str, ...]:
        has_loss = any(result.metric == "log_loss" for result in results)
        notes = [note for name, note in _NOTES.items() if has_loss or name != "log_loss"]
        return (*notes, *self._count_note(results, self.columns), *_interval_note(results))

    def _count_note(self, results: Sequence[Result], metrics: Iterable[str]) -> Iterator[str]:
        """Say which metrics are over other numbers of items than the one in the table."""
        found = by_system(results)
        counts: dict[str, list[str]] = {}
        for metric, system in product(metrics, systems_of(found)):
            n_items = found[system, metric].estimate.n_items if (system, metric) in found else 0
            if n_items not in (0, views.n_items(found, system)):
                counts.setdefault(self.heading_of(metric), []).append(f"{system} {n_items:,}")
        if counts:
            named = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in counts.items())
            yield f"items: those of a row's first value; some columns have other numbers ({named})."

    def part_tables(self, part: ReportPart) -> list[Table]:
        """Return the leading metrics by quartiles of human agreement."""
        if not part.members:
            return []
        shown: dict[Path, list[str]] = {store.path: [] for store in part.stores}
        for member in part.members:
            shown[member.store.path].append(member.system)
        tables = [by_agreement(store, shown[store.path]) for store in part.stores]
        return [replace(tables[0], rows=tuple(row for table in tables for row in table.rows))]

    def figures(self, part: ReportPart, track: Track[Any], for_page: bool) -> dict[str, Picture]:
        """Return the papers' figures; the learning curve takes too long for a page."""
        studies = word_figures.PAGE_STUDIES if for_page else word_figures.STUDIES
        return word_figures.word_figures(part, track, studies=studies)

    def measures(self, saved: Collection[str]) -> tuple[Measure, ...]:
        """Return the measures of contexts that the saved statistics allow."""
        return tuple(measure for measure in _MEASURES if measure.column in saved)

    def cases(self, store: Store, system: str) -> Iterator[Case]:
        """Yield the contexts that a system answered, with the words of both sides."""
        return cases(store, system)

    def people(self, item: Item) -> Categorical | None:
        """Return the distribution of people's words."""
        if not item.responses:
            return None
        return Categorical.from_counts(human_counts(item.responses))

    def model(self, item: Item, rows: Sequence[Draws], store: Store) -> Categorical | None:
        """Return the distribution of a system's words: the first if repeated rows are separate."""
        if not item.responses:
            return None
        pairs = pair_of(item, rows, Choices(**store.manifest["choices"]))
        return next((pair.model for pair in islice(pairs, 1)), None)


class FinetuneView(WordView):
    """Next words of fine-tuned models: also the differences from the base, and curves."""

    def document(self, store: Store, results: Sequence[Result], interval: str) -> dict[str, Any]:
        """Return the results, the differences from the base, and the facts of training."""
        compared = finetune.differences(store, interval)
        comparisons = compared.to_dict()["comparisons"] if compared else []
        more = {"comparisons": comparisons, "finetuning": store.meta(FINETUNING) or {}}
        return super().document(store, results, interval) | more

    def printed(
        self, store: Store, results: Sequence[Result], interval: str, wide: bool
    ) -> tuple[list[Table], list[str]]:
        """Return the systems, then the curves as means over folds."""
        return finetune.shown_tables(store, interval, results), []

    def run_tables(self, store: Store) -> list[Table]:
        """Return the systems and mean curves of a fine-tuning run."""
        return finetune.shown_tables(store)

    def run_figures(self, store: Store) -> dict[str, Picture]:
        """Return losses and perplexities by epoch."""
        return finetune.curve_pictures(store)


def _loss_range(cell: TableCell, by_metric: ByMetric, system: str) -> TableCell:
    """Return the cell of a log loss, as the range of its bounds unless it is not reported."""
    results = (by_metric.get((system, f"log_loss_{end}")) for end in ("low", "high"))
    low, high = (result.estimate.value if result else None for result in results)
    if low is None or high is None or not WIDE < high - low <= WIDEST_LOSS:
        return cell
    return replace(cell, text=tables.between(low, high), interval="")


def _interval_note(results: Sequence[Result]) -> Iterator[str]:
    """Say how intervals were computed, and for which systems if the method differs."""
    methods: dict[str, list[str]] = {}
    for result in results:
        if result.metric == "overlap" and result.estimate.interval:
            method = re.split(", cut at|, extended to", result.estimate.interval.method)[0]
            methods.setdefault(method, []).append(result.system)
    if methods:
        named = (f"{method} ({', '.join(systems)})" for method, systems in methods.items())
        yield f"[low, high]: 95% interval, {'; '.join(named if len(methods) > 1 else methods)}."


def _alone(system: str, result: Result) -> str:
    interval, value = result.estimate.interval, with_interval(result.estimate).rstrip(CUT_MARK)
    sentence = f"{system} overlaps with people by {value}; a perfect model would have 1."
    if interval is None:
        return sentence
    if interval.high < 1:
        return f"{sentence} It is significantly below that."
    if is_dependent(result):
        return f"{sentence} It is significantly above that, so that its draws are not independent."
    return f"{sentence} It does not differ significantly from that."


def closest(overlap_results: Mapping[str, Result], compared: Compared | None) -> str:
    """Say who is closest to people by overlap, on common items; ties are named as ties."""
    independent = {s: r for s, r in overlap_results.items() if not is_dependent(r)}
    if compared is None and views.on_different_items(list(overlap_results.values())):
        return "The systems were measured on different items; aleatoric compare ranks them."
    values = compared.values.get("overlap", {}) if compared else {}
    overlaps = {s: v for s, v in values.items() if v is not None and s in independent}
    overlaps = overlaps or {s: r.estimate.value or 0.0 for s, r in independent.items()}
    if not overlaps:
        return "No system has draws that are independent of the people and of each other."
    ordered = [s for s in (compared.order.get("overlap", ()) if compared else ()) if s in overlaps]
    best = next(iter(ordered), max(overlaps, key=lambda system: overlaps[system]))
    highest = _highest(best, overlaps)
    if compared is None:
        return f"{highest}; aleatoric compare tests the differences between systems."
    if letters := compared.letters.get("overlap", {}):
        verdict = _with_ties(best, overlaps, letters)
        shared = compared.n_items.get("overlap")
        if views.on_different_items(list(overlap_results.values())) and shared:
            return f"On the {shared:,} items that all systems share, {verdict}"
        return verdict
    return f"{highest}, but no test is possible here, so that the order of systems is not certain."


def _highest(best: str, overlaps: Mapping[str, float]) -> str:
    """Say whose overlap is the highest, or that all overlaps are equal."""
    equal = [system for system, overlap in overlaps.items() if isclose(overlap, overlaps[best])]
    which = "same" if len(equal) == len(overlaps) > 1 else "highest"
    have = f"{listed(equal)} {'has' if len(equal) == 1 else 'have'}"
    return f"{have} the {which} overlap with people ({number(overlaps[best])} of 1)"


def _with_ties(best: str, overlaps: Mapping[str, float], letters: Mapping[str, str]) -> str:
    if len(overlaps) > 1 and isclose(min(overlaps.values()), max(overlaps.values())):
        return f"{_highest(best, overlaps)}."
    first = set(letters.get(best, ""))
    tied = [s for s in overlaps if s != best and first & set(letters.get(s, ""))]
    if tied:
        ordered = sorted([best, *tied], key=lambda system: -overlaps[system])
        names = listed([f"{system} ({number(overlaps[system])})" for system in ordered])
        return f"{names} have the highest overlap with people and do not differ significantly."
    n = len(overlaps) - 1
    others = "the other system" if n == 1 else f"all {n} other systems"
    return (
        f"{best} is closest to people: its overlap is {number(overlaps[best])} of 1, "
        f"significantly higher than that of {others}."
    )


def _direction(result: Result, n_systems: int) -> str:
    """Return how the variability of a system differs, adjusted for the number of systems."""
    interval = at_level(result.estimate, 1 - ALPHA / n_systems).interval
    if interval is None:
        return "unknown"
    return "less" if interval.low > 0 else "more" if interval.high < 0 else "same"


def variability(directions: Mapping[str, str]) -> Iterator[str]:
    """Say in one sentence which systems vary more or less than people."""
    phrases = {
        "more": ("varies", "vary", "more than people"),
        "less": ("varies", "vary", "less than people"),
        "same": ("does", "do", "not differ significantly from people in variability"),
    }
    clauses = []
    for direction, (singular, plural, ending) in phrases.items():
        systems = [system for system, value in directions.items() if value == direction]
        if systems:
            clauses.append(
                f"{listed(systems)} {singular if len(systems) == 1 else plural} {ending}"
            )
    if clauses:
        yield f"{'; '.join(clauses)}."
