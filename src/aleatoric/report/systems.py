"""The table at the top of the page: systems with intervals and letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import filter as filter_names

from aleatoric.errors import UsageError
from aleatoric.inference.estimate import CUT_MARK, CUT_NOTE
from aleatoric.report.parts import Part
from aleatoric.report.tables import UNDEFINED, between, interval_text, number, p_calibrated
from aleatoric.report.views import HEADINGS, PERFECT, is_percentage, tvd_bracket
from aleatoric.studies.compare import Compared, compare
from aleatoric.types import Estimate, Result

Found = Mapping[tuple[str, str], Result]
COMPARED = {
    "word": ("overlap", "sq_distance", "log_loss"),
    "token": ("ece", "e_ece*"),
    "text": ("energy/*", "dmu_M/*"),
}
"""What systems are compared by: a small family, so that its tests keep their power."""
CALIBRATED = "if calibrated %"
_TOKEN = ("ece", "e_ece", "e_ece_p", "e_ece_k", "mce", "sce", "ace", "brier", "nll", "accuracy")
_TEXT = {
    "energy": "energy ↓",
    "dmu_M": "μM − μH",
    "mean_M": "mean M",
    "mean_C": "mean C",
    "w1_M": "W1(M, H) ↓",
    "w1_C": "W1(C, H) ↓",
    "dmu_C": "μC − μH",
}
"""The columns of the text level, in their order."""
_HELP = {
    CALIBRATED: "the ECE of a calibrated model with these confidences on as many tokens",
    "overlap": "2 ΣC / Σ(H + M): 1 for a perfect model, 0 where nothing is shared",
    "sq_distance": "squared distance H + M − 2C: 0 on average for a perfect model",
    "log_loss": "people's mean negative log-probability under the model, in nats",
    "agreement_H": "how often two people agree",
    "agreement_M": "how often two draws of the model agree; below H: it varies more than people",
    "agreement_C": "how often a draw of the model agrees with a person",
    "tvd": "the papers' metric, from its debiased to its plain value; not for ranking",
    PERFECT: "the plain TVD that a perfect model would have with as many people and draws",
    "ece_original": "calibration to the word of the text",
    "ece_human": "calibration to people's most frequent word",
    "ece_oracle": "calibration to the most frequent word of one half of the people",
    "ece": "expected calibration error of the most likely token",
    "e_ece": "expected calibration error under ancestral sampling",
    "e_ece_p": "under nucleus sampling",
    "e_ece_k": "under top-k sampling",
    "energy": "2 mean C − mean M − mean H: 0 in expectation for a perfect generator",
    "mean_M": "mean distance between two of the system's texts",
    "mean_C": "mean distance between a text of the system and a person's",
    "w1_C": "paper: W1 between the distances to people's texts and those among people's",
    "w1_M": "paper: W1 between the distances among the system's texts and those among people's",
    "dmu_M": "above 0: varies more than people; below 0: less",
    "dmu_C": "above 0: further from people's texts than these are from one another; says nothing "
    "of variability",
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
    compared: Compared | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def letters(self) -> bool:
        """Whether cells have letters."""
        return bool(self.compared and any(self.compared.letters.values()))


def systems_table(part: Part, results: Sequence[Result]) -> SystemsTable:
    """The table of a part, with letters where two systems or more can be compared."""
    compared = letters_of(part.leading)
    letters = compared.letters if compared else {}
    found = {(result.system, result.metric): result for result in results}
    columns, rows = _MAKERS[part.level](found, letters)
    notes = compared.notes if compared else ()
    marked = any(CUT_MARK in cell.interval for row in rows for cell in row)
    return SystemsTable(columns, rows, compared, (*notes, CUT_NOTE) if marked else notes)


def letters_of(part: Part) -> Compared | None:
    """All pairs of systems by the main metrics; nothing where there is nothing to compare."""
    labels = dict.fromkeys(member.label for member in part.members)
    known = Counter(r.metric for r in part.results if r.system in labels)
    shared = {metric for metric, count in known.items() if count > 1}
    patterns = [p for p in COMPARED.get(part.level, ()) if filter_names(shared, p)]
    if not patterns:
        return None
    try:
        return compare(part.stores, list(labels), patterns, seed=part.first.manifest["seed"])
    except UsageError:
        return None  # systems that have no metric in common


Letters = Mapping[str, Mapping[str, str]]
Made = tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]


def _word(found: Found, letters: Letters) -> Made:
    metrics = [m for m in HEADINGS if any(metric == m for _, metric in found)]
    place = metrics.index("tvd") + 1 if "tvd" in metrics else len(metrics)
    columns = [Column(HEADINGS[m], help=_HELP.get(m, "")) for m in metrics]
    columns.insert(place, Column(PERFECT, help=_HELP[PERFECT]))
    rows = []
    for name in _systems(found):
        cells = [_word_cell(found, name, metric, letters) for metric in metrics]
        cells.insert(place, _perfect(found.get((name, "tvd"))))
        leading = found.get((name, "overlap"))
        n_items = leading.estimate.n_items if leading else 0
        n_items = n_items or max(r.estimate.n_items for (s, _), r in found.items() if s == name)
        rows.append((Cell(name, name), *cells, _count(n_items)))
    return (Column("system", "text"), *columns, Column("items")), tuple(rows)


def _word_cell(found: Found, system: str, metric: str, letters: Letters) -> Cell:
    result = found.get((system, metric))
    cell = _value(result, letters, metric)
    if result is None or metric != "tvd":
        return cell
    return replace(cell, text=tvd_bracket(result, found.get((system, "tvd_debiased"))), interval="")


def _perfect(result: Result | None) -> Cell:
    """The expected value of a perfect model, under both estimates of the truth."""
    perfect = result.perfect if result else None
    if result is None or perfect is None:
        return Cell(UNDEFINED, None)
    times = _times(result.metric)
    low, high = (_scaled(end, times) for end in (perfect.low, perfect.high))
    text = between(low, high, 3 if times == 1 else 2)
    return Cell(text, perfect.low, cites=(result.system, result.metric))


def _token(found: Found, letters: Letters) -> Made:
    metrics = [m for m in _TOKEN if any(metric == m for _, metric in found)]
    columns = [Column("system", "text"), Column("ECE % ↓", help=_HELP["ece"])]
    columns.append(Column(CALIBRATED, help=_HELP[CALIBRATED]))
    columns += [Column(_heading(m), help=_HELP.get(m, "")) for m in metrics[1:]]
    rows = []
    for name in _systems(found):
        ece = found.get((name, "ece"))
        others = [_value(found.get((name, m)), letters, m) for m in metrics[1:]]
        first = _value(ece, letters, "ece"), _perfect(ece)
        cells = (Cell(name, name), *first, *others)
        rows.append((*cells, _count(ece.estimate.n_items if ece else 0)))
    return (*columns, Column("tokens")), tuple(rows)


def _text(found: Found, letters: Letters) -> Made:
    probes = list(dict.fromkeys(m.partition("/")[2] for _, m in found if "/" in m))
    named = (Column("probe", "text"), Column("system", "text"))
    columns = (*named, *(Column(_TEXT[m], help=_HELP[m]) for m in _TEXT), Column("inputs"))
    rows = tuple(
        _text_row(found, letters, probe, name)
        for probe in probes
        for name in _systems(found)
        if any((name, f"{m}/{probe}") in found for m in _TEXT)
    )
    return columns, rows


def _text_row(found: Found, letters: Letters, probe: str, name: str) -> tuple[Cell, ...]:
    metrics = [f"{m}/{probe}" for m in _TEXT]
    own = [found.get((name, metric)) for metric in metrics]
    return (
        *(Cell(probe, probe), Cell(name, name)),
        *(_value(one, letters, metric) for one, metric in zip(own, metrics, strict=True)),
        _count(max(one.estimate.n_items for one in own if one)),
    )


def _systems(found: Found) -> list[str]:
    return list(dict.fromkeys(system for system, _ in found))


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
    shows = ends and not small
    interval = interval_text(ends, digits, times) if shows and ends else _calibration(estimate)
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
