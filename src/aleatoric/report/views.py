"""Results as plain tables of text: what is shown, before how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from aleatoric.inference.estimate import with_cut_note
from aleatoric.levels.text_variability import sentences, verdicts
from aleatoric.report.tables import UNDEFINED, between, number, p_calibrated, with_interval
from aleatoric.studies.compare import Compared, Comparison
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
    notes.extend(_text_interval_note(found))
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
        *_text_interval_note(found),
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
    yield from _text_interval_note(found)


def _text_interval_note(found: Found) -> Iterator[str]:
    interval = next((r.estimate.interval for r in found.values() if r.estimate.interval), None)
    if interval:
        method = interval.method.partition(", cut at")[0]
        yield f"[low, high]: {interval.level:.0%} interval, {method}."


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


def comparison_tables(compared: Compared) -> list[Table]:
    """All pairs, then all systems."""
    return [pairs_table(compared), letters_table(compared)]


def pairs_table(compared: Compared) -> Table:
    """One row per metric and pair: difference, interval, p-values, effect sizes, counts."""
    columns = (
        *("metric", "first − second", "difference", "p", "p Holm", "p BH"),
        *("d", "first lower", "items", "groups"),
    )
    rows = tuple(_pair_row(one) for one in compared.comparisons)
    notes = (
        "difference: over the items that both systems have, with its 95% interval (groups "
        "resampled for both together).",
        "p: permutation test, the two systems swapped in random groups; Holm and "
        f"Benjamini-Hochberg (BH) within each metric ({_family_sizes(compared)}).",
        "d: mean of the items' differences over their standard deviation; first lower: share of "
        "items, ties count half.",
    )
    return with_cut_note(Table("Pairs of systems", columns, rows, notes))


def letters_table(compared: Compared) -> Table:
    """One row per system: its value by each metric on the common items, with its letters."""
    metrics = list(compared.values)
    systems = list(dict.fromkeys(name for own in compared.values.values() for name in own))
    rows = tuple((name, *(_lettered(compared, m, name) for m in metrics)) for name in systems)
    notes = [_common_note(compared)]
    if any(compared.letters.values()):
        notes.insert(
            0,
            "Systems that share a letter do not differ significantly (Holm within each metric, "
            f"{compared.alpha:g}); a is best. Letters come from paired tests, each on the items "
            "that its two systems share.",
        )
    return Table("Systems", ("system", *metrics), rows, tuple(notes))


def _common_note(compared: Compared) -> str:
    by_number: dict[int, list[str]] = {}
    for metric, n_items in compared.n_items.items():
        by_number.setdefault(n_items, []).append(metric)
    if len(by_number) == 1:
        return f"Values are over the {next(iter(by_number)):,} items that all systems share."
    listed = "; ".join(f"{', '.join(own)}: {n:,}" for n, own in by_number.items())
    return f"Values are over the items that all systems share ({listed})."


def _family_sizes(compared: Compared) -> str:
    """How many tests each metric has, said once where it is the same number for all.

    One number stands for all metrics in most tables.
    """
    sizes = set(compared.families.values())
    if len(sizes) == 1:
        (n,) = sizes
        return f"{n} {'test' if n == 1 else 'tests'} each"
    return ", ".join(f"{metric}: {n}" for metric, n in compared.families.items())


def p_value(p: float | None) -> str:
    """A p-value as papers print it.

    >>> p_value(0.00003), p_value(0.0421), p_value(None)
    ('<.001', '.042', '–')
    """
    if p is None:
        return UNDEFINED
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _pair_row(one: Comparison) -> tuple[str, ...]:
    found = one.paired
    effect = found.effect
    p = found.test.p if found.test else None
    return (
        one.metric,
        f"{one.first} − {one.second}",
        with_interval(found.difference),
        *(p_value(each) for each in (p, one.p_holm, one.p_bh)),
        number(effect.cohen_d, 2) if effect else UNDEFINED,
        number(effect.share_lower, 2) if effect else UNDEFINED,
        str(found.difference.n_items),
        str(found.difference.n_groups),
    )


def _lettered(compared: Compared, metric: str, system: str) -> str:
    value = compared.values[metric].get(system)
    own = compared.letters.get(metric, {}).get(system, "")
    return f"{number(value)} {own}".strip()
