"""How text-level runs are shown: distances by probe, inputs with their texts and their labels."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from aleatoric.inference.estimate import with_cut_note
from aleatoric.inference.two_samples import ALPHA
from aleatoric.levels import text, text_variability
from aleatoric.levels.base import level_of
from aleatoric.levels.text_inputs import (
    CLOSENESS,
    LENGTH,
    P_ENERGY,
    P_M,
    VARIABILITY,
    Fit,
    LabelCounts,
    Side,
    fit,
    label_counts,
)
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.levels.text_variability import Verdict, sentences, verdicts
from aleatoric.probes.base import NEGATIVE_TYPE
from aleatoric.registry import Track
from aleatoric.reporting import tables, text_figures, views
from aleatoric.reporting.finetune import perplexity
from aleatoric.reporting.page_data import ItemAnswers, ItemList, Measure, to_data
from aleatoric.reporting.parts import AGREEMENTS, ReportPart, agreement_bars
from aleatoric.reporting.tables import Column, Letters, TableCell, number, printable, with_interval
from aleatoric.reporting.text_figures import instance_panels, main_of, probes_of
from aleatoric.reporting.views import ByMetric, PageItems, Rows, View, by_system, systems_of
from aleatoric.reporting.words import clauses, variability
from aleatoric.result_types import Result, Table
from aleatoric.runs.formats import load_texts
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies.compare import Compared
from aleatoric.studies.figure_data import AgreementBars, Panels, Picture
from aleatoric.types import Estimate

_NOTES = tables.TEXTS["text"]["notes"]
_LABEL_MEASURES = tables.TEXTS["text"]["measures"]
_NAMES = {"variability": VARIABILITY, "closeness": CLOSENESS, "length": LENGTH}


def counts_of(store: Store) -> list[LabelCounts]:
    """Return the numbers of inputs by label of all models; none if inputs were not tested."""
    return list(label_counts(store, level_of(store).model_systems(store)))


def label_tables(counts: Sequence[LabelCounts]) -> list[Table]:
    """Return the table of inputs by label, if inputs were tested."""
    if not counts:
        return []
    columns = ("probe", "system", "vary more", "less", "as people", "differ", "inputs")
    rows = tuple(
        (c.probe, c.system, *map(str, (c.more, c.less, c.as_people, c.differ)), _tested(c))
        for c in counts
    )
    notes = (_NOTES["labels"].format(level=f"{ALPHA:.0%}"), *_remarks(counts))
    return [Table("Inputs, each tested on its own", columns, rows, notes)]


def _tested(counts: LabelCounts) -> str:
    n = counts.more + counts.as_people + counts.less
    return f"{n} of {n + counts.n_untested}" if counts.n_untested else f"{n}"


def _remarks(counts: Sequence[LabelCounts]) -> Iterator[str]:
    if any(c.n_untested for c in counts):
        yield _NOTES["untested"]
    by_system = {c.system: c for c in counts}
    lengths = [f"{s} {c.longer} and {c.shorter}" for s, c in by_system.items()]
    if any(c.longer or c.shorter for c in counts):
        yield f"Inputs with significantly longer and shorter texts: {', '.join(lengths)}."
    if cut := [system for system, c in by_system.items() if c.same_length]:
        yield _NOTES["labels_cut"].format(systems=tables.listed(cut))


def label_measures(saved: Collection[str], probe: str) -> Iterator[Measure]:
    """Yield the measures of labels and p-values of a probe, if its tests are saved."""
    if f"{P_M}/{probe}" not in saved:
        return
    for name in ("variability", "closeness"):
        heading, about = _LABEL_MEASURES[name]
        yield Measure(f"{name}/{probe}", heading, about, names=_NAMES[name])
    for name in (P_M, P_ENERGY):
        heading, about = _LABEL_MEASURES[name]
        yield Measure(f"{name}/{probe}", heading, about, digits=4)


N_LISTED = 3
INPUT_CHARS = 160
TEXT_CHARS = 20_000
MOST_CHARS = 4_000_000
"""Characters of texts that fit on a page; inputs at both ends of the lists come first."""
MOST_DRAWN = 40
"""Inputs, at the ends of the lists, whose distances are computed again and drawn."""
_SIDES: tuple[Side, ...] = ("C", "M")
_OF_SYSTEMS = ("energy", "mean_M", "mean_C", "w1_M", "w1_C")
Numbers = dict[str, dict[str, list[float | None]]]
"""Item -> statistic -> values by probe."""
ByProbe = dict[tuple[str, str], dict[str, Result]]
"""Probe and system -> metric without its probe -> result."""
Fits = Sequence[tuple[str, Fit]]
"""Systems with their worst and best fitted inputs, by probe and side."""
_MEANS = {"energy": "energy ↓", "mean_H": "mean H", "mean_M": "mean M", "mean_C": "mean C"}
_MEASURES = ("energy", "dmu_M", "mean_H", "mean_M", "mean_C", "w1_C", "w1_M", "dmu_C")
_MEAN_H = ("mean H", "mean distance between two people's texts")
SAME_LENGTH = "dmu_M_same_length"
KINDS = ("strict", "yes", "unknown")
"""What the probes state of the energy distance, as `NegativeType`."""
_TITLES = {
    "M": "Metrics of the paper: a generator's texts among themselves",
    "C": "Metrics of the paper: a generator's texts against people's",
}
_CLOSENESS = "Closeness to people and variability"
_VALUES = "Statistics of one text"


class TextView(View):
    """Whole texts: closeness to people and variability by probe, with the paper's figures."""

    title = "Whole texts"
    items = "inputs"
    recognized = f"({'|'.join(_MEASURES)})(/.*)?"
    lists_title = "Inputs fitted worst and best"
    captions = views.CAPTIONS["text"]
    columns = tables.TEXTS["text"]["columns"]
    letters_by = ("energy/*", "dmu_M/*")
    across = "mean_H"
    task_metrics = tuple(
        f"{name}/{probe}" for name in ("mean_H", "energy", "dmu_M") for probe in text.MAIN
    )
    lists_all_tables = True
    takes_inputs = True
    people_figures = ("fig2_human_variability", "fig7_human_variability")

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """Return people's variability, closeness to people, then the paper's metrics."""
        return text_tables(results)

    def leading_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return closeness to people by probe; without a system, people's variability."""
        people, *others = text_tables(results)
        table = others[0] if others[0].title == _CLOSENESS else people
        said = {*sentences(verdicts(results)), *_kinds_note(results)}
        notes = (*(note for note in table.notes if note not in said), _NOTES["more"])
        leading = replace(table, wide=("μM − μH", "at same length"), notes=notes)
        return [leading, *(other for other in others if other.title == _VALUES)]

    def printed(
        self, store: Store, results: Sequence[Result], interval: str, wide: bool
    ) -> tuple[list[Table], list[str]]:
        """Return the tables, and the verdicts below them if no table has them in its notes."""
        tables, _ = super().printed(store, results, interval, wide)
        said = [] if wide else list(sentences(verdicts(results)))
        return [*tables, *self.run_tables(store)], [*said, *self.caveats(results)]

    def run_tables(self, store: Store) -> list[Table]:
        """Return the table of inputs by label."""
        return label_tables(counts_of(store))

    def document(self, store: Store, results: Sequence[Result], interval: str) -> dict[str, Any]:
        """Return the results, and the verdicts on closeness and variability."""
        shown = {
            "verdicts": [asdict(verdict) for verdict in verdicts(results)],
            "inputs": [asdict(counts) for counts in counts_of(store)],
        }
        return super().document(store, results, interval) | shown

    def finding(self, results: Sequence[Result], compared: Compared | None = None) -> str:
        """Return the verdicts as sentences; with several systems, those of the first probe."""
        judged = verdicts([result for result in results if result.estimate.value is not None])
        if len({verdict.system for verdict in judged}) > 1:
            return _joint_verdict([v for v in judged if v.probe == judged[0].probe])
        return " ".join(sentences(judged))

    def system_rows(self, by_metric: ByMetric, letters: Letters) -> tuple[tuple[Column, ...], Rows]:
        """Return one row per probe and system."""
        measured = {metric.partition("/")[0] for _, metric in by_metric}
        headings = {m: own for m, own in self.columns.items() if m != SAME_LENGTH or m in measured}
        columns = (
            *(Column("probe", "text"), Column("system", "text")),
            *(Column(heading, help=about) for ((heading, about),) in headings.values()),
            Column("inputs"),
        )
        rows = []
        for names, metrics in _by_probe(by_metric.values()).items():
            shown = [metrics.get(metric) for metric in headings]
            if any(shown):
                cells = (TableCell.value(result, letters) for result in shown)
                count = TableCell.count(tables.counted(filter(None, shown)).n_items)
                rows.append((*(TableCell(name, name) for name in names), *cells, count))
        return columns, tuple(rows)

    def agreement(self, results: Sequence[Result]) -> Picture | None:
        """Return mean distances H, M and C of each system, one panel per main probe."""
        estimates = {(r.system, r.metric): r.estimate for r in results}
        named = [(system, *metric.partition("/")) for system, metric in estimates]
        models = (s for s, name, *_ in named if s != CONTROL and name.startswith("mean"))
        systems = list(dict.fromkeys(models))
        probes = main_of([*dict.fromkeys(probe for _, name, _, probe in named if name == "mean_M")])

        def picture(probe: str) -> AgreementBars:
            sides = {f"mean_{side}/{probe}": text for side, text in AGREEMENTS.items()}
            noted = f"energy/{probe}"
            return agreement_bars(probe, "mean distance", systems, estimates, sides, noted)

        pictures = tuple(map(picture, probes))
        return Panels("", pictures, min(3, len(pictures))) if systems and pictures else None

    def figures(self, part: ReportPart, track: Track[Any], for_page: bool) -> dict[str, Picture]:
        """Return the paper's figures."""
        return text_figures.text_figures(part, track)

    def task_title(self, stem: str) -> str:
        """Return the heading of a metric, without its probe, in tables of tasks."""
        return "Human variability, mean H" if stem == "mean_H" else super().task_title(stem)

    def task_figures(self, parts: Mapping[str, ReportPart]) -> dict[str, Picture]:
        """Return the paper's figures with one row of panels per task."""
        return text_figures.across_tasks(parts)

    def measures(self, saved: Collection[str]) -> tuple[Measure, ...]:
        """Return the measures of inputs, probe by probe."""
        probes = dict.fromkeys(name.partition("/")[2] for name in saved if "/" in name)
        own = {
            probe: [
                Measure(f"{name}/{probe}", heading.removesuffix(" ↓"), about)
                for name in _MEASURES
                if f"{name}/{probe}" in saved
                for heading, about in self.columns.get(name, [_MEAN_H])
            ]
            for probe in probes
        }
        return tuple(m for p in probes for m in (*own[p], *label_measures(saved, p)) if own[p])

    def one_line(self, context: str) -> str:
        """Return the saved turns of an input, one after the other."""
        return " / ".join(load_texts(context))

    def excerpt(self, context: str) -> str:
        """Return the beginning of an input."""
        line, most = self.one_line(context), views.CONTEXT_CHARS
        return line if len(line) <= most else f"{line[:most]} …"

    def answers(self, store: Store, no: int) -> ItemAnswers:
        """Return an input by its number, with all texts that were written to it."""
        stored = next(StoredTexts(store).walk(no - 1))
        item = stored.item
        return ItemAnswers(item.id, item.group, item.input, None, item.references, stored.systems)

    def page_items(self, part: ReportPart, inputs: Sequence[str]) -> PageItems:
        """Return inputs with all their texts, and the worst and best fitted ones of each system."""
        fits = [] if inputs else fits_of(part)
        return inputs_data(part, fits, inputs), tuple(_item_list(*pair) for pair in fits)


_DIRECTIONS = {
    text_variability.MORE: "more",
    text_variability.LESS: "less",
    text_variability.ALIKE: "same",
}


def _joint_verdict(judged: Sequence[Verdict]) -> str:
    """Say in two sentences which systems differ from people, and which vary more or less."""
    phrases = {
        text_variability.DIFFERS: ("differs from people", "differ from people"),
        text_variability.CLOSE: ("does not differ significantly", "do not differ significantly"),
        text_variability.DEPENDENT: (
            "has texts that seem to depend on people's",
            "have texts that seem to depend on people's",
        ),
    }
    found = clauses(phrases, {verdict.system: verdict.closeness for verdict in judged})
    first = [f"By {judged[0].probe}, {found}."] if found else []
    directions = {
        verdict.system: _DIRECTIONS[verdict.variability]
        for verdict in judged
        if verdict.variability in _DIRECTIONS
    }
    return " ".join([*first, *variability(directions)])


def text_tables(results: Sequence[Result]) -> list[Table]:
    """Return people's variability, closeness and variability of systems, the paper's metrics."""
    by_probe, by_metric = _by_probe(results), by_system(results)
    systems = [name for name in systems_of(by_metric) if name != CONTROL]
    closeness = [_closeness(by_metric, by_probe, systems, results)] if systems else []
    values = [table] if (table := _values(by_metric, by_probe)).rows else []
    papers = [_paper(by_metric, by_probe, side) for side in _TITLES]
    every = (_people(by_metric, by_probe), *closeness, *values, *papers)
    return [with_cut_note(table) for table in every]


def _by_probe(results: Iterable[Result]) -> ByProbe:
    """Group results by probe and system, in this order."""
    grouped: ByProbe = {}
    for result in results:
        metric, _, probe = result.metric.partition("/")
        if probe:
            grouped.setdefault((probe, result.system), {})[metric] = result
    probes, systems = (list(dict.fromkeys(key[i] for key in grouped)) for i in range(2))
    keys = sorted(grouped, key=lambda key: (probes.index(key[0]), systems.index(key[1])))
    return {key: grouped[key] for key in keys}


def _people(by_metric: ByMetric, by_probe: ByProbe) -> Table:
    rows = tuple(
        (probe, with_interval(metrics["mean_H"].estimate), _inputs(metrics["mean_H"].estimate))
        for (probe, system), metrics in by_probe.items()
        if system == CONTROL and "mean_H" in metrics
    )
    notes = [_NOTES["people"]]
    length = by_metric.get((CONTROL, "length_H"))
    if length is not None:
        notes.append(f"People's texts have {number(length.estimate.value, 1)} tokens on average.")
    notes.extend(_interval_note(by_metric))
    return Table("Human variability", ("probe", "mean H", "inputs"), rows, tuple(notes))


def _closeness(
    by_metric: ByMetric, by_probe: ByProbe, systems: Sequence[str], results: Sequence[Result]
) -> Table:
    """Return the leading table: closeness to people and variability, with verdicts."""
    same_length = any(metric.startswith(f"{SAME_LENGTH}/") for _, metric in by_metric)
    signed = {"dmu_M": "μM − μH"}
    signed |= {SAME_LENGTH: "at same length"} if same_length else {}
    columns = ("probe", "system", *_MEANS.values(), *signed.values(), "inputs")
    rows = []
    for (probe, system), metrics in by_probe.items():
        if system != CONTROL and "energy" in metrics:
            available = by_probe.get((probe, CONTROL), {}) | metrics
            energy, *means = (available.get(metric) for metric in _MEANS)
            cells = (_with_interval(energy), *map(_value, means))
            cells += tuple(_with_interval(metrics.get(metric)) for metric in signed)
            inputs = _inputs(tables.counted(filter(None, (energy, *means))))
            rows.append((probe, system, *cells, inputs))
    lengths = {name: by_metric.get((name, "length_M")) for name in systems}
    tokens = [f"{name} {number(r.estimate.value, 1)}" for name, r in lengths.items() if r]
    notes = (
        *sentences(verdicts(results)),
        *([f"Mean length of texts in tokens: {', '.join(tokens)}."] if tokens else ()),
        _NOTES["energy"],
        *_uneven_note(by_probe),
        _NOTES["dmu_M"],
        *([_NOTES["same_length"]] if same_length else ()),
        *_kinds_note(results),
        *_interval_note(by_metric),
    )
    return Table(_CLOSENESS, columns, tuple(rows), notes)


def _kinds_note(results: Iterable[Result]) -> Iterator[str]:
    """Say by which probes the energy distance is a metric, and by which it may be below 0."""
    by_kind: dict[str, dict[str, None]] = {}
    for result in results:
        metric, _, probe = result.metric.partition("/")
        if metric == "energy" and (kind := result.signature.protocol.get(NEGATIVE_TYPE)):
            by_kind.setdefault(kind, {})[probe] = None
    parts = (f"{_NOTES[kind]} ({', '.join(by_kind[kind])})" for kind in KINDS if kind in by_kind)
    if by_kind:
        yield f"energy {'; '.join(parts)}."


def _values(by_metric: ByMetric, by_probe: ByProbe) -> Table:
    """Return the means of one-text statistics of people and systems, and the W1 between both."""
    columns = ("probe", "system", "people", "generator", "W1 ↓", "matched", "inputs")
    rows = []
    for (probe, system), metrics in by_probe.items():
        if (w1 := metrics.get(text_variability.VALUE_W1)) is not None:
            people = by_probe.get((probe, CONTROL), {}).get(text_variability.VALUE_H)
            shown = (
                metrics.get(text_variability.VALUE_H) or people,
                metrics.get(text_variability.VALUE_M),
            )
            matched = metrics.get(text_variability.VALUE_W1_MATCHED) or (
                w1 if system == CONTROL else None
            )
            cells = (*map(_value, shown), with_interval(w1.estimate), _value(matched))
            rows.append((probe, system, *cells, _inputs(w1.estimate)))
    notes = (_NOTES["values"], _NOTES["matched_values"], *_interval_note(by_metric))
    return Table(_VALUES, columns, tuple(rows), notes)


def _paper(by_metric: ByMetric, by_probe: ByProbe, side: str) -> Table:
    has_matched = any(metric.startswith(f"w1_{side}_matched/") for _, metric in by_metric)
    matched = ("matched",) if has_matched else ()
    columns = ("probe", "system", f"W1({side}, H) ↓", *matched, f"μ{side} − μH", "inputs")
    rows = []
    for (probe, system), metrics in by_probe.items():
        w1 = metrics.get(f"w1_{side}")
        if w1 is not None:
            control = by_probe.get((probe, CONTROL), {}).get(f"w1_{side}")
            shown = (_matched(metrics, control, side),) if has_matched else ()
            signed = _with_interval(metrics.get(f"dmu_{side}"))
            cells = (with_interval(w1.estimate), *shown, signed, _inputs(w1.estimate))
            rows.append((probe, system, *cells))
    return Table(_TITLES[side], columns, tuple(rows), tuple(_notes(by_metric, side, has_matched)))


def _with_interval(result: Result | None) -> str:
    return with_interval(result.estimate) if result else tables.UNDEFINED


def _value(result: Result | None) -> str:
    return number(result.estimate.value if result else None)


def _uneven_note(by_probe: ByProbe) -> Iterator[str]:
    """Say which means are over other inputs than the energy distance beside them."""
    uneven = []
    for (_, system), metrics in by_probe.items():
        energy, *means = (metrics.get(metric) for metric in _MEANS)
        if system != CONTROL and energy and energy.estimate.value is not None:
            numbers = {result.metric: result.estimate.n_items for result in means if result}
            n_inputs = energy.estimate.n_items
            if other := [f"{metric} {n}" for metric, n in numbers.items() if n != n_inputs]:
                uneven.append(f"{system}: {', '.join(other)}")
    if uneven:
        yield _NOTES["uneven"].format(uneven="; ".join(uneven))


def _inputs(estimate: Estimate) -> str:
    """Return how many inputs have a value, and of how many if some have none."""
    n, lacking = estimate.n_items, estimate.n_undefined + estimate.n_missing
    return f"{n} of {n + lacking}" if lacking else f"{n}"


def _matched(metrics: Mapping[str, Result], control_w1: Result | None, side: str) -> str:
    """Return a matched W1, with that of the control if it is computed on other inputs."""
    matched, control = metrics.get(f"w1_{side}_matched"), metrics.get(f"w1_{side}_control")
    if matched is None or matched.estimate.value is None:
        return tables.UNDEFINED
    n, neighbours = matched.estimate.n_items, (metrics[f"w1_{side}"], control_w1)
    if control is None or all(other and other.estimate.n_items == n for other in neighbours):
        return _value(matched)
    inputs = "1 input" if n == 1 else f"{n} inputs"
    return f"{_value(matched)} ({inputs}; control {_value(control)})"


def _notes(by_metric: ByMetric, side: str, has_matched: bool) -> Iterator[str]:
    yield _NOTES[side]
    if side == "C":
        yield _NOTES["dmu_C"]
    if any(system == CONTROL and metric.startswith(f"w1_{side}/") for system, metric in by_metric):
        yield _NOTES["control"]
    if has_matched:
        yield _NOTES["matched"]
    yield from _interval_note(by_metric)


def _interval_note(by_metric: ByMetric) -> Iterator[str]:
    interval = next((r.estimate.interval for r in by_metric.values() if r.estimate.interval), None)
    if interval:
        method = interval.method.partition(", cut at")[0]
        yield f"[low, high]: {interval.level:.0%} interval, {method}."


def fits_of(part: ReportPart) -> Fits:
    """Return the worst and best fitted inputs of every system, by probe and side."""
    systems = ((m.label, list(text.cases(m.store, m.system))) for m in part.members)
    kinds = [(probe, side) for probe in probes_of(part.first) for side in _SIDES]
    return [(label, fit(cases, *kind, N_LISTED)) for label, cases in systems for kind in kinds]


def _item_list(system: str, fitted: Fit) -> ItemList:
    rows = tuple(
        (
            case.item.id,
            end,
            *(number(case.values.get(f"w1_{side}/{fitted.probe}")) for side in _SIDES),
            textwrap.shorten(" / ".join(case.item.input), INPUT_CHARS, placeholder="…"),
        )
        for end, cases in (("worst", fitted.worst), ("best", fitted.best))
        for case in cases
    )
    numbers = map(Column, ("input", "fit", "W1(C, H)", "W1(M, H)"))
    return ItemList(system, fitted.summary, (*numbers, Column("beginning", "text")), rows)


def listed_inputs(fits: Fits, most: int = N_LISTED) -> dict[str, str]:
    """Return the first inputs of every list, with the system by which each was listed first."""
    inputs: dict[str, str] = {}
    for system, fitted in fits:
        for case in (*fitted.worst[:most], *fitted.best[:most]):
            inputs.setdefault(case.item.id, system)
    return inputs


def drawn_inputs(fits: Fits) -> dict[str, str]:
    """Return the inputs whose distances are drawn: the first of each list by a main probe."""
    main = main_of([fitted.probe for _, fitted in fits])
    return listed_inputs([pair for pair in fits if pair[1].probe in main], 1)


def inputs_data(
    part: ReportPart, fits: Fits, inputs: Sequence[str] = (), most: int = MOST_CHARS
) -> dict[str, Any]:
    """Return inputs with all their texts and numbers: those requested, or as many as fit."""
    chosen = dict.fromkeys(inputs) if inputs else _that_fit(part, listed_inputs(fits), most)
    people = _numbers(part.first, CONTROL, ("mean_H",), probes_of(part.first))
    models = [_numbers(m.store, m.system, _OF_SYSTEMS, probes_of(part.first)) for m in part.members]
    pictures = _pictures(part, inputs, fits)
    return {
        "kind": "texts",
        "systems": [printable(member.label) for member in part.members],
        "probes": probes_of(part.first),
        "items": [
            _input_data(part, item_id, [people, *models])
            | dict(zip(("pictured", "picture"), pictures.get(item_id, (None, None)), strict=True))
            for item_id in chosen
        ],
        "total": part.first.n_items,
        "measures": [{"key": f"w1_{side}", "heading": f"W1({side}, H)"} for side in _SIDES],
        "listed": "w1_C",
    }


def _that_fit(part: ReportPart, first: Iterable[str], most: int) -> dict[str, None]:
    """Return the inputs whose texts fit on a page, in the order of the corpus; `first` first."""
    sizes: Counter[str] = Counter()
    for store in part.stores:
        for stored in StoredTexts(store).walk():
            sides = (stored.item.references, *stored.systems.values())
            sizes[stored.item.id] += sum(min(len(t), TEXT_CHARS) for side in sides for t in side)
    chosen: dict[str, None] = {}
    for item_id in dict.fromkeys([*first, *sizes]):
        most -= sizes[item_id]
        if most < 0 and chosen:
            break
        chosen[item_id] = None
    return {item_id: None for item_id in sizes if item_id in chosen}


def _numbers(store: Store, system: str, metrics: Sequence[str], probes: Sequence[str]) -> Numbers:
    saved, numbers = set(store.stat_columns()), Numbers()
    for name in metrics:
        for i, probe in enumerate(probes):
            if f"{name}/{probe}" not in saved:
                continue
            for row in store.rows(system, f"{name}/{probe}"):
                values = numbers.setdefault(row.item_id, {}).setdefault(name, [None] * len(probes))
                values[i] = tables.short(row.value)
    return numbers


def _pictures(
    part: ReportPart, requested: Sequence[str], fits: Fits
) -> dict[str, tuple[int | None, dict[str, Any]]]:
    """Return the distances of single inputs, with the place of the system each is listed for."""
    places = {member.label: place for place, member in enumerate(part.members)}
    drawn: dict[str, int | None] = {i: places[name] for i, name in drawn_inputs(fits).items()}
    if requested:
        drawn = dict.fromkeys(requested, 0 if places else None)
    pictures = {}
    for item_id, place in list(drawn.items())[:MOST_DRAWN]:
        member = None if place is None else part.members[place]
        store, system = (member.store, member.system) if member else (part.first, None)
        for _, panels in instance_panels(store, {item_id: system}):
            pictures[item_id] = (place, to_data(panels))
    return pictures


def _input_data(part: ReportPart, item_id: str, numbers: Sequence[Numbers]) -> dict[str, Any]:
    item = StoredTexts(part.first).find(item_id).item
    systems = []
    for member in part.members:
        texts = StoredTexts(member.store).find(item_id).systems.get(member.system)
        systems.append(None if texts is None else _safe(texts))
    return {
        "id": printable(item_id),
        "group": printable(item.group),
        "input": _safe(item.input),
        "people": _safe(item.references),
        "systems": systems,
        "numbers": [values.get(item_id, {}) for values in numbers],
    }


def _safe(texts: Iterable[str]) -> list[str]:
    """Return texts as far as they fit, with the number of characters that are left out."""
    over = ((text, len(text) - TEXT_CHARS) for text in texts)
    cut = (text[:TEXT_CHARS] + (f"… ({n} more characters)" if n > 0 else "") for text, n in over)
    return list(map(printable, cut))


class FinetuneTextView(TextView):
    """Whole texts before and after fine-tuning; also the losses of training by epoch."""

    def document(self, store: Store, results: Sequence[Result], interval: str) -> dict[str, Any]:
        """Return the results, and the losses of training."""
        training = {"finetuning": store.meta(FINETUNING) or {}}
        return super().document(store, results, interval) | training

    def run_tables(self, store: Store) -> list[Table]:
        """Return the labels of inputs, and the losses of training by epoch."""
        rows, notes = [], ["Losses are in nats per token of texts; epoch 0 is before training."]
        for facts in (store.meta(FINETUNING) or {}).values():
            for epoch in facts["curves"]["1"]:
                sides = [epoch["train_loss"], epoch["validation_loss"]]
                shown = f"{perplexity(epoch['validation_loss']):.2f}"
                rows.append((str(epoch["number"]), *map(number, sides), shown))
            notes.append(f"Epoch kept: {facts['kept']['1']}.")
        columns = ("epoch", "training loss", "validation loss", "validation perplexity")
        training = Table("Training", columns, tuple(rows), tuple(notes))
        return [*super().run_tables(store), *([training] if rows else [])]
