"""How text-level runs are shown: distances among texts by probe, and inputs with their texts."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from aleatoric.inference.estimate import with_cut_note
from aleatoric.levels import text
from aleatoric.levels.text_fit import Fit, Side, fit
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.levels.text_variability import sentences, verdicts
from aleatoric.registry import Track, quietly
from aleatoric.report import text_figures
from aleatoric.report.charts import to_data
from aleatoric.report.item_data import ItemAnswers, ItemList, Measure
from aleatoric.report.parts import ReportPart
from aleatoric.report.tables import (
    UNDEFINED,
    Column,
    Letters,
    TableCell,
    number,
    printable,
    short,
    with_interval,
)
from aleatoric.report.text_figures import instance_panels, main_of, probes_of
from aleatoric.report.views import CONTEXT_CHARS, Found, Rows, View, by_system, systems_of
from aleatoric.runs.formats import load_texts
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.studies.compare import Compared
from aleatoric.studies.figure_data import Panels, Picture
from aleatoric.types import Estimate, Result, Table

N_LISTED = 3
INPUT_CHARS = 160
TEXT_CHARS = 20_000
MOST_CHARS = 4_000_000
"""Characters of texts that fit on a page; inputs at both ends of the lists come first."""
MOST_DRAWN = 40
"""Inputs, at the ends of the lists, whose distances are computed again and drawn."""
_SIDES: tuple[Side, ...] = ("C", "M")
_OF_PEOPLE = ("mean_H",)
_OF_SYSTEMS = ("energy", "mean_M", "mean_C", "w1_M", "w1_C")
Numbers = dict[str, dict[str, list[float | None]]]
"""Item -> statistic -> values by probe."""
Fits = Sequence[tuple[str, Fit]]
"""Systems with their worst and best fitted inputs, by probe and side."""
_COLUMNS = {
    "energy": ("energy ↓", "2 mean C − mean M − mean H: 0 in expectation for a perfect generator"),
    "dmu_M": ("μM − μH", "above 0: varies more than people; below 0: less"),
    "mean_M": ("mean M", "mean distance between two of the system's texts"),
    "mean_C": ("mean C", "mean distance between a text of the system and one of a person"),
    "w1_M": (
        "W1(M, H) ↓",
        "paper: W1 between distances among the system's and among people's texts",
    ),
    "w1_C": ("W1(C, H) ↓", "paper: W1 between distances to people's texts and among people's"),
    "dmu_C": (
        "μC − μH",
        "above 0: further from people's texts than these are from one another; says nothing about "
        "variability",
    ),
}
"""Metric -> heading and meaning, in the order of the table of systems."""
_MEASURES = ("energy", "dmu_M", "mean_H", "mean_M", "mean_C", "w1_C", "w1_M", "dmu_C")
_MEAN_H = ("mean H", "mean distance between two people's texts")
SAME_LENGTH = "dmu_M_same_length"
_SAME_LENGTH_NOTE = (
    "at same length: μM − μH on texts of both sides cut to the same lengths, for systems whose "
    "texts are over 10% longer or shorter than people's; their verdict on variability uses it."
)
_TITLES = {
    "M": "Metrics of the paper: a generator's texts among themselves",
    "C": "Metrics of the paper: a generator's texts against people's",
}
_WHAT = {
    "M": "M: distances between a generator's texts; H: between people's.",
    "C": "C: distances between a generator's texts and people's; H: between people's.",
}


class TextView(View):
    """Whole texts: closeness to people and variability by probe, with the paper's figures."""

    title = "Whole texts"
    lead = (
        "Several people wrote a text to each input, and their texts differ. This page shows "
        "whether a generator's texts differ as much, in words, in grammar and in meaning: "
        "mean distances between two people's texts (H), between two of the generator's (M) and "
        "between one of each (C). The energy distance 2C − M − H says how close a generator is to "
        "people: 0 in expectation for a perfect one, at any number of texts. M above H means that "
        "the generator varies more than people. W1, the paper's metric, stands beside that of "
        "people against people (control)."
    )
    items = "inputs"
    items_title = "Inputs and their texts"
    items_help = (
        "Search, sort and choose an input: what people wrote beside what each system wrote."
    )
    lists_title = "Inputs fitted worst and best"
    captions = text_figures.CAPTIONS
    letters_by = ("energy/*", "dmu_M/*")
    across = "mean_H"
    lists_all_tables = True
    takes_inputs = True

    @classmethod
    def recognizes(cls, metrics: Collection[str]) -> bool:
        """Whether metrics of probes are among these."""
        return any(metric.partition("/")[0] in (*_MEASURES, "mean_H") for metric in metrics)

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """Return people's variability, closeness to people, then the paper's metrics."""
        return text_tables(results)

    def document(self, store: Store, results: Sequence[Result], interval: str) -> dict[str, Any]:
        """Return the results, and the verdicts on closeness and variability."""
        own = {"verdicts": [asdict(verdict) for verdict in verdicts(results)]}
        return super().document(store, results, interval) | own

    def finding(self, results: Sequence[Result], compared: Compared | None = None) -> str:
        """Return the verdicts as sentences; with several systems, those of the first probe."""
        own = verdicts([result for result in results if result.estimate.value is not None])
        several = len({one.system for one in own}) > 1
        shown = [one for one in own if one.probe == own[0].probe] if several else own
        return " ".join(sentences(shown))

    def system_rows(self, found: Found, letters: Letters) -> tuple[tuple[Column, ...], Rows]:
        """Return one row per probe and system."""
        probes = list(dict.fromkeys(m.partition("/")[2] for _, m in found if "/" in m))
        columns = (
            *(Column("probe", "text"), Column("system", "text")),
            *(Column(heading, help=about) for heading, about in _COLUMNS.values()),
            Column("inputs"),
        )
        rows = []
        for probe in probes:
            for name in systems_of(found):
                own = [found.get((name, f"{metric}/{probe}")) for metric in _COLUMNS]
                if any(own):
                    cells = (TableCell.value(one, letters) for one in own)
                    count = TableCell.count(max(one.estimate.n_items for one in own if one))
                    rows.append((TableCell.named(probe), TableCell.named(name), *cells, count))
        return columns, tuple(rows)

    def figures(
        self, part: ReportPart, track: Track[Any] = quietly, for_page: bool = False
    ) -> dict[str, Picture]:
        """Return the paper's figures."""
        return text_figures.text_figures(part, track)

    def measures(self, saved: Collection[str]) -> tuple[Measure, ...]:
        """Return the measures of inputs, probe by probe.

        >>> from aleatoric.report.views import view_of
        >>> [one.key for one in view_of("text").measures(["w1_C/a", "mean_H/a"])]
        ['mean_H/a', 'w1_C/a']
        """
        probes = dict.fromkeys(name.partition("/")[2] for name in saved if "/" in name)
        return tuple(
            Measure(f"{name}/{probe}", heading.removesuffix(" ↓"), about)
            for probe in probes
            for name in _MEASURES
            if f"{name}/{probe}" in saved
            for heading, about in [_COLUMNS.get(name, _MEAN_H)]
        )

    def one_line(self, context: str) -> str:
        """Return the saved turns of an input, one after the other."""
        return " / ".join(load_texts(context))

    def beginning(self, context: str) -> str:
        """Return the beginning of an input."""
        found = self.one_line(context)
        return found if len(found) <= CONTEXT_CHARS else f"{found[:CONTEXT_CHARS]} …"

    def answers(self, store: Store, no: int) -> ItemAnswers:
        """Return an input by its number, with all texts that were written to it."""
        found = next(StoredTexts(store).walk(no - 1))
        item = found.item
        return ItemAnswers(item.id, item.group, item.input, None, item.references, found.systems)

    def page_items(
        self, part: ReportPart, inputs: Sequence[str] = ()
    ) -> tuple[Mapping[str, Any] | None, tuple[ItemList, ...]]:
        """Return inputs with all their texts, and the worst and best fitted ones of each system."""
        fits = [] if inputs else fits_of(part)
        return inputs_data(part, fits, inputs), tuple(_item_list(*one) for one in fits)


def text_tables(results: Sequence[Result]) -> list[Table]:
    """Return people's variability, closeness and variability of systems, the paper's metrics."""
    found = by_system(results)
    probes = list(dict.fromkeys(r.metric.partition("/")[2] for r in results if "/" in r.metric))
    systems = systems_of(found)
    people = _people(found, probes)
    tables = [people, *(_paper(found, probes, systems, side) for side in _TITLES)]
    others = [name for name in systems if name != CONTROL]
    if others:
        tables.insert(1, _closeness(found, probes, others, results))
    return [with_cut_note(table) for table in tables]


def _people(found: Found, probes: Sequence[str]) -> Table:
    rows = []
    for probe in probes:
        mean_h = found.get((CONTROL, f"mean_H/{probe}"))
        if mean_h is not None:
            rows.append((probe, with_interval(mean_h.estimate), _inputs(mean_h.estimate)))
    notes = ["mean H: mean distance between two people's texts to the same input."]
    length = found.get((CONTROL, "length_H"))
    if length is not None:
        notes.append(f"People's texts have {number(length.estimate.value, 1)} tokens on average.")
    notes.extend(_interval_note(found))
    return Table("Human variability", ("probe", "mean H", "inputs"), tuple(rows), tuple(notes))


def _closeness(
    found: Found, probes: Sequence[str], systems: Sequence[str], results: Sequence[Result]
) -> Table:
    """Return the leading table: closeness to people and variability, with verdicts."""
    same_length = any(metric.startswith(f"{SAME_LENGTH}/") for _, metric in found)
    signed = ["energy", "dmu_M", *([SAME_LENGTH] if same_length else ())]
    headings = {"energy": "energy ↓", "dmu_M": "μM − μH", SAME_LENGTH: "at same length"}
    columns = ("probe", "system", *(headings[m] for m in signed), "mean M", "mean C", "inputs")
    rows = []
    for probe in probes:
        for system in systems:
            own = [found.get((system, f"{m}/{probe}")) for m in signed]
            means = [found.get((system, f"{m}/{probe}")) for m in ("mean_M", "mean_C")]
            if own[0] is None:
                continue
            cells = (*(_with_interval(one) for one in own), *map(_value, means))
            rows.append((probe, system, *cells, _inputs(own[0].estimate)))
    notes = [
        *sentences(verdicts(results)),
        *_length_notes(found, systems),
        "energy: 2 mean C − mean M − mean H, closeness to people; 0 in expectation for a perfect "
        "generator at any number of texts.",
        "μM − μH: above 0 the generator varies more than people, below 0 less.",
        *([_SAME_LENGTH_NOTE] if same_length else ()),
        *_interval_note(found),
    ]
    return Table("Closeness to people and variability", columns, tuple(rows), tuple(notes))


def _length_notes(found: Found, systems: Sequence[str]) -> Iterator[str]:
    lengths = {name: found.get((name, "length_M")) for name in systems}
    shown = [f"{name} {number(own.estimate.value, 1)}" for name, own in lengths.items() if own]
    if shown:
        yield f"Mean length of texts in tokens: {', '.join(shown)}."


def _paper(found: Found, probes: Sequence[str], systems: Sequence[str], side: str) -> Table:
    has_matched = any(metric.startswith(f"w1_{side}_matched/") for _, metric in found)
    matched = ("matched",) if has_matched else ()
    difference = f"μ{side} − μH"
    columns = ("probe", "system", f"W1({side}, H) ↓", *matched, difference, "inputs")
    rows = []
    for probe in probes:
        for system in systems:
            w1 = found.get((system, f"w1_{side}/{probe}"))
            if w1 is None:
                continue
            own = (_matched(found, probe, system, side),) if has_matched else ()
            signed = _with_interval(found.get((system, f"dmu_{side}/{probe}")))
            cells = (with_interval(w1.estimate), *own, signed, _inputs(w1.estimate))
            rows.append((probe, system, *cells))
    return Table(_TITLES[side], columns, tuple(rows), tuple(_notes(found, side, has_matched)))


def _with_interval(result: Result | None) -> str:
    return with_interval(result.estimate) if result else UNDEFINED


def _value(result: Result | None) -> str:
    return number(result.estimate.value if result else None)


def _inputs(estimate: Estimate) -> str:
    """Return how many inputs have a value, and of how many if some have none."""
    lacking = estimate.n_undefined + estimate.n_missing
    return (
        f"{estimate.n_items} of {estimate.n_items + lacking}" if lacking else f"{estimate.n_items}"
    )


def _matched(found: Found, probe: str, system: str, side: str) -> str:
    """Return a matched W1, with that of the control if it is computed on other inputs."""
    own = found.get((system, f"w1_{side}_matched/{probe}"))
    if own is None or own.estimate.value is None:
        return UNDEFINED
    neighbours = [found.get((name, f"w1_{side}/{probe}")) for name in (system, CONTROL)]
    n, control = own.estimate.n_items, found.get((system, f"w1_{side}_control/{probe}"))
    if control is None or all(other and other.estimate.n_items == n for other in neighbours):
        return number(own.estimate.value)
    inputs = "1 input" if n == 1 else f"{n} inputs"
    return f"{_value(own)} ({inputs}; control {_value(control)})"


def _notes(found: Found, side: str, has_matched: bool) -> Iterator[str]:
    yield _WHAT[side]
    if side == "C":
        yield (
            "μC − μH: above 0 the generator's texts are further from people's than people's own "
            "are from one another; it does not say that the generator varies more."
        )
    if any(system == CONTROL and metric.startswith(f"w1_{side}/") for system, metric in found):
        yield "control: one half of the people in the generator's place, against the other half."
    if has_matched:
        yield (
            "W1 falls as texts become more. matched: W1 with as few texts as the control has; "
            "compare it with the control's. (n inputs; control W1): the inputs that allow it."
        )
    yield from _interval_note(found)


def _interval_note(found: Found) -> Iterator[str]:
    interval = next((r.estimate.interval for r in found.values() if r.estimate.interval), None)
    if interval:
        method = interval.method.partition(", cut at")[0]
        yield f"[low, high]: {interval.level:.0%} interval, {method}."


def fits_of(part: ReportPart) -> Fits:
    """Return the worst and best fitted inputs of every system, by probe and side."""
    found = []
    for member in part.members:
        cases = list(text.cases(member.store, member.system))
        for probe in probes_of(part.first):
            found += [(member.label, fit(cases, probe, side, N_LISTED)) for side in _SIDES]
    return found


def _item_list(system: str, found: Fit) -> ItemList:
    rows = tuple(
        (
            case.item.id,
            end,
            *(number(case.values.get(f"w1_{side}/{found.probe}")) for side in _SIDES),
            textwrap.shorten(" / ".join(case.item.input), INPUT_CHARS, placeholder="…"),
        )
        for end, cases in (("worst", found.worst), ("best", found.best))
        for case in cases
    )
    numbers = map(Column, ("input", "fit", "W1(C, H)", "W1(M, H)"))
    return ItemList(system, found.summary, (*numbers, Column("beginning", "text")), rows)


def listed_inputs(fits: Fits, most: int = N_LISTED) -> dict[str, str]:
    """Return the first inputs of every list, with the system by which each was listed first."""
    found: dict[str, str] = {}
    for system, own in fits:
        for case in (*own.worst[:most], *own.best[:most]):
            found.setdefault(case.item.id, system)
    return found


def drawn_inputs(fits: Fits) -> dict[str, str]:
    """Return the inputs whose distances are drawn: the first of each list by a main probe."""
    main = main_of([own.probe for _, own in fits])
    return listed_inputs([one for one in fits if one[1].probe in main], 1)


def inputs_data(
    part: ReportPart, fits: Fits, asked: Sequence[str] = (), most: int = MOST_CHARS
) -> dict[str, Any]:
    """Return inputs with all their texts and numbers: those asked for, or as many as fit."""
    chosen = dict.fromkeys(asked) if asked else _that_fit(part, listed_inputs(fits), most)
    values = {name: _numbers(part, name) for name in (CONTROL, *_labels(part))}
    pictures = {item_id: (place, one) for item_id, place, one in _pictures(part, asked, fits)}
    return {
        "kind": "texts",
        "systems": [printable(label) for label in _labels(part)],
        "probes": probes_of(part.first),
        "items": [
            _input_data(part, item_id, values, *pictures.get(item_id, (None, None)))
            for item_id in chosen
        ],
        "total": part.first.n_items,
        "measures": [
            {"key": "w1_C", "heading": "W1(C, H)"},
            {"key": "w1_M", "heading": "W1(M, H)"},
        ],
        "listed": "w1_C",
    }


def _labels(part: ReportPart) -> list[str]:
    return [member.label for member in part.members]


def _that_fit(part: ReportPart, first: Iterable[str], most: int) -> dict[str, None]:
    """Return the inputs whose texts fit on a page, in the order of the corpus; `first` first."""
    sizes = _sizes(part)
    chosen: dict[str, None] = {}
    for item_id in dict.fromkeys([*first, *sizes]):
        most -= sizes[item_id]
        if most < 0 and chosen:
            break
        chosen[item_id] = None
    return {item_id: None for item_id in sizes if item_id in chosen}


def _sizes(part: ReportPart) -> dict[str, int]:
    found: dict[str, int] = {}
    for store in part.stores:
        for one in StoredTexts(store).walk():
            sides = [one.item.references, *one.systems.values()]
            size = sum(min(len(own), TEXT_CHARS) for side in sides for own in side)
            found[one.item.id] = found.get(one.item.id, 0) + size
    return found


def _numbers(part: ReportPart, label: str) -> Numbers:
    where = {m.label: (m.store, m.system) for m in part.members}
    store, system = where.get(label, (part.first, CONTROL))
    probes, saved = probes_of(part.first), set(store.stat_columns())
    found: Numbers = {}
    for name in _OF_PEOPLE if label == CONTROL else _OF_SYSTEMS:
        for i, probe in enumerate(probes):
            if f"{name}/{probe}" not in saved:
                continue
            for row in store.rows(system, f"{name}/{probe}"):
                own = found.setdefault(row.item_id, {}).setdefault(name, [None] * len(probes))
                own[i] = short(row.value)
    return found


def _pictures(
    part: ReportPart, asked: Sequence[str], fits: Fits
) -> Iterator[tuple[str, int | None, Panels]]:
    """Yield the distances of single inputs, with the place of the system each is listed for."""
    labels = _labels(part)
    wanted: dict[str, int | None] = {
        item_id: labels.index(name) for item_id, name in drawn_inputs(fits).items()
    }
    if asked:
        wanted = dict.fromkeys(asked, 0 if labels else None)
    for item_id, place in list(wanted.items())[:MOST_DRAWN]:
        member = None if place is None else part.members[place]
        store, system = (member.store, member.system) if member else (part.first, None)
        for _, panels in instance_panels(store, {item_id: system}):
            yield item_id, place, panels


def _input_data(
    part: ReportPart,
    item_id: str,
    values: Mapping[str, Numbers],
    pictured: int | None,
    picture: Panels | None,
) -> dict[str, Any]:
    item = StoredTexts(part.first).find(item_id).item
    systems = []
    for member in part.members:
        own = StoredTexts(member.store).find(item_id).systems.get(member.system)
        systems.append(None if own is None else _safe(own))
    return {
        "id": printable(item_id),
        "group": printable(item.group),
        "input": _safe(item.input),
        "people": _safe(item.references),
        "systems": systems,
        "numbers": [values[name].get(item_id, {}) for name in (CONTROL, *_labels(part))],
        "pictured": pictured,
        "picture": None if picture is None else to_data(picture),
    }


def _safe(texts: Iterable[str]) -> list[str]:
    return [printable(_shortened(own)) for own in texts]


def _shortened(own: str) -> str:
    """Return a text as far as it fits, with the number of characters that are left out.

    >>> _shortened("a" * 20_007)[-22:]
    'a… (7 more characters)'
    """
    over = len(own) - TEXT_CHARS
    return own if over <= 0 else f"{own[:TEXT_CHARS]}… ({over} more characters)"
