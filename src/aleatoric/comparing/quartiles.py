"""The leading metrics at four levels of human agreement, so that no level is taken for all.

Contexts must not be sorted by the answers that they are then measured with: where chance made
people agree, they would seem to agree more than the model does, and a perfect model would look
imperfect at both ends. So contexts are sorted by one random half of their people and measured with
the other half, then the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from aleatoric.comparing.statistics import ItemStatistics, read_statistics
from aleatoric.errors import UsageError
from aleatoric.inference.estimate import Reduction, estimates
from aleatoric.metrics.agreement import COLUMNS, Overlap
from aleatoric.metrics.reduction import FiniteMean, Mean
from aleatoric.store import Store
from aleatoric.types import Estimate, Table
from aleatoric.words.scoring import CONTROLS, ORACLE

Floats = NDArray[np.float64]
QUARTILES = ("lowest", "second", "third", "highest")
_TITLE = "By quartiles of human agreement"


def by_agreement(store: Store, systems: Collection[str] | None = None) -> Table:
    """One row per system and quartile of human agreement: H, M, C, overlap, log loss.

    `systems` are those of the rows, by default all models.
    """
    if store.manifest["level"] != "word":
        raise UsageError(f"{store.path}: only word-level runs have levels of human agreement.")
    oracle = read_statistics(store, ORACLE)
    rows = [
        (system, QUARTILES[quartile], *_cells(found))
        for system in store.systems()
        if system not in CONTROLS and (systems is None or system in systems)
        for quartile, found in enumerate(_estimates(store, system, oracle))
        if found["overlap"].n_items
    ]
    columns = ("system", "human agreement", "H", "M", "C", "overlap ↑", "log loss ↓", "halves")
    notes = (
        "Contexts are sorted by the agreement of one random half of their people and measured with "
        "the other half, then the other way round: a perfect model has overlap 1 in every row. "
        "halves: how many halves of people a row stands on, two per context.",
    )
    return Table(_TITLE, columns, tuple(rows), notes)


def _cells(found: dict[str, Estimate]) -> Iterator[str]:
    for name in COLUMNS:
        yield _shown(found[name])
    yield _shown(found["overlap"], found["overlap"].interval is not None)
    yield _shown(found["log_loss"])
    yield str(found["overlap"].n_items)


def _shown(estimate: Estimate, with_ends: bool = False) -> str:
    if estimate.value is None:
        return "–"
    ends = estimate.interval
    beside = f" [{ends.low:.3f}, {ends.high:.3f}]" if with_ends and ends else ""
    return f"{estimate.value:.3f}{beside}"


def _estimates(store: Store, system: str, oracle: ItemStatistics) -> Iterator[dict[str, Estimate]]:
    """The metrics of a system in each quartile; both halves of an item's people are rows."""
    chunk, groups, sorted_by = _halves(read_statistics(store, system), oracle)
    reductions: dict[str, Reduction] = {name: Mean(name) for name in COLUMNS}
    reductions |= {"overlap": Overlap(), "log_loss": FiniteMean("log_loss", "agreement_C")}
    known = sorted_by[np.isfinite(sorted_by)]
    edges = np.quantile(known, [0.25, 0.5, 0.75]) if len(known) else np.zeros(3)
    place = np.where(np.isfinite(sorted_by), np.searchsorted(edges, sorted_by, side="left"), -1)
    for quartile in range(4):
        rows = np.flatnonzero(place == quartile)
        own = {name: values[rows, None] for name, values in chunk.items()}
        page = ([groups[i] for i in rows.tolist()], own)
        yield estimates([page] if len(rows) else [], reductions, store.manifest["seed"])


def _halves(
    own: ItemStatistics, oracle: ItemStatistics
) -> tuple[dict[str, Floats], list[str], Floats]:
    """Statistics against each half of the people, and the agreement of the other half."""
    place = {key: i for i, (key, _) in enumerate(oracle.keys)}
    rows = np.array([place[key] for key, _ in own.keys], dtype=np.int64)
    target, player = (oracle.values[f"agreement_{side}"][rows, 0] for side in "HM")
    n = own.values["n_human"][:, 0]
    first = n // 2
    columns = {}
    for name in ("agreement_C", "log_loss"):
        all_, half = own.values[name][:, 0], own.values[f"{name}_half"][:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[name] = np.concatenate([half, (n * all_ - first * half) / (n - first)])
    columns["agreement_H"] = np.concatenate([target, player])
    columns["agreement_M"] = np.tile(own.values["agreement_M"][:, 0], 2)
    return columns, [*own.groups, *own.groups], np.concatenate([player, target])
