"""Results of the text level as tables: people alone, then each generator beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aleatoric.inference.bounds import with_cut_note
from aleatoric.report.numbers import UNDEFINED, number, with_interval
from aleatoric.texts.verdicts import sentences, verdicts
from aleatoric.types import Estimate, Result, Table

CONTROL = "control"
SAME_LENGTH = "dmu_M_same_length"
_SAME_LENGTH_NOTE = (
    "at same length: μM − μH on texts of both sides cut to the same lengths, for systems whose "
    "texts are over 10% longer or shorter than people's; their verdict on variability uses it."
)
Found = dict[tuple[str, str], Result]
_TITLES = {
    "M": "Metrics of the paper: a generator's texts among themselves",
    "C": "Metrics of the paper: a generator's texts against people's",
}
_WHAT = {
    "M": "M: distances between a generator's texts; H: between people's.",
    "C": "C: distances between a generator's texts and people's; H: between people's.",
}


def text_tables(results: Sequence[Result]) -> list[Table]:
    """People's variability, closeness and variability of systems, then the paper's metrics."""
    found = {(result.system, result.metric): result for result in results}
    probes = list(dict.fromkeys(r.metric.partition("/")[2] for r in results if "/" in r.metric))
    systems = list(dict.fromkeys(result.system for result in results))
    people = _people(found, probes)
    tables = [people, *(_paper(found, probes, systems, side) for side in _TITLES)]
    others = [name for name in systems if name != CONTROL]
    if others:
        tables.insert(1, _closeness(found, probes, others, results))
    return [with_cut_note(table) for table in tables]


def _people(found: Found, probes: Sequence[str]) -> Table:
    """How people vary."""
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
    """The leading table: closeness to people and variability, with verdicts."""
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
    """How many inputs have a value, and of how many where some have none."""
    lacking = estimate.n_undefined + estimate.n_missing
    return (
        f"{estimate.n_items} of {estimate.n_items + lacking}" if lacking else f"{estimate.n_items}"
    )


def _matched(found: Found, probe: str, system: str, side: str) -> str:
    """A matched W1; where it stands on other inputs than its neighbours, the control's on these."""
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
