"""How word-level runs are shown: tables, findings, figures, contexts; fine-tuning with curves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.inference.estimate import CUT_MARK, at_level, with_cut_note
from aleatoric.levels.base import level_of
from aleatoric.levels.word import cases, word_study
from aleatoric.levels.word_results import WIDE, WIDEST_LOSS
from aleatoric.levels.word_scoring import HUMAN, ORACLE, pair_of
from aleatoric.metrics.agreement import chao_shen
from aleatoric.metrics.distances import tvd
from aleatoric.nextword.answers import human_counts
from aleatoric.registry import Track, quietly
from aleatoric.reporting import finetune, tables, views
from aleatoric.reporting.page_data import Measure
from aleatoric.reporting.parts import ReportPart, ShownSystem, values
from aleatoric.reporting.tables import Letters, TableCell, listed, number, with_interval
from aleatoric.reporting.views import ByMetric, Cells, View, by_system, systems_of
from aleatoric.result_types import Result, Table
from aleatoric.runs.results_cache import cached_figures
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies import figure_data
from aleatoric.studies.by_agreement import by_agreement
from aleatoric.studies.compare import ALPHA, Compared, dependent_notes, is_dependent
from aleatoric.studies.figure_data import HeatMap, Panels, Picture, WordBars, histograms
from aleatoric.studies.people import split_tvds
from aleatoric.types import FAILED, Case, Categorical, Choices, Draws, Floats, Item, Row

TOP = 15
MOST_PASSAGES = 80
PAGE_STUDIES = ("replacement", "subsampling", "ard", "biased")
"""Studies that a page waits for; the learning curve takes longer than all others together."""
STUDIES = (*PAGE_STUDIES, "learning-curve")
_STUDY_PACKAGES = ("scikit-learn", "textblob", "nltk", "spacy")
_ABSTRACT = {"tvd_syn": "TVD of parts of speech", "tvd_sem": "TVD of clusters of meaning"}


def word_figures(
    part: ReportPart, track: Track[Any] = quietly, studies: Sequence[str] = STUDIES
) -> dict[str, Picture]:
    """Return the figures of all systems together, then of each system, by name.

    A study that does not apply to a system (such as subsampling of an exact one) is left out.
    """
    by_label = {member.label: member.cases for member in part.members}
    # Fig. 2: densities of TVD to people, and of the oracle under its first split.
    lines = tuple(
        figure_data.density(name, sample) for name, sample in samples_of(part, "tvd").items()
    )
    densities = figure_data.Lines("TVD to people, by context", "TVD", "density", lines)
    figures: dict[str, Picture] = {"fig2_tvd_kde": densities}
    with suppress(UsageError):  # where no context has two answers
        figures["fig12_tvd_differences"] = tvd_differences(by_label, part.first.manifest["seed"])
    if part.first.manifest["abstractions"]:
        figures["fig4_abstractions"] = abstraction_histograms(part)
    for member in track(part.members, len(part.members), "study systems"):
        pictures = dict(_system_pictures(member, studies))
        if member is not part.members[0]:
            pictures.pop("figH_passage", None)  # many sheets: one system's are enough
        figures |= {f"{name}{part.ending(member)}": picture for name, picture in pictures.items()}
    return figures


def _system_pictures(member: ShownSystem, studies: Sequence[str]) -> Iterator[tuple[str, Picture]]:
    """Yield the figures of one system: passages, words of contexts, then those of studies."""
    yield from heat_maps(member)
    if not (contexts := member.cases):
        return
    bars = tuple(word_bars(case, member.label) for case in typical_contexts(contexts))
    yield "fig1_context", Panels("", bars)
    yield "figH_passage", passage_bars(contexts, member.label)
    yield from _study_pictures(member, studies).items()


def _study_pictures(member: ShownSystem, studies: Sequence[str]) -> dict[str, Picture]:
    """Return the figures of studies, which are cached in the run: they take most of the time."""
    key, store = f"{' '.join(studies)} {member.system}", member.store
    code = registry.code_id((*level_of(store).packages, *_STUDY_PACKAGES))
    saved = cached_figures(
        store, key, code, lambda: figure_data.dump_pictures(_studied(member, studies))
    )
    try:
        return dict(figure_data.load_pictures(saved))
    except (ValueError, RecursionError):  # a file that others changed
        return _studied(member, studies)


def _studied(member: ShownSystem, studies: Sequence[str]) -> dict[str, Picture]:
    figures: dict[str, Picture] = {}
    for name in studies:
        with suppress(UsageError):
            figures |= word_study(name, member.cases, member.store.manifest).figures
    return figures


def samples_of(part: ReportPart, metric: str) -> dict[str, Floats]:
    """Return the values of a metric per item, of the oracle and then of every system."""
    by_system = {m.label: values(m.store, m.system, metric) for m in part.members}
    return {ORACLE: values(part.first, ORACLE, metric), **by_system}


def heat_maps(member: ShownSystem) -> Iterator[tuple[str, HeatMap]]:
    """Yield TVD per passage and context, if passages have several contexts."""
    rows: dict[str, list[Row]] = {}
    for row in member.store.rows(member.system, "tvd"):
        rows.setdefault(row.group, []).append(row)
    several = {group: p for group, p in rows.items() if len(p) > 1}
    tvds = {g: [row.value for row in p if row.value is not None] for g, p in several.items()}
    means = {group: float(np.mean(p or [0.0])) for group, p in tvds.items()}
    shown = set(sorted(means, key=lambda group: -means[group])[:MOST_PASSAGES])
    if shown:
        # The passages with the greatest distances, in the order of the corpus.
        chosen = [p for group, p in several.items() if group in shown]
        cells = tuple(tuple(np.nan if r.value is None else r.value for r in p) for p in chosen)
        ids = tuple(tuple(row.item_id for row in p) for p in chosen)
        names, labels = tuple(g for g in several if g in shown), ("passage", "TVD")
        yield (
            "passages",
            HeatMap(member.label, "context of the passage", *labels, names, cells, ids),
        )


def tvd_differences(by_system: dict[str, list[Case]], seed: int) -> figure_data.Histograms:
    """Fig. 12: TVD(model, people) minus the mean TVD(half of the people, people), per context."""
    samples = {}
    for name, contexts in by_system.items():
        if contexts:
            tvds = split_tvds(contexts, seed)
            model = np.array([tvd(case.pair) for case in tvds.cases])
            samples[name] = model - tvds.oracle_all.mean(axis=1)
    label = "TVD(model, people) − TVD(half of the people, people)"
    # The first slot is the oracle's in every figure, also where it is not shown.
    slots = range(1, len(samples) + 1)
    return histograms("TVD differences", label, samples, np.linspace(-1, 1, 41), slots)


def abstraction_histograms(part: ReportPart) -> Panels:
    """Fig. 4: TVD of classes of words, of the oracle and of every system."""
    panels = [
        histograms(
            _ABSTRACT.get(metric, metric), metric, samples_of(part, metric), figure_data.TVD_EDGES
        )
        for metric in part.first.manifest["abstractions"]
    ]
    return Panels("", tuple(panels))


def word_bars(case: Case, system: str) -> WordBars:
    """Fig. 1: the most probable words of people and of the model, with both shares of each."""
    human, model = case.pair.human.as_dict(), case.pair.model.as_dict()
    sides = (human, model)
    likely = {w for side in sides for w in sorted(side, key=lambda word: -side[word])[:TOP]}
    words = sorted(likely, key=lambda w: (-human.get(w, 0.0), -model.get(w, 0.0), w))
    shown = tuple("(no word)" if word == FAILED else word for word in words)
    shares = [figure_data.plain([side.get(word, 0.0) for word in words]) for side in sides]
    return WordBars(case.item.context, system, shown, shares[0], shares[1], tvd(case.pair))


def typical_contexts(cases: Sequence[Case]) -> list[Case]:
    """Return an open context and a constrained one: at 90% and 10% of people's entropy."""
    ordered = sorted(cases, key=lambda case: chao_shen(case.pair.human))
    picks = {round(share * (len(ordered) - 1)) for share in (0.9, 0.1)}
    return [ordered[i] for i in sorted(picks, reverse=True)]


def passage_bars(cases: Sequence[Case], system: str) -> Panels:
    """App. H: the words of every context of the first passage."""
    first = cases[0].pair.group
    bars = tuple(word_bars(case, system) for case in cases if case.pair.group == first)
    return Panels(f"Passage {first}", bars, columns=3)


_NOTES = tables.TEXTS["word"]["notes"]
_LEADING_NOTES = tables.TEXTS["word"]["leading"]
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
        has_loss = any(result.metric == "log_loss" for result in results)
        notes = (text for name, text in _LEADING_NOTES.items() if has_loss or name != "log_loss")
        counts = self._count_note(results, ("log_loss", "tvd"))
        shown = (*notes, *counts, *_interval_note(results))
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
        yield from dependent_notes({"overlap": [r.system for r in overlaps if is_dependent(r)]})
        controls = ((HUMAN, "agreement_H"), (ORACLE, "overlap"))
        people = [r for r in results if (r.system, r.metric) in controls]
        counted = [f"{r.system} {n}" for r in (*people, *overlaps) if (n := r.estimate.n_undefined)]
        if counted:
            note: str = tables.TEXTS["any"]["notes"]["undefined_people"]
            yield note.format(counts=", ".join(counted))
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
        studies = PAGE_STUDIES if for_page else STUDIES
        return word_figures(part, track, studies=studies)

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
        return f"{sentence} It is far above that: its draws do not seem to be independent."
    if interval.low > 1:
        return f"{sentence} It is above that, as a few percent of perfect models are by chance."
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
    same = "not differ significantly from people in variability"
    phrases = {
        "more": ("varies more than people", "vary more than people"),
        "less": ("varies less than people", "vary less than people"),
        "same": (f"does {same}", f"do {same}"),
    }
    if found := clauses(phrases, directions):
        yield f"{found}."


def clauses(phrases: Mapping[str, tuple[str, str]], values: Mapping[str, str]) -> str:
    """Say which systems have each value, in a phrase for one and one for several systems."""
    found = []
    for value, (singular, plural) in phrases.items():
        if systems := [system for system, own in values.items() if own == value]:
            found.append(f"{listed(systems)} {singular if len(systems) == 1 else plural}")
    return "; ".join(found)
