"""Results of the text level as tables: people alone, then each generator beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aleatoric.report.numbers import UNDEFINED, floor_range, number, with_interval
from aleatoric.texts.floors import MeanFloor
from aleatoric.types import Result, Table

CONTROL = "control"
Found = dict[tuple[str, str], Result]
_TITLES = {
    "M": "Self-variability: a generator's texts among themselves",
    "C": "Cross-variability: a generator's texts against people's",
}
_WHAT = {
    "M": "M: distances between a generator's texts",
    "C": "C: distances between a generator's texts and people's",
}


def text_tables(results: Sequence[Result]) -> list[Table]:
    """People's variability, then W1 and mean differences of M and of C, as the paper's 2 to 5."""
    found = {(result.system, result.metric): result for result in results}
    probes = list(dict.fromkeys(r.metric.partition("/")[2] for r in results))
    people = _people(found, probes)
    if all(result.system == CONTROL for result in results):
        return [people]
    return [people, *(_divergences(found, probes, side, results) for side in _TITLES)]


def _people(found: Found, probes: Sequence[str]) -> Table:
    """How people vary, and how far one half of them is from the other."""
    rows = []
    for probe in probes:
        mean_h, *w1 = (found.get((CONTROL, f"{m}/{probe}")) for m in ("mean_H", "w1_M", "w1_C"))
        if mean_h is not None:
            cells = [with_interval(r.estimate) if r else UNDEFINED for r in (mean_h, *w1)]
            counts = (str(mean_h.estimate.n_items), str(mean_h.estimate.n_undefined))
            rows.append((probe, *cells, *counts))
    columns = ("probe", "mean H", "control W1(M, H)", "control W1(C, H)", "inputs", "undefined")
    notes = (
        "mean H: mean distance between two people's texts to the same input.",
        "control: one half of the people in a generator's place, against the other half.",
        *_interval_note(found),
    )
    return Table("Human variability", columns, tuple(rows), notes)


def _divergences(
    found: Found, probes: Sequence[str], side: str, results: Sequence[Result]
) -> Table:
    systems = list(dict.fromkeys(result.system for result in results))
    extras = _extra_columns(found, side)
    columns = ("probe", "system", f"W1({side}, H) ↓", *extras, f"μ{side} − μH", f"mean {side}")
    rows = tuple(
        _row(found, probe, system, side, extras)
        for probe in probes
        for system in systems
        if (system, f"w1_{side}/{probe}") in found
    )
    return Table(_TITLES[side], (*columns, "inputs"), rows, tuple(_notes(found, side, extras)))


def _extra_columns(found: Found, side: str) -> list[str]:
    """Columns that not every protocol has."""
    names = [metric for _, metric in found]
    extras = ["matched"] if any(m.startswith(f"w1_{side}_matched/") for m in names) else []
    floors = any(r.floor for (_, m), r in found.items() if m.startswith(f"w1_{side}/"))
    return [*extras, "floor"] if floors else extras


def _row(
    found: Found, probe: str, system: str, side: str, extras: Sequence[str]
) -> tuple[str, ...]:
    w1 = found[system, f"w1_{side}/{probe}"]
    more = {"matched": _matched(found, probe, system, side), "floor": _floor(w1)}
    difference = found.get((system, f"dmu_{side}/{probe}"))
    mean = found.get((system, f"mean_{side}/{probe}"))
    return (
        probe,
        system,
        with_interval(w1.estimate),
        *(more[name] for name in extras),
        with_interval(difference.estimate) if difference else UNDEFINED,
        number(mean.estimate.value if mean else None),
        str(w1.estimate.n_items),
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
    beside = f"control {number(control.estimate.value)}"
    return f"{number(own.estimate.value)} ({_inputs(n)}; {beside})"


def _floor(w1: Result) -> str:
    """A floor, and over how many inputs where these are others than those of W1."""
    shown = floor_range(w1.floor)
    if not isinstance(w1.floor, MeanFloor) or w1.floor.n_items == w1.estimate.n_items:
        return shown
    return f"{shown} ({_inputs(w1.floor.n_items)})"


def _inputs(n: int) -> str:
    return "1 input" if n == 1 else f"{n} inputs"


def _notes(found: Found, side: str, extras: Sequence[str]) -> Iterator[str]:
    yield f"{_WHAT[side]}; H: between people's. μ{side} − μH > 0: more various than people."
    yield "control: one half of the people in the generator's place, against the other half."
    if "matched" in extras:
        yield (
            "matched: W1 with as few texts as the control has, to be compared with the control's; "
            "(n inputs; control W1): those that allow it, and the control on these alone."
        )
    if "floor" in extras:
        fewest = "four" if side == "M" else "three"
        yield (
            "floor: W1 of a perfect generator at these numbers of texts; "
            f"(n inputs): those with {fewest} people or more, and two texts."
        )
    yield from _interval_note(found)


def _interval_note(found: Found) -> Iterator[str]:
    interval = next((r.estimate.interval for r in found.values() if r.estimate.interval), None)
    if interval:
        yield f"[low, high]: {interval.level:.0%} interval, {interval.method}."
