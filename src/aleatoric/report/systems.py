"""The table at the top of the page: systems with intervals, floors, excesses and letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aleatoric.comparing import Compared, compare
from aleatoric.comparing.statistics import excess_name
from aleatoric.errors import UsageError
from aleatoric.report.numbers import UNDEFINED, number, p_calibrated
from aleatoric.report.parts import Part
from aleatoric.report.view import HEADINGS, is_percentage
from aleatoric.types import Estimate, Floor, Result

Found = Mapping[tuple[str, str], Result]
COMPARED = {
    "word": ("tvd", "tvd_excess", "sq_distance"),
    "token": ("ece", "e_ece*"),
    "text": ("w1_?/*", "dmu_M/*"),
}
"""What systems are compared by: a small family, so that its tests keep their power."""
_TOKEN = ("ece", "e_ece", "e_ece_p", "e_ece_k", "mce", "sce", "ace", "brier", "nll", "accuracy")
_TEXT = {
    "w1_C": "W1(C, H) ↓",
    "w1_M": "W1(M, H) ↓",
    "dmu_M": "μM − μH",
    "dmu_C": "μC − μH",
}
_HELP = {
    "floor": "what a perfect model would score with the same numbers of answers",
    "excess": "value less floor",
    "tvd": "total variation distance to people: the share of probability that would have to move",
    "sq_distance": "squared distance, unbiased: needs no floor",
    "ece_original": "calibration to the word of the text",
    "ece_human": "calibration to people's most frequent word",
    "ece_oracle": "calibration to the most frequent word of one half of the people",
    "ece": "expected calibration error of the most likely token",
    "e_ece": "expected calibration error under ancestral sampling",
    "e_ece_p": "under nucleus sampling",
    "e_ece_k": "under top-k sampling",
    "w1_C": "how far texts of the system and of people are apart, against people among themselves",
    "w1_M": "how far the system's texts are apart, against people among themselves",
    "dmu_M": "above 0: more various than people; below 0: less",
    "dmu_C": "above 0: further from people's texts than these are from one another",
}


@dataclass(frozen=True)
class Cell:
    """A number as it is shown and as it is sorted, with what makes it citable."""

    text: str
    sort: float | str | None
    interval: str = ""
    letters: str = ""
    cites: tuple[str, str] | None = None
    """The system and the metric whose signature it has."""


@dataclass(frozen=True)
class Column:
    """A column's heading, what it means, and how it is sorted."""

    heading: str
    kind: str = "number"
    help: str = ""


@dataclass(frozen=True)
class SystemsTable:
    """The table: a row a system, or a row a system and probe."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    letters: bool = False
    notes: tuple[str, ...] = field(default=())


def systems_table(part: Part, results: Sequence[Result]) -> SystemsTable:
    """The table of a part, with letters where two systems or more can be compared."""
    compared = letters_of(part)
    letters = compared.letters if compared else {}
    found = {(result.system, result.metric): result for result in results}
    columns, rows = _MAKERS[part.level](found, letters)
    return SystemsTable(columns, rows, bool(letters), compared.notes if compared else ())


def letters_of(part: Part) -> Compared | None:
    """All pairs of systems by the main metrics; nothing where there is nothing to compare."""
    patterns = COMPARED.get(part.level)
    if patterns is None or len(part.members) < 2:
        return None
    labels = [member.label for member in part.members]
    try:
        return compare(part.stores, labels, patterns, seed=part.first.manifest["seed"])
    except UsageError:
        return None  # systems that have no metric in common


Letters = Mapping[str, Mapping[str, str]]
Made = tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]


def _word(found: Found, letters: Letters) -> Made:
    metrics = [m for m in HEADINGS if any(metric == m for _, metric in found)]
    columns = [Column("system", "text"), *_with_floor("tvd", HEADINGS["tvd"])]
    rest = [m for m in metrics if m != "tvd"]
    columns += [Column(HEADINGS[m], help=_HELP.get(m, "")) for m in rest]
    rows = []
    for name in _systems(found):
        own = [found.get((name, m)) for m in rest]
        others = [_value(one, letters, m) for one, m in zip(own, rest, strict=True)]
        n_items = max(r.estimate.n_items for (s, _), r in found.items() if s == name)
        cells = (Cell(name, name), *_floored(found.get((name, "tvd")), letters), *others)
        rows.append((*cells, _count(n_items)))
    return (*columns, Column("items")), tuple(rows)


def _token(found: Found, letters: Letters) -> Made:
    metrics = [m for m in _TOKEN if any(metric == m for _, metric in found)]
    columns = [Column("system", "text"), *_with_floor("ece", "ECE % ↓")]
    columns += [Column(_heading(m), help=_HELP.get(m, "")) for m in metrics[1:]]
    rows = []
    for name in _systems(found):
        ece = found.get((name, "ece"))
        others = [_value(found.get((name, m)), letters, m) for m in metrics[1:]]
        cells = (Cell(name, name), *_floored(ece, letters), *others)
        rows.append((*cells, _count(ece.estimate.n_items if ece else 0)))
    return (*columns, Column("tokens")), tuple(rows)


def _text(found: Found, letters: Letters) -> Made:
    probes = list(dict.fromkeys(m.partition("/")[2] for _, m in found))
    signed = [Column(_TEXT[m], help=_HELP[m]) for m in ("dmu_M", "dmu_C")]
    columns = (
        *(Column("probe", "text"), Column("system", "text")),
        *_with_floor("w1_C", _TEXT["w1_C"]),
        *_with_floor("w1_M", _TEXT["w1_M"]),
        *signed,
        Column("inputs"),
    )
    rows = tuple(
        _text_row(found, letters, probe, name)
        for probe in probes
        for name in _systems(found)
        if (name, f"w1_C/{probe}") in found
    )
    return columns, rows


def _text_row(found: Found, letters: Letters, probe: str, name: str) -> tuple[Cell, ...]:
    cross, own = (found.get((name, f"{m}/{probe}")) for m in ("w1_C", "w1_M"))
    signed = [f"{m}/{probe}" for m in ("dmu_M", "dmu_C")]
    return (
        *(Cell(probe, probe), Cell(name, name)),
        *_floored(cross, letters),
        *_floored(own, letters),
        *(_value(found.get((name, metric)), letters, metric) for metric in signed),
        _count(cross.estimate.n_items if cross else 0),
    )


def _systems(found: Found) -> list[str]:
    return list(dict.fromkeys(system for system, _ in found))


def _with_floor(metric: str, heading: str) -> Iterator[Column]:
    yield Column(heading, help=_HELP[metric])
    yield Column("floor", help=_HELP["floor"])
    yield Column("excess ↓", help=_HELP["excess"])


def _floored(result: Result | None, letters: Letters) -> Iterator[Cell]:
    """A value, its floor and what it has above it."""
    if result is None:
        yield from (Cell(UNDEFINED, None),) * 3
        return
    yield _value(result, letters, result.metric)
    cites, times = (result.system, result.metric), _times(result.metric)
    yield _floor(result.floor, cites, times)
    text = number(_scaled(result.excess, times), 3 if times == 1 else 2)
    own = letters.get(excess_name(result.metric), {}).get(result.system, "")
    yield Cell(text, result.excess, letters=own, cites=cites if result.floor else None)


def _floor(floor: Floor | None, cites: tuple[str, str], times: float) -> Cell:
    """A floor with its two ends where they are apart."""
    if floor is None or floor.value is None:
        return Cell(UNDEFINED, None)
    digits = 3 if times == 1 else 2
    value, low, high = (
        number(_scaled(end, times), digits) for end in (floor.value, floor.low, floor.high)
    )
    return Cell(value, floor.value, f"({low}–{high})" if low != high else "", cites=cites)


def _value(result: Result | None, letters: Letters, metric: str) -> Cell:
    estimate = result.estimate if result else None
    if result is None or estimate is None or estimate.value is None:
        return Cell(UNDEFINED, None)
    times = _times(metric)
    digits = 3 if times == 1 else 2
    # Over a whole vocabulary class-wise errors are tiny: two decimals would show none of them.
    small = metric in ("sce", "ace")
    value = times * estimate.value
    text = f"{value:.3g}" if small else number(value, digits)
    own = letters.get(metric, {}).get(result.system, "")
    ends = estimate.interval
    low, high = (number(times * end, digits) for end in (ends.low, ends.high)) if ends else ("", "")
    interval = f"[{low}, {high}]" if ends and not small else _calibration(estimate)
    return Cell(text, estimate.value, interval, own, (result.system, result.metric))


def _calibration(estimate: Estimate) -> str:
    """What stands in place of the interval of a calibration error of tokens."""
    p = p_calibrated(estimate)
    is_consistent = estimate.p_calibrated is not None and estimate.p_calibrated > 0.05
    return f"consistent with calibration ({p})" if p and is_consistent else p


def _count(n: int) -> Cell:
    return Cell(f"{n:,}", n)


def _heading(metric: str) -> str:
    return f"{metric} %" if is_percentage(metric) else metric


def _times(metric: str) -> float:
    """Calibration errors of tokens are shown in percent; those of words are not."""
    return 100.0 if is_percentage(metric) and metric not in HEADINGS else 1.0


def _scaled(value: float | None, times: float) -> float | None:
    return None if value is None else times * value


_MAKERS = {"word": _word, "token": _token, "text": _text}
