"""Per-item statistics of a saved system, and how a metric is worked out from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.inference.estimate import Reduction
from aleatoric.inference.paired import Paired, paired
from aleatoric.metrics.calibration import ECE, equal_mass_edges, equal_width_edges
from aleatoric.metrics.reduction import Chunk, Mean
from aleatoric.store import Store

Floats = NDArray[np.float64]
Key = tuple[str, int]
"""An item, and which of its rows: items that were recorded twice may count as two."""
_ECE = "ece_"


@dataclass(frozen=True)
class ItemStatistics:
    """Every statistic of one system; a row an item, (items, splits) values."""

    keys: Sequence[Key]
    groups: Sequence[str]
    values: Mapping[str, Floats]

    def chunk(self, metric: str) -> Chunk | None:
        """The statistics that a metric stands on, or `None` where the run has none for it."""
        if metric in self.values:
            return {metric: self.values[metric]}
        if (base := _base_of_excess(metric)) is not None:
            return self._excess(metric, base)
        correct = metric.replace(_ECE, "correct_", 1)
        if metric.startswith(_ECE) and correct in self.values:
            return {"confidence": self.values["confidence"], "correct": self.values[correct]}
        return None

    def _excess(self, metric: str, base: str) -> Chunk | None:
        floor = floor_column(base, self.values)
        if base not in self.values or floor is None:
            return None
        return {metric: self.values[base].mean(axis=1, keepdims=True) - self.values[floor]}


def read_statistics(store: Store, system: str) -> ItemStatistics:
    """All of a system's saved statistics."""
    columns: list[str] = store.meta("stat_columns")
    pages = list(store.stat_pages(system))
    ids = [row.item_id for row in store.rows(system, columns[0])]
    groups = [group for page in pages for group in page.groups]
    names = pages[0].values if pages else {}
    values = {name: np.concatenate([page.values[name] for page in pages]) for name in names}
    return ItemStatistics(_numbered(ids), groups, values)


def excess_name(metric: str) -> str:
    """What a metric above its floor is called.

    >>> excess_name("tvd"), excess_name("w1_C/lexical-1")
    ('tvd_excess', 'w1_C_excess/lexical-1')
    """
    name, slash, probe = metric.partition("/")
    return f"{name}_excess{slash}{probe}"


def floor_column(metric: str, columns: Mapping[str, Floats] | Sequence[str]) -> str | None:
    """The statistic that holds an item's floor, the one that results subtract, where there is one.

    Of words that is the estimate, of texts the higher end.

    >>> floor_column("tvd", ["tvd", "floor_value"]), floor_column("js", ["js", "floor_value"])
    ('floor_value', None)
    """
    names = {"tvd": "floor_value", "js": "floor_js_value"}
    wanted = names.get(metric, f"floor_high_{metric}")
    return wanted if wanted in columns else None


def compare_metric(
    metric: str,
    first: ItemStatistics,
    second: ItemStatistics,
    choices: Mapping[str, str],
    seed: int,
    interval: str = DEFAULT_METHOD,
) -> Paired | None:
    """Two systems by one metric on their common items; `None` where the metric is not theirs."""
    one, other = first.chunk(metric), second.chunk(metric)
    if one is None or other is None:
        return None
    places = _common(first.keys, second.keys)
    one = {name: values[places[0]] for name, values in one.items()}
    other = {name: values[places[1]] for name, values in other.items()}
    groups = [first.groups[i] for i in places[0].tolist()]
    return paired(one, other, groups, _reduction(metric, one, other, choices), seed, interval)


def _reduction(metric: str, one: Chunk, other: Chunk, choices: Mapping[str, str]) -> Reduction:
    if "confidence" not in one:
        return Mean(metric)
    closed = choices.get("bins", "closed") == "closed"
    if choices.get("binning", "equal-width") == "equal-width":
        return ECE("correct", equal_width_edges(), closed)
    # Bins of both together: with bins of their own, swapped groups would fall into other bins.
    both = np.concatenate([one["confidence"][:, 0], other["confidence"][:, 0]])
    sorted_ = np.sort(both[np.isfinite(both)])
    return ECE("correct", equal_mass_edges(sorted_.tolist(), len(sorted_)), closed)


def _common(first: Sequence[Key], second: Sequence[Key]) -> NDArray[np.int64]:
    """(2, n): the places of the common items in each, in the order of the first."""
    place = {key: i for i, key in enumerate(second)}
    both = [(i, place[key]) for i, key in enumerate(first) if key in place]
    return np.array(both, dtype=np.int64).reshape(-1, 2).T


def _numbered(ids: Sequence[str]) -> list[Key]:
    """Each item's id with the number of its row among the item's own."""
    seen: dict[str, int] = {}
    keys = []
    for item_id in ids:
        keys.append((item_id, seen.get(item_id, 0)))
        seen[item_id] = seen.get(item_id, 0) + 1
    return keys


def _base_of_excess(metric: str) -> str | None:
    name, slash, probe = metric.partition("/")
    return f"{name.removesuffix('_excess')}{slash}{probe}" if name.endswith("_excess") else None
