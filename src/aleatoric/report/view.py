"""Results as plain tables of text: what is shown, before how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from aleatoric.inference.bounds import with_cut_note
from aleatoric.report.numbers import UNDEFINED, between, number, p_calibrated, with_interval
from aleatoric.report.view_texts import text_tables
from aleatoric.types import Estimate, Result, Table

HEADINGS = {
    "overlap": "overlap ↑",
    "sq_distance": "D² ↓",
    "log_loss": "log loss ↓",
    "agreement_H": "H",
    "agreement_M": "M",
    "agreement_C": "C",
    "tvd": "TVD",
    "tvd_syn": "TVD syn",
    "tvd_sem": "TVD sem",
    "ece_original": "ECE original",
    "ece_human": "ECE human",
    "ece_oracle": "ECE oracle",
}
PERFECT = "TVD if perfect"


def results_tables(results: Sequence[Result], level: str = "word") -> list[Table]:
    """The results of a run as the tables of its level."""
    if level == "text":
        return text_tables(results)
    return [token_table(results) if level == "token" else word_table(results)]


def paper_tables(results: Sequence[Result], level: str) -> list[Table]:
    """The tables of a level with an interval beside every value, for a paper."""
    if level != "word":
        return results_tables(results, level)
    return [intervals_table(results)]


def intervals_table(results: Sequence[Result], title: str = "Word level") -> Table:
    """One row per system, every metric with its interval."""
    found = {(result.system, result.metric): result for result in results}
    plain = word_table(results, title)
    metrics = {heading: metric for metric, heading in HEADINGS.items()}
    rows = tuple(
        tuple(
            with_interval(found[row[0], metrics[column]].estimate)
            if (row[0], metrics.get(column, "")) in found
            else cell
            for column, cell in zip(plain.columns, row, strict=True)
        )
        for row in plain.rows
    )
    return with_cut_note(replace(plain, rows=rows, notes=_word_notes(results)))


def word_table(results: Sequence[Result], title: str = "Word level") -> Table:
    """One row per system: overlap and squared distance first, the papers' metrics after them."""
    found = {(result.system, result.metric): result for result in results}
    systems = list(dict.fromkeys(result.system for result in results))
    metrics = [name for name in HEADINGS if any((s, name) in found for s in systems)]
    columns = list(_word_columns(metrics))
    n_items = _n_items(results)
    rows = tuple(
        (system, *(_word_cell(system, column, found) for column in columns), str(n_items[system]))
        for system in systems
    )
    headings = [HEADINGS.get(column, column) for column in columns]
    return with_cut_note(Table(title, ("system", *headings, "items"), rows, _word_notes(results)))


def _word_columns(metrics: Iterable[str]) -> Iterable[str]:
    for metric in metrics:
        yield metric
        if metric == "tvd":
            yield PERFECT


def _word_cell(system: str, column: str, found: Mapping[tuple[str, str], Result]) -> str:
    result = found.get((system, "tvd" if column == PERFECT else column))
    if result is None:
        return UNDEFINED
    if column == PERFECT:
        perfect = result.perfect
        return between(perfect.low, perfect.high) if perfect else UNDEFINED
    if column == "tvd":
        debiased = found.get((system, "tvd_debiased"))
        return tvd_bracket(result, debiased)
    return with_interval(result.estimate) if column == "overlap" else number(result.estimate.value)


def tvd_bracket(plain: Result, debiased: Result | None) -> str:
    """The range from the debiased to the plain TVD, between which the true value lies."""
    if debiased is None or debiased.estimate.value is None:
        return number(plain.estimate.value)
    return between(max(0.0, debiased.estimate.value), plain.estimate.value)


def _n_items(results: Sequence[Result]) -> dict[str, int]:
    """System -> how many items its leading metrics stand on."""
    most: dict[str, int] = {}
    for result in results:
        most[result.system] = max(most.get(result.system, 0), result.estimate.n_items)
    leading = {r.system: r.estimate.n_items for r in results if r.metric == "overlap"}
    return most | {system: n for system, n in leading.items() if n}


def _word_notes(results: Sequence[Result]) -> tuple[str, ...]:
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
    if any(r.metric == "log_loss" for r in results):
        notes.insert(
            2,
            "log loss: people's mean negative log-probability in nats, for exact models; bounds of "
            "D², M, C, log loss and TVD are in --json (sq_distance_low, sq_distance_high, …).",
        )
    return (*notes, *_interval_note(results))


def _interval_note(results: Sequence[Result]) -> Iterable[str]:
    """How intervals were computed; systems are named where the method differs between them."""
    methods: dict[str, list[str]] = {}
    for result in results:
        if result.metric == "overlap" and result.estimate.interval:
            method = re.split(", cut at|, extended to", result.estimate.interval.method)[0]
            methods.setdefault(method, []).append(result.system)
    if methods:
        named = (f"{method} ({', '.join(own)})" for method, own in methods.items())
        yield f"[low, high]: 95% interval, {'; '.join(named if len(methods) > 1 else methods)}."


def token_table(results: Sequence[Result], title: str = "Token level") -> Table:
    """A row a metric and a column a system; calibration errors in percent, as papers print them."""
    found = {(result.system, result.metric): result for result in results}
    systems = list(dict.fromkeys(result.system for result in results))
    metrics = list(dict.fromkeys(result.metric for result in results))
    rows = []
    for metric in metrics:
        own = [found.get((system, metric)) for system in systems]
        rows.append((_token_heading(metric), *map(_token_cell, own)))
        if any(result and result.perfect for result in own):
            rows.append(("  if calibrated", *map(_if_calibrated, own)))
    counts = [_counts(found[system, metrics[0]]) for system in systems]
    rows.append(("tokens (groups)", *counts))
    return with_cut_note(Table(title, ("metric", *systems), tuple(rows), _token_notes(results)))


def _counts(result: Result) -> str:
    return f"{result.estimate.n_items} ({result.estimate.n_groups})"


def _if_calibrated(result: Result | None) -> str:
    perfect = result.perfect if result else None
    return UNDEFINED if perfect is None or perfect.low is None else number(100 * perfect.low, 2)


def _token_heading(metric: str) -> str:
    return f"{metric} %" if is_percentage(metric) else metric


def is_percentage(metric: str) -> bool:
    """Whether a metric is a calibration error, shown in percent.

    >>> is_percentage("e_ece_p"), is_percentage("entropy")
    (True, False)
    """
    return metric.partition("[")[0].removeprefix("e_").partition("_")[0] in (
        "ece",
        "mce",
        "sce",
        "ace",
    )


def _token_cell(result: Result | None) -> str:
    if result is None:
        return UNDEFINED
    if not is_percentage(result.metric):
        return with_interval(result.estimate)
    shown = _in_percent(result.estimate)
    # Over a whole vocabulary class-wise errors are tiny: two decimals would show none of them.
    small = result.metric in ("sce", "ace") and shown.value is not None
    return f"{shown.value:.3g}" if small else with_interval(shown, 2)


def _in_percent(estimate: Estimate) -> Estimate:
    if estimate.value is None:
        return estimate
    own = estimate.interval
    interval = own and replace(own, low=100 * own.low, high=100 * own.high)
    return replace(estimate, value=100 * estimate.value, interval=interval)


def _token_notes(results: Sequence[Result]) -> tuple[str, ...]:
    notes = [
        "%: calibration errors in percent; --json gives fractions. nll and entropy in nats.",
        "if calibrated: the mean error of a calibrated model with these confidences on as many "
        "tokens.",
    ]
    if any(result.metric == "sce" for result in results):
        notes.append(
            "sce, ace: over all classes (Nixon et al. 2019); _predicted: the mean over predicted "
            "classes of the class's own error; _weighted: the same, classes weighted by their "
            "numbers of tokens."
        )
    if any(p_calibrated(r.estimate) for r in results):
        notes.append(
            "(p = ...): consistent with calibration where p is above 0.05; p is the share of "
            "calibrated models with an error at least as large. There is no interval then."
        )
    methods = dict.fromkeys(r.estimate.interval.method for r in results if r.estimate.interval)
    if methods:
        notes.append(f"[low, high]: 95% interval. Methods: {'; '.join(methods)}.")
    else:
        notes.append("no intervals: they need two documents or more.")
    return tuple(notes)
