"""How the labels of single inputs are shown: as a table of their numbers, and as measures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from aleatoric.inference.two_samples import ALPHA
from aleatoric.levels.base import level_of
from aleatoric.levels.text_inputs import (
    CLOSENESS,
    LENGTH,
    P_ENERGY,
    P_M,
    VARIABILITY,
    LabelCounts,
    label_counts,
)
from aleatoric.reporting import tables
from aleatoric.reporting.page_data import Measure
from aleatoric.result_types import Table
from aleatoric.runs.run import Store

_NOTES = tables.TEXTS["text"]["notes"]
_MEASURES = tables.TEXTS["text"]["measures"]
_NAMES = {"variability": VARIABILITY, "closeness": CLOSENESS, "length": LENGTH}


def counts_of(store: Store) -> list[LabelCounts]:
    """Return the numbers of inputs by label of all models; none if inputs were not tested."""
    return list(label_counts(store, level_of(store).model_systems(store)))


def label_tables(counts: Sequence[LabelCounts]) -> list[Table]:
    """Return the table of inputs by label, if inputs were tested."""
    if not counts:
        return []
    columns = ("probe", "system", "vary more", "less", "as people", "differ", "inputs")
    rows = tuple(
        (c.probe, c.system, *map(str, (c.more, c.less, c.as_people, c.differ)), _tested(c))
        for c in counts
    )
    notes = (_NOTES["labels"].format(level=f"{ALPHA:.0%}"), *_remarks(counts))
    return [Table("Inputs, each tested on its own", columns, rows, notes)]


def _tested(counts: LabelCounts) -> str:
    n = counts.more + counts.as_people + counts.less
    return f"{n} of {n + counts.n_untested}" if counts.n_untested else f"{n}"


def _remarks(counts: Sequence[LabelCounts]) -> Iterator[str]:
    if any(c.n_untested for c in counts):
        yield _NOTES["untested"]
    by_system = {c.system: c for c in counts}
    lengths = [f"{s} {c.longer} and {c.shorter}" for s, c in by_system.items()]
    if any(c.longer or c.shorter for c in counts):
        yield f"Inputs with significantly longer and shorter texts: {', '.join(lengths)}."
    if cut := [system for system, c in by_system.items() if c.same_length]:
        yield _NOTES["labels_cut"].format(systems=tables.listed(cut))


def label_measures(saved: Collection[str], probe: str) -> Iterator[Measure]:
    """Yield the measures of labels and p-values of a probe, if its tests are saved."""
    if f"{P_M}/{probe}" not in saved:
        return
    for name in ("variability", "closeness"):
        heading, about = _MEASURES[name]
        yield Measure(f"{name}/{probe}", heading, about, names=_NAMES[name])
    for name in (P_M, P_ENERGY):
        heading, about = _MEASURES[name]
        yield Measure(f"{name}/{probe}", heading, about, digits=4)
