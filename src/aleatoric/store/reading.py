"""A run read a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric import codec
from aleatoric.codec import texts
from aleatoric.errors import UsageError
from aleatoric.store.run import Store
from aleatoric.types import Draws, Floats, Ints, Item, Row

AT_ONCE = 500
"""Places for values that one statement holds."""


@dataclass(frozen=True)
class StatColumns:
    """Statistics of one system: item numbers, rows of the same item, and a column a name."""

    items: Ints
    rows: Ints
    values: dict[str, Floats]


@dataclass(frozen=True)
class StoredRows:
    """A system's values of one column by item, read from the run whenever they are walked."""

    store: Store
    system: str
    column: str

    def __iter__(self) -> Iterator[Row]:
        return self.store.rows(self.system, self.column)


def stat_columns(store: Store, system: str, names: Sequence[str]) -> StatColumns:
    """Some of a system's statistics as arrays; undefined is NaN.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from aleatoric.codec import StatRow
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "word"}) as store:
    ...         _ = store.add_system("toy", {})
    ...         store.write_stats(["tvd"], [StatRow(1, "toy", 0, {"tvd": 0.5}, {})])
    ...         stat_columns(store, "toy", ["tvd"]).values["tvd"].tolist()
    [0.5]
    """
    tables = list(store.stat_tables(system))
    none = np.zeros(0, dtype=np.int64)
    items = np.concatenate([none, *(table.items for table in tables)])
    rows = np.concatenate([none, *(table.rows for table in tables)])
    values = {
        name: np.concatenate([np.zeros(0), *(table.values[name][:, 0] for table in tables)])
        for name in names
    }
    return StatColumns(items, rows, values)


def scored_until(store: Store, systems: Sequence[str]) -> int:
    """The number of the last item that a scoring still going on has reached; 0 without one."""
    query = "SELECT max(last_item) FROM stats WHERE generation > ? AND system = ?"
    generation, numbers = store.stats_generation, [store.system_no(name) for name in systems]
    found = [store.db.execute(query, (generation, no)).fetchone()[0] for no in numbers]
    return max((int(last) for last in found if last is not None), default=0)


def item_heads(store: Store) -> Iterator[tuple[int, str, str, str]]:
    """Every item's number, id, group and context as it is saved, in order."""
    query = "SELECT no, id, grp, context FROM items ORDER BY no"
    return ((no, *texts(head)) for no, *head in store.db.execute(query))


def heads_of(store: Store, numbers: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """Item number -> id, group and context of some items."""
    found: dict[int, tuple[str, str, str]] = {}
    for start in range(0, len(numbers), AT_ONCE):
        some = [int(no) for no in numbers[start : start + AT_ONCE]]
        query = f"SELECT no, id, grp, context FROM items WHERE no IN ({_places(some)})"
        rows = store.db.execute(query, some)
        found |= {no: (id_, grp, text) for no, *head in rows for id_, grp, text in [texts(head)]}
    return found


def item_and_draws(store: Store, no: int) -> tuple[Item, dict[str, list[Draws]]]:
    """One context with each system's draws, as far as they are there."""
    query = "SELECT no, id, grp, context, original, responses FROM items WHERE no = ?"
    found_row = store.db.execute(query, (no,)).fetchone()
    if found_row is None:
        raise UsageError(f"{store.path}: has no item number {no}.")
    item = codec.load_item(*codec.unseal(found_row)[1:])
    found: dict[str, list[Draws]] = {}
    query = (
        "SELECT name, item, system, row, payload FROM draws JOIN systems ON systems.no = system "
        "WHERE item = ? ORDER BY system, row"
    )
    for name, *sealed in store.db.execute(query, (no,)):
        *_, row, payload = codec.unseal(tuple(sealed))
        found.setdefault(name, []).append(codec.load_draws(item.id, row, payload))
    return item, found


def _places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
