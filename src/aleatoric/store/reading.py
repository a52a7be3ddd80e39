"""A run for readers alone: opened so that nothing can be written, and read a column at a time.

SQLite lets readers go on while a writer writes (write-ahead log), so a run can be looked at while
it is still being made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aleatoric import codec
from aleatoric.errors import UsageError
from aleatoric.store.faults import check_run, command, damaged, error_of
from aleatoric.store.migrations import is_older, version_of
from aleatoric.store.run import Store
from aleatoric.store.schema import DATABASE, SCHEMA_VERSION
from aleatoric.types import Draws, Item, Row

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
PATIENCE_S = 5.0
"""How long a reader waits for a lock: only a change of tables takes one."""
AT_ONCE = 500
"""Places for values that one statement holds."""


@dataclass(frozen=True)
class StatColumns:
    """Statistics of one system: item numbers, rows of the same item, and a column a name."""

    items: Numbers
    rows: Numbers
    values: dict[str, Floats]


@dataclass(frozen=True)
class StoredRows:
    """A system's values of one column by item, read from the run whenever they are walked."""

    store: Store
    system: str
    column: str

    def __iter__(self) -> Iterator[Row]:
        return self.store.rows(self.system, self.column)


def open_read_only(path: Path) -> Store:
    """An existing run, to be read alone: SQLite itself refuses to write through it."""
    check_run(path)
    try:
        store = Store(path, _connect(path / DATABASE))
        schema = version_of(store.db)
    except (sqlite3.DatabaseError, codec.DamagedRowError) as error:
        raise error_of(path, error, reads=True) or damaged(path) from None
    if schema != SCHEMA_VERSION:
        store.db.close()
        fix = f"run {command(path, 'score')} once" if is_older(schema) else "update"
        raise UsageError(f"{path}: has run format {schema}, not {SCHEMA_VERSION}; {fix}.")
    return store


def stat_columns(store: Store, system: str, names: Sequence[str]) -> StatColumns:
    """Some of a system's statistics as arrays; undefined is NaN.

    >>> import tempfile
    >>> from aleatoric.codec import StatRow
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "word"}) as store:
    ...         _ = store.add_system("toy", {})
    ...         store.write_stats(["tvd"], [StatRow(1, "toy", 0, {"tvd": 0.5}, {})])
    ...         stat_columns(store, "toy", ["tvd"]).values["tvd"].tolist()
    [0.5]
    """
    saved: list[str] = store.meta("stat_columns")
    in_sql: list[str] = store.meta("stat_sql_names") or saved
    wanted = ", ".join(in_sql[saved.index(name)] for name in names)
    query = f"SELECT item, row, {wanted} FROM stats WHERE system = ? ORDER BY item, row"
    found = store.db.execute(query, (store.system_no(system),)).fetchall()
    table = np.array(found, dtype=np.float64).reshape(len(found), len(names) + 2)
    whole = table[:, :2].astype(np.int64)
    values = {name: np.ascontiguousarray(table[:, i + 2]) for i, name in enumerate(names)}
    return StatColumns(whole[:, 0], whole[:, 1], values)


def scored_until(store: Store, systems: Sequence[str]) -> int:
    """The number of the last item that a scoring still going on has reached; 0 without one."""
    numbers = [store.system_no(name) for name in systems]
    try:
        query = "SELECT max(item) FROM stats_new WHERE system = ?"
        found = [store.db.execute(query, (no,)).fetchone()[0] for no in numbers]
    except sqlite3.OperationalError:  # no scoring is going on
        return 0
    return max((int(one) for one in found if one is not None), default=0)


def table_version(store: Store) -> int:
    """A number that changes whenever statistics have been replaced."""
    return int(store.db.execute("PRAGMA schema_version").fetchone()[0])


def item_heads(store: Store) -> Iterator[tuple[int, str, str, str]]:
    """Every item's number, id, group and context as it is saved, in order."""
    query = "SELECT no, id, grp, context FROM items ORDER BY no"
    return (tuple(row) for row in store.db.execute(query))


def heads_of(store: Store, numbers: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """Item number -> id, group and context of some items."""
    found: dict[int, tuple[str, str, str]] = {}
    for start in range(0, len(numbers), AT_ONCE):
        some = [int(no) for no in numbers[start : start + AT_ONCE]]
        query = f"SELECT no, id, grp, context FROM items WHERE no IN ({_places(some)})"
        found |= {no: (id_, grp, text) for no, id_, grp, text in store.db.execute(query, some)}
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


def _connect(file: Path) -> sqlite3.Connection:
    place = file.resolve().as_uri()
    connection = _opened(f"{place}?mode=ro")
    try:
        connection.execute("SELECT 1 FROM meta").fetchone()
    except sqlite3.OperationalError:
        log = file.with_name(file.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise
        # In a folder where not even a lock can be made, nobody writes: the file does not change.
        connection.close()
        connection = _opened(f"{place}?mode=ro&immutable=1")
    return connection


def _opened(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, timeout=PATIENCE_S, isolation_level=None, uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
