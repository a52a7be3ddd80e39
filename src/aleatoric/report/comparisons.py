"""Comparisons of systems as tables: all pairs, and all systems with letters."""

from __future__ import annotations

from aleatoric.inference.estimate import with_cut_note
from aleatoric.report.tables import UNDEFINED, number, p_value, with_interval
from aleatoric.result_types import Table
from aleatoric.studies.compare import Compared, Comparison


def comparison_tables(compared: Compared) -> list[Table]:
    """Return the table of all pairs, one row per metric and pair, then that of all systems."""
    columns = (
        *("metric", "first − second", "difference", "p", "p Holm", "p BH"),
        *("d", "first lower", "items", "groups"),
    )
    rows = tuple(_pair_row(comparison) for comparison in compared.comparisons)
    notes = (
        "difference: over the items that both systems have, with its 95% interval (groups "
        "resampled for both together).",
        "p: permutation test, the two systems swapped in random groups; Holm and "
        f"Benjamini-Hochberg (BH) within each metric ({_family_sizes(compared)}).",
        "d: mean of the items' differences over their standard deviation; first lower: share of "
        "items, ties count half.",
    )
    pairs = with_cut_note(Table("Pairs of systems", columns, rows, notes))
    return [pairs, _letters_table(compared)]


def _letters_table(compared: Compared) -> Table:
    """One row per system: its value of each metric on the common items, with its letters."""
    metrics = list(compared.values)
    systems = list(dict.fromkeys(name for row in compared.values.values() for name in row))
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
    listed = "; ".join(f"{', '.join(metrics)}: {n:,}" for n, metrics in by_number.items())
    return f"Values are over the items that all systems share ({listed})."


def _family_sizes(compared: Compared) -> str:
    """Return how many tests each metric has; one number if it is the same for all."""
    sizes = set(compared.families.values())
    if len(sizes) == 1:
        (n,) = sizes
        return f"{n} {'test' if n == 1 else 'tests'} each"
    return ", ".join(f"{metric}: {n}" for metric, n in compared.families.items())


def _pair_row(comparison: Comparison) -> tuple[str, ...]:
    paired = comparison.paired
    effect = paired.effect
    p = paired.test.p if paired.test else None
    return (
        comparison.metric,
        f"{comparison.first} − {comparison.second}",
        with_interval(paired.difference),
        *(p_value(value) for value in (p, comparison.p_holm, comparison.p_bh)),
        number(effect.cohen_d, 2) if effect else UNDEFINED,
        number(effect.share_lower, 2) if effect else UNDEFINED,
        str(paired.difference.n_items),
        str(paired.difference.n_groups),
    )


def _lettered(compared: Compared, metric: str, system: str) -> str:
    value = compared.values[metric].get(system)
    letters = compared.letters.get(metric, {}).get(system, "")
    return f"{number(value)} {letters}".strip()
