"""How word-level runs are shown: tables, findings, contexts; and fine-tuning runs with curves."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import isclose
from pathlib import Path
from typing import Any

from aleatoric.inference.estimate import CUT_MARK, at_level, with_cut_note
from aleatoric.levels.word import cases
from aleatoric.levels.word_results import WIDE
from aleatoric.levels.word_scoring import HUMAN, ORACLE, pair_of
from aleatoric.nextword.answers import human_counts
from aleatoric.registry import Track, quietly
from aleatoric.reporting import finetune, tables, views, word_figures
from aleatoric.reporting.page_data import Measure
from aleatoric.reporting.parts import ReportPart
from aleatoric.reporting.tables import Column, Letters, TableCell, listed, number, with_interval
from aleatoric.reporting.views import ByMetric, Rows, View, by_system, systems_of
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies.by_agreement import by_agreement
from aleatoric.studies.compare import ALPHA, Compared, dependent_draws, is_dependent
from aleatoric.studies.figure_data import Picture
from aleatoric.types import Case, Categorical, Choices, Draws, Item

PERFECT = "TVD if perfect"
_PERFECT_HELP = "the plain TVD that a perfect model would have with as many people and draws"
_M_HELP = "how often two draws of the model agree; below H: it varies more than people"
_RANK_HELP = "rank of people's most frequent word in the model's list; none if it was never drawn"
_LOG_LOSS_NOTE = (
    "log loss: people's mean negative log-probability in nats, for exact models; bounds of "
    "D², M, C, log loss and TVD are in --json (sq_distance_low, sq_distance_high, …)."
)
_COLUMNS = {
    "overlap": ("overlap ↑", "2 ΣC / Σ(H + M): 1 for a perfect model, 0 if nothing is shared"),
    "sq_distance": ("D² ↓", "squared distance H + M − 2C: 0 on average for a perfect model"),
    "log_loss": ("log loss ↓", "people's mean negative log-probability under the model, in nats"),
    "agreement_H": ("H", "how often two people agree"),
    "agreement_M": ("M", _M_HELP),
    "agreement_C": ("C", "how often a draw of the model agrees with a person"),
    "tvd": ("TVD", "the papers' metric, from its debiased to its plain value; not for ranking"),
    "tvd_syn": ("TVD syn", ""),
    "tvd_sem": ("TVD sem", ""),
    "ece_original": ("ECE original", "calibration to the word of the text"),
    "ece_human": ("ECE human", "calibration to people's most frequent word"),
    "ece_oracle": ("ECE oracle", "calibration to the most frequent word of one half of the people"),
}
"""Metric -> heading and meaning, in the order of the table of systems."""
_LEADING = [_COLUMNS[metric][0] for metric in ("overlap", "sq_distance", "log_loss", "tvd")]
_MEASURES = (
    Measure("sq_distance", "D²", _COLUMNS["sq_distance"][1]),
    Measure("H", "H", _COLUMNS["agreement_H"][1], "agreement_H"),
    Measure("M", "M", "how often two draws of the model agree", "agreement_M"),
    Measure("C", "C", _COLUMNS["agreement_C"][1], "agreement_C"),
    Measure("log_loss", "log loss", "people's mean negative log-probability"),
    Measure("tvd", "TVD", "share of probability that would have to move to match people"),
    Measure("entropy_human", "H people", "entropy of people's answers, in nats"),
    Measure("entropy_model", "H model", "entropy of the model's answers, in nats"),
    Measure("tvd_syn", "TVD syn", "TVD of parts of speech"),
    Measure("tvd_sem", "TVD sem", "TVD of clusters of meaning"),
    Measure("mass", "on people's", "model's probability of people's words", "mass_on_human"),
    Measure("rank", "rank", _RANK_HELP, "rank_of_human_mode", 0),
    Measure("n_human", "people", "answers of people", digits=0),
    Measure("n_model", "draws", "draws of the model; none if it is exact", digits=0),
)


class WordView(View):
    """Next words: overlap and distance to people, with the papers' metrics and figures."""

    title = "Next words"
    items = "contexts"
    lists_title = "Contexts least like people"
    captions = views.CAPTIONS["word"]
    hidden_figures = ("fig1_context", "figH_passage")
    letters_by = ("overlap", "sq_distance", "log_loss")
    item_stats = ("sq_distance", "tvd")
    worst_by = "tvd"
    across = "entropy_human"
    not_compared = (HUMAN,)
    has_gap = True
    tags_items = True

    @classmethod
    def recognizes(cls, metrics: Collection[str]) -> bool:
        """Whether metrics of words are among these."""
        prefixes = ("overlap", "agreement_H", "tvd", "ece_original", "ece_human")
        return any(metric.startswith(prefixes) and "/" not in metric for metric in metrics)

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """Return the table of systems."""
        return [word_table(results)]

    def leading_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return overlap, squared distance, log loss and TVD; the rest is left to `--wide`."""
        table = word_table(results)
        rest = (name for name in table.columns[1:-1] if name not in _LEADING)
        return [with_cut_note(replace(table, wide=tuple(rest), notes=_leading_notes(results)))]

    def paper_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return the table of systems, with an interval beside every value."""
        return [word_table(results, for_paper=True)]

    def heading_of(self, metric: str) -> str:
        """Return the name of a metric in figures."""
        return _COLUMNS.get(metric, (metric,))[0].rstrip(" ↓↑")

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

    def system_rows(self, by_metric: ByMetric, letters: Letters) -> tuple[tuple[Column, ...], Rows]:
        """Return overlap and squared distance first, the papers' metrics after them."""
        return word_rows(by_metric, letters)

    def part_tables(self, part: ReportPart) -> list[Table]:
        """Return the leading metrics by quartiles of human agreement."""
        if not part.members:
            return []
        shown: dict[Path, list[str]] = {store.path: [] for store in part.stores}
        for member in part.members:
            shown[member.store.path].append(member.system)
        tables = [by_agreement(store, shown[store.path]) for store in part.stores]
        return [replace(tables[0], rows=tuple(row for table in tables for row in table.rows))]

    def figures(
        self, part: ReportPart, track: Track[Any] = quietly, for_page: bool = False
    ) -> dict[str, Picture]:
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


def word_table(
    results: Sequence[Result], title: str = "Word level", for_paper: bool = False
) -> Table:
    """One row per system; for a paper, every value has its interval."""
    columns, rows = word_rows(by_system(results), {}, with_ranges=not for_paper)
    headings = tuple(column.heading for column in columns)
    shown = [for_paper or heading == _COLUMNS["overlap"][0] for heading in headings]
    texts = tuple(
        tuple(cell.plain(ends) for cell, ends in zip(row, shown, strict=True)) for row in rows
    )
    return with_cut_note(Table(title, headings, texts, _notes(results)))


def word_rows(
    by_metric: ByMetric, letters: Letters, with_ranges: bool = True
) -> tuple[tuple[Column, ...], Rows]:
    """Return columns and cells; with ranges, TVD goes from its debiased to its plain value."""
    available = {metric for _, metric in by_metric}
    columns = [Column("system", "text")]
    metrics = [metric for metric in _COLUMNS if metric in available]
    for metric in metrics:
        heading, meaning = _COLUMNS[metric]
        columns.append(Column(heading, help=meaning))
        columns += [Column(PERFECT, help=_PERFECT_HELP)] if metric == "tvd" else []
    rows = []
    for name in systems_of(by_metric):
        cells = [TableCell(name, name)]
        for metric in metrics:
            result = by_metric.get((name, metric))
            cell = TableCell.value(result, letters)
            if metric == "tvd" and result and with_ranges:
                # The true value lies between the debiased and the plain one.
                other = by_metric.get((name, "tvd_debiased"))
                plain = result.estimate.value
                same = other and other.estimate.n_items == result.estimate.n_items
                low = other.estimate.value if other and same else None
                text = number(plain) if low is None else tables.between(max(0.0, low), plain)
                cell = replace(cell, text=text, interval="")
            if metric == "log_loss" and with_ranges:
                cell = _loss_range(cell, by_metric, name)
            cells += [cell, TableCell.perfect(result)] if metric == "tvd" else [cell]
        rows.append((*cells, TableCell.count(views.n_items(by_metric, name))))
    return (*columns, Column("items")), tuple(rows)


def _loss_range(cell: TableCell, by_metric: ByMetric, system: str) -> TableCell:
    """Return the cell of a log loss, as the range of its bounds if they are far apart."""
    results = (by_metric.get((system, f"log_loss_{end}")) for end in ("low", "high"))
    low, high = (result.estimate.value if result else None for result in results)
    if low is None or high is None or high - low <= WIDE:
        return cell
    return replace(cell, text=tables.between(low, high), interval="")


def _notes(results: Sequence[Result]) -> tuple[str, ...]:
    notes = [
        "H: how often two people agree; M: two draws of the model; C: a draw and a person. "
        "M < H: the model varies more than people.",
        "overlap: 2 ΣC / Σ(H + M), 1 for a perfect model; D²: H + M − 2C, 0 for a perfect model. "
        "D² is unbiased at any number of people and draws, overlap nearly so; by chance an "
        "overlap may exceed 1, and a D² be below 0.",
        "TVD: the papers' metric, from its debiased to its plain value; it depends on the numbers "
        "of people and draws and is not used for ranking. TVD if perfect: an estimate of the plain "
        "value of a perfect model; too low with fewer than about 20 people.",
        "ECE is shown for reference only: it is misleading when people disagree.",
    ]
    if any(result.metric == "log_loss" for result in results):
        notes.insert(2, _LOG_LOSS_NOTE)
    return (*notes, *_count_note(results, _COLUMNS), *_interval_note(results))


def _leading_notes(results: Sequence[Result]) -> tuple[str, ...]:
    notes = ["overlap: 1 for a perfect model.", "D²: squared distance, 0 for a perfect model."]
    if any(result.metric == "log_loss" for result in results):
        notes.append("log loss: people's mean negative log-probability in nats, if exact.")
    notes.append("TVD: the papers' metric, from its debiased to its plain value; not for ranking.")
    return (*notes, *_count_note(results, ("log_loss", "tvd")), *_interval_note(results))


def _count_note(results: Sequence[Result], metrics: Iterable[str]) -> Iterator[str]:
    """Say which metrics are over other numbers of items than the one in the table."""
    found = by_system(results)
    counts: dict[str, list[str]] = {}
    for metric, system in product(metrics, systems_of(found)):
        n_items = found[system, metric].estimate.n_items if (system, metric) in found else 0
        if n_items not in (0, views.n_items(found, system)):
            text = f"{system} {n_items:,}"
            counts.setdefault(_COLUMNS[metric][0].rstrip(" ↓↑"), []).append(text)
    if counts:
        named = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in counts.items())
        yield f"items: those of a row's first value; some columns have other numbers ({named})."


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
