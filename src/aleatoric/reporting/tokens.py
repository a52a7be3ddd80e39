"""How token-level runs are shown: calibration errors and reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.inference.estimate import with_cut_note
from aleatoric.levels import token
from aleatoric.registry import Track
from aleatoric.reporting import tables
from aleatoric.reporting.parts import ReportPart, interval_dots
from aleatoric.reporting.tables import Letters, TableCell, number, with_interval
from aleatoric.reporting.views import CAPTIONS, ByMetric, Cells, View, by_system, systems_of
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.studies.compare import Compared
from aleatoric.studies.figure_data import Dots, Panels, Picture, Reliability, plain

_LEADING = ("ece", "e_ece")
_NOTES = tables.TEXTS["token"]["notes"]
_SMALL = ("sce", "ace")
"""Over a whole vocabulary class-wise errors are tiny: two decimals would show none of them."""


class TokenView(View):
    """Reference tokens: calibration errors in percent, and reliability diagrams."""

    title = "Reference tokens"
    items = "tokens"
    recognized = "ece|e_ece|nll"
    noted = ""
    sides: ClassVar[Mapping[str, str]] = {"M": "M model with itself", "C": "C model with the text"}
    captions = CAPTIONS["token"]
    columns = tables.TEXTS["token"]["columns"]
    counted = "tokens"
    letters_by = ("ece", "e_ece*")
    lists_all_tables = True
    has_items = False

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """Return one row per metric and one column per system."""
        return [token_table(results)]

    def leading_tables(self, results: Sequence[Result]) -> list[Table]:
        """Return one row per system: ECE, e-ECE and negative log-likelihood."""
        return [leading_table(results)] if results else []

    def finding(self, results: Sequence[Result], compared: Compared | None = None) -> str:
        """Say which system is calibrated best by ECE."""
        eces = [r for r in self._models(results, "ece") if r.estimate.value is not None]
        if not eces:
            return ""
        best = min(eces, key=lambda result: result.estimate.value or 0.0)
        low = best.perfect.low if best.perfect else None
        beside = f" (a calibrated model would have {100 * low:.2f}%)" if low is not None else ""
        value = f"{100 * (best.estimate.value or 0.0):.2f}%{beside}"
        if len(eces) == 1:
            return f"{best.system} has an ECE of {value}."
        shown = {r.system: f"{100 * (r.estimate.value or 0.0):.2f}" for r in eces}
        first = [system for system, ece in shown.items() if ece == shown[best.system]]
        if len(first) > 1:
            named = f"{', '.join(first[:-1])} and {first[-1]}"
            return f"Of {len(eces)} systems, {named} have the lowest ECE: {shown[best.system]}%."
        return f"Of {len(eces)} systems, {best.system} is best calibrated: its ECE is {value}."

    def cells(self, by_metric: ByMetric, system: str, metric: str, letters: Letters) -> Cells:
        """Return values in percent; beside the ECE, that of a calibrated model."""
        result, times = by_metric.get((system, metric)), 100.0 if is_percentage(metric) else 1.0
        value = TableCell.value(result, letters, times, metric in _SMALL)
        return (value, TableCell.perfect(result, times)) if metric == "ece" else (value,)

    def figures(self, part: ReportPart, track: Track[Any], for_page: bool) -> dict[str, Picture]:
        """Return reliability diagrams, and figures of studies if rows were kept."""
        pictures: dict[str, Picture] = {"ece_and_e_ece": calibration_dots(part)}
        for member in track(part.members, len(part.members), "study systems"):
            ending = part.ending(member)
            pictures[f"reliability{ending}"] = reliability(member.store, member.system)
            studies = _studies(member.store, member.system)
            pictures |= {f"{name}{ending}": picture for name, picture in studies.items()}
        return pictures

    def curves(self, store: Store) -> dict[str, Any]:
        """Return the reliability diagrams of each system."""
        return {name: reliability(store, name) for name in token.systems(store)}


def token_table(results: Sequence[Result], title: str = "Token level") -> Table:
    """One row per metric, one column per system; calibration errors in percent, as in papers."""
    by_metric = by_system(results)
    systems = systems_of(by_metric)
    metrics = list(dict.fromkeys(result.metric for result in results))
    rows = []
    for metric in metrics:
        row_results = [by_metric.get((system, metric)) for system in systems]
        rows.append((_heading(metric), *map(_table_cell, row_results)))
        if any(result and result.perfect for result in row_results):
            lows = [r.perfect.low if r and r.perfect else None for r in row_results]
            shown = (number(None if low is None else 100 * low, 2) for low in lows)
            rows.append(("  if calibrated", *shown))
    counted = [by_metric[system, metrics[0]].estimate for system in systems]
    rows.append(("tokens (groups)", *(f"{e.n_items} ({e.n_groups})" for e in counted)))
    return with_cut_note(Table(title, ("metric", *systems), tuple(rows), _notes(results)))


def leading_table(results: Sequence[Result]) -> Table:
    """One row per system, with the metrics that a reader needs first."""
    found = by_system(results)
    metrics = list(dict.fromkeys(result.metric for result in results))
    leading = [metric for metric in _LEADING if metric in metrics]
    rows = []
    for system in systems_of(found):
        cells = [_table_cell(found.get((system, metric))) for metric in leading]
        nll = found.get((system, "nll"))
        n_tokens = next(r.estimate.n_items for (name, _), r in found.items() if name == system)
        rows.append((system, *cells, number(nll.estimate.value if nll else None), str(n_tokens)))
    columns = ("system", *map(_heading, leading), "nll", "tokens")
    rest = ", ".join(metric for metric in metrics if metric not in (*leading, "nll"))
    more = [f"More with --wide or --format csv: {rest}."] if rest else []
    shown = [replace(r, perfect=None) for r in results if r.metric in leading]
    notes = (*_notes(shown), *more)
    return with_cut_note(Table("Token level", columns, tuple(rows), notes))


def _heading(metric: str) -> str:
    return f"{metric} %" if is_percentage(metric) else metric


def is_percentage(metric: str) -> bool:
    """Whether a metric is a calibration error, shown in percent."""
    kind = metric.partition("[")[0].removeprefix("e_").partition("_")[0]
    return kind in ("ece", "mce", "sce", "ace")


def _table_cell(result: Result | None) -> str:
    if result is None:
        return tables.UNDEFINED
    if not is_percentage(result.metric):
        return with_interval(result.estimate)
    if result.metric in _SMALL and result.estimate.value is not None:
        return f"{100 * result.estimate.value:.3g}"
    return with_interval(result.estimate, 2, 100)


def _notes(results: Sequence[Result]) -> tuple[str, ...]:
    notes = ["%: calibration errors in percent; --json gives fractions. nll and entropy in nats."]
    if any(result.perfect for result in results):
        notes.append(_NOTES["calibrated"])
    if any(result.metric == "sce" for result in results):
        notes.append(_NOTES["classes"])
    if any(tables.p_calibrated(r.estimate) for r in results):
        notes.append(_NOTES["consistent"])
    methods = dict.fromkeys(r.estimate.interval.method for r in results if r.estimate.interval)
    if methods:
        notes.append(f"[low, high]: 95% interval. Methods: {'; '.join(methods)}.")
    elif all(r.estimate.n_groups < 2 for r in results):
        notes.append("no intervals: they need at least two documents.")
    return tuple(notes)


def calibration_dots(part: ReportPart) -> Dots:
    """ECE of the likeliest token beside e-ECE of generation schemes, with intervals, in percent."""
    errors = [r for r in part.results if r.metric == "ece" or r.metric.startswith("e_ece")]
    rows = tuple(dict.fromkeys(result.metric for result in errors))
    floors = [r.perfect.low for r in errors if r.metric == "ece" and r.perfect and r.perfect.low]
    estimates = {(r.system, r.metric): r.estimate for r in errors}
    series = {m.label: [estimates.get((m.label, row)) for row in rows] for m in part.members}
    label = "calibration error (%)"
    if floors:
        label += f"; ECE if calibrated: {100 * max(floors):.2f}% or less"
    return interval_dots("", label, rows, series, times=100)


def reliability(store: Store, system: str) -> Panels:
    """Return reliability diagrams: one of the plain curve, one per generation scheme."""
    calibration, diagrams = token.calibration(store, system), []
    for name, curve in calibration.curves.items():
        bars = calibration.consistency[name]
        columns = (curve.confidence, curve.accuracy, bars.low, bars.high, curve.counts)
        title = f"{name} = {100 * curve.errors()['ece']:.2f}%"
        diagrams.append(Reliability(title, curve.edges, *map(plain, columns)))
    return Panels(system, tuple(diagrams))


def _studies(store: Store, system: str) -> dict[str, Picture]:
    if not store.manifest["keep_rows"]:
        return {}
    table, manifest = token.token_table(store, system), store.manifest
    pictures: dict[str, Picture] = {}
    for name in registry.names("token_analyses"):
        run = registry.find("token_analyses", name)
        with suppress(UsageError):  # too few tokens or documents for it
            pictures |= run(table, manifest["seed"], manifest["bins"]).figures
    return pictures
