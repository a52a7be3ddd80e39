"""Metrics of word-level systems by quartiles of human agreement."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference.control import CONTROLS, ORACLE
from aleatoric.inference.estimate import CUT_MARK, bounded, estimates, is_cut, with_cut_note
from aleatoric.levels.base import level_of
from aleatoric.levels.word import NextWords
from aleatoric.levels.word_results import WIDE, WIDEST_LOSS
from aleatoric.metrics.agreement import COLUMNS, Overlap
from aleatoric.metrics.reduction import FiniteMean, Mean
from aleatoric.result_types import Table
from aleatoric.runs.run import Store
from aleatoric.studies import notes_on
from aleatoric.studies.compare_statistics import ItemStatistics, read_statistics
from aleatoric.studies.people import interval_text
from aleatoric.types import Estimate, Floats

QUARTILES = ("lowest", "second", "third", "highest")


def by_agreement(store: Store, systems: Collection[str] | None = None) -> Table:
    """Return H, M, C, overlap and log loss per system (default: all models) and quartile."""
    if not isinstance(level_of(store), NextWords):
        raise UsageError(f"{store.path}: only word-level runs have levels of human agreement.")
    models = [name for name in store.systems() if name not in CONTROLS]
    for name in systems or ():
        if name not in models:
            raise UsageError(f"there is no system {name!r}; there are: {', '.join(models)}.")
    oracle = read_statistics(store, ORACLE)
    halves = np.concatenate([oracle.values[f"agreement_{side}"][:, 0] for side in "HM"])
    defined = halves[np.isfinite(halves)]
    edges = np.quantile(defined, [0.25, 0.5, 0.75]) if len(defined) else np.zeros(3)
    # The quartiles are those of all contexts of the run, the same for every system.
    ends = (*(f", to {edge:.3f}" for edge in edges), "")
    rows = [
        (name, QUARTILES[i] + ends[i], *_cells(by_name))
        for name in models
        if systems is None or name in systems
        for i, by_name in enumerate(_estimates(store, name, oracle, edges))
        if by_name["overlap"].n_items
    ]
    columns = ("system", "human agreement", "H", "M", "C", "overlap ↑", "log loss ↓", "halves")
    notes = notes_on("by_agreement")
    return with_cut_note(Table("By quartiles of human agreement", columns, tuple(rows), notes))


def _cells(by_name: dict[str, Estimate]) -> Iterator[str]:
    for name in (*COLUMNS, "overlap", "log_loss"):
        value, interval = by_name[name].value, by_name[name].interval
        shown = "–" if value is None else f"{value:.3f}"
        if name == "overlap" and value is not None and interval is not None:
            shown += f" {interval_text(interval)}{CUT_MARK if is_cut(interval) else ''}"
        yield shown
    yield str(by_name["overlap"].n_items)


def _is_wide(statistics: ItemStatistics, metric: str, most: float) -> bool:
    """Whether the bounds of a metric are more than `most` apart on average."""
    low, high = (statistics.values[f"{metric}_{end}"][:, 0] for end in ("low", "high"))
    widths = (high - low)[np.isfinite(high - low)]
    return len(widths) > 0 and float(widths.mean()) > most


def _estimates(
    store: Store, system: str, oracle: ItemStatistics, edges: Floats
) -> Iterator[dict[str, Estimate]]:
    """Yield the metrics of a system per quartile; both halves of an item's people are rows."""
    statistics = read_statistics(store, system)
    if not statistics.keys or _is_wide(statistics, "agreement_M", WIDE):
        return  # without items, or M is not known well enough to be shown
    chunk, groups, sorted_by = _halves(statistics, oracle)
    if _is_wide(statistics, "log_loss", WIDEST_LOSS):
        chunk["log_loss"] = np.full_like(chunk["log_loss"], np.nan)
    reductions: dict[str, Mean | Overlap | FiniteMean] = {name: Mean(name) for name in COLUMNS}
    reductions |= {"overlap": Overlap(), "log_loss": FiniteMean("log_loss", "agreement_C")}
    place = np.where(np.isfinite(sorted_by), np.searchsorted(edges, sorted_by, side="left"), -1)
    for quartile in range(4):
        rows = np.flatnonzero(place == quartile)
        part = {name: values[rows, None] for name, values in chunk.items()}
        page = ([groups[i] for i in rows.tolist()], part)
        by_name = estimates([page] if len(rows) else [], reductions, store.manifest["seed"])
        yield {name: bounded(estimate, name) for name, estimate in by_name.items()}


def _halves(
    model: ItemStatistics, oracle: ItemStatistics
) -> tuple[dict[str, Floats], list[str], Floats]:
    """Return statistics against each half of people, groups, and the other half's agreement."""
    place = {key: i for i, (key, _) in enumerate(oracle.keys)}
    rows = np.array([place[key] for key, _ in model.keys], dtype=np.int64)
    target, player = (oracle.values[f"agreement_{side}"][rows, 0] for side in "HM")
    n = model.values["n_human"][:, 0]
    first = n // 2
    columns = {}
    for name in ("agreement_C", "log_loss"):
        all_, half = model.values[name][:, 0], model.values[f"{name}_half"][:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[name] = np.concatenate([half, (n * all_ - first * half) / (n - first)])
    columns["agreement_H"] = np.concatenate([target, player])
    columns["agreement_M"] = np.tile(model.values["agreement_M"][:, 0], 2)
    return columns, [*model.groups, *model.groups], np.concatenate([player, target])
