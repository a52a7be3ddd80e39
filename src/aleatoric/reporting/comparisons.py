"""Comparisons of systems as tables: all pairs, and all systems with letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aleatoric.inference.estimate import with_cut_note
from aleatoric.inference.paired import IDENTICAL
from aleatoric.reporting import tables
from aleatoric.reporting.tables import listed, number, p_value, table_of_records, with_interval
from aleatoric.result_types import Table
from aleatoric.studies.compare import Compared, Comparison
from aleatoric.studies.compare_statistics import better, by_metric

_NOTES = tables.TEXTS["compare"]["notes"]
_DATA_COLUMNS = (
    *("metric", "first", "second", "first_value", "second_value", "difference", "difference_low"),
    *("difference_high", "p", "p_holm", "p_bh", "cohen_d", "share_lower", "n_items", "n_groups"),
)


def comparison_tables(compared: Compared) -> list[Table]:
    """Return the table of all pairs, one row per metric and pair, then that of all systems."""
    table = table_of_records("Pairs of systems", list(map(_pair_cells, compared.comparisons)))
    families = _family_sizes(compared)
    notes = tuple(note.format(families=families) for note in _NOTES["pairs"])
    wide = ("p", "p BH", "d", "first lower", "groups")
    return [with_cut_note(replace(table, notes=notes, wide=wide)), _letters_table(compared)]


def _letters_table(compared: Compared) -> Table:
    """One row per system: its value of each metric on the common items, with its letters."""
    metrics = list(compared.values)
    systems = list(dict.fromkeys(name for row in compared.values.values() for name in row))
    rows = tuple((name, *(_lettered(compared, m, name) for m in metrics)) for name in systems)
    notes = [_common_note(compared)]
    if any(compared.letters.values()):
        notes.insert(0, _NOTES["letters"].format(alpha=compared.alpha))
    return Table("Systems", ("system", *metrics), rows, tuple(notes))


def _common_note(compared: Compared) -> str:
    by_number: dict[int, list[str]] = {}
    for metric, n_items in compared.n_items.items():
        by_number.setdefault(n_items, []).append(metric)
    if len(by_number) == 1:
        return f"Values are over the {next(iter(by_number)):,} items that all systems share."
    counts = "; ".join(f"{', '.join(metrics)}: {n:,}" for n, metrics in by_number.items())
    return f"Values are over the items that all systems share ({counts})."


def _family_sizes(compared: Compared) -> str:
    """Return how many tests each metric has; one number if it is the same for all."""
    texts = {f"{n} {'test' if n == 1 else 'tests'} each" for n in compared.families.values()}
    if len(texts) == 1:
        return texts.pop()
    return ", ".join(f"{metric}: {n}" for metric, n in compared.families.items())


def _pair_cells(comparison: Comparison) -> dict[str, str]:
    facts = comparison.record()
    p_values = {"p": "p", "p Holm": "p_holm", "p BH": "p_bh"}
    return {
        "metric": comparison.metric,
        "first − second": f"{comparison.first} − {comparison.second}",
        "difference": with_interval(comparison.paired.difference),
        **{name: p_value(facts[key]) for name, key in p_values.items()},
        "d": number(facts["cohen_d"], 2),
        "first lower": number(facts["share_lower"], 2),
        "items": str(facts["n_items"]),
        "groups": str(facts["n_groups"]),
    }


def _lettered(compared: Compared, metric: str, system: str) -> str:
    value = compared.values[metric].get(system)
    letters = compared.letters.get(metric, {}).get(system, "")
    return f"{number(value)} {letters}".strip()


def comparison_data(compared: Compared) -> Table:
    """Return one row per metric and pair of systems, with one number per cell."""
    records = []
    for c in compared.comparisons:
        facts, values = c.record(), compared.values[c.metric]
        facts |= {"first_value": values.get(c.first), "second_value": values.get(c.second)}
        records.append({name: facts[name] for name in _DATA_COLUMNS})
    return table_of_records("Pairs of systems", records)


def summary(compared: Compared) -> Iterator[str]:
    """Say which system is best by the first metric, and whether the difference is significant."""
    metric = next((name for name, order in compared.order.items() if len(order) > 1), None)
    if metric is None:
        return
    excluded = compared.not_ranked(metric)
    order = [name for name in compared.order[metric] if name not in excluded]
    family = [c for c in by_metric(compared.comparisons)[metric] if {c.first, c.second} <= {*order}]
    if not family:
        return
    if excluded:
        reason = "because the answers seem to depend on people's"
        yield f"Not ranked by {metric}, {reason}: {listed(excluded)}."
    yield _verdict(metric, order, family, compared.alpha)


def _verdict(metric: str, order: Sequence[str], family: Sequence[Comparison], alpha: float) -> str:
    best, second = order[:2]
    leads = f"{best} has the {'highest' if better(metric) == 'higher' else 'lowest'} {metric}"
    p_values = [c.p_holm for c in family if c.p_holm is not None]
    if all(c.paired.reason == IDENTICAL for c in family):
        return f"{listed(order)} have the same values of {metric}."
    if not p_values:
        return f"{leads}, but no test is possible, so that the order is not certain."
    if not any(c.is_significant(alpha) for c in family):
        p = _p_text(min(p_values))
        if len(family) == 1:
            return f"The difference in {metric} is not significant at {alpha:g} ({p})."
        return f"No difference in {metric} is significant at {alpha:g} (smallest {p})."
    top = next(c for c in family if {c.first, c.second} == {best, second})
    gap = f"{_gap(top, best, metric)} {better(metric)} than {second}"
    gap += ", the next best" if len(order) > 2 and top.is_significant(alpha) else ""
    tested = _p_text(top.p_holm) if top.p_holm is not None else "no test"
    if top.is_significant(alpha):
        return f"{leads}: {gap} ({tested})."
    return f"{leads}, but does not differ significantly from {second}: {gap} ({tested})."


def _p_text(p: float) -> str:
    text = p_value(p)
    return f"adjusted p {text[0]} {text[1:]}" if text.startswith("<") else f"adjusted p = {text}"


def _gap(comparison: Comparison, best: str, metric: str) -> str:
    """Return how much better the best system is, with its interval."""
    difference = comparison.paired.difference
    if (comparison.first == best) != (better(metric) == "higher"):
        ends = difference.interval
        turned = ends and replace(ends, low=-ends.high, high=-ends.low)
        difference = replace(difference, value=-(difference.value or 0.0), interval=turned)
    return with_interval(difference)
