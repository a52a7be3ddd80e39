"""The run directory: one SQLite file between sampling, scoring and reporting.

Items, draws and statistics are written in whole transactions; scoring reads draws and needs no
model; every reader walks page by page, so that a run of any size fits in memory.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric import codec
from aleatoric.codec import StatPage, StatRow
from aleatoric.errors import DataError, UsageError
from aleatoric.store.schema import DATABASE, SCHEMA, SCHEMA_VERSION, connect, sql_names_of
from aleatoric.types import Draws, Item, Row

PAGE = 2000
TOKEN_ROWS = "tokens"
"""The folder of per-token rows in a run directory, where they are kept."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Joined:
    """How a model's rows met the corpus: what matched, what had no item, what came again."""

    matched: int
    unmatched: int
    repeated: int


@dataclass(frozen=True)
class TokenSums:
    """How far a system has read a corpus, and the sums of what it read as a stream saved them."""

    items: int
    unscored: int
    """Items that were too short to hold a scored token."""
    tokens: int
    payload: bytes


class Store:
    """A run directory, opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "word"}) as store:
    ...         store.add_items([Item("1:2", "1", "There", ("are", "is"))])
    1
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, made: Sequence[Path] = ()
    ) -> None:
        self.path = path
        self.db = connection
        self._made = made  # folders that were not there before, innermost first

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> Store:
        """A new run directory; an existing one is refused."""
        if (path / DATABASE).exists():
            raise UsageError(f"{path}: holds a run already; choose another --out.")
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            connection = connect(path / DATABASE)
            connection.execute("PRAGMA journal_mode = WAL")
        except (OSError, sqlite3.OperationalError) as error:
            raise UsageError(
                f"{path}: cannot be written ({error}); choose another --out."
            ) from None
        connection.executescript(SCHEMA)
        store = cls(path, connection, made)
        store.set_meta("schema", SCHEMA_VERSION)
        store.set_meta("manifest", dict(manifest))
        return store

    @classmethod
    def continue_or_create(cls, path: Path, manifest: Mapping[str, Any]) -> Store:
        """The run in `path` if it was asked for with the same words, or a new one."""
        if not (path / DATABASE).exists():
            return cls.create(path, manifest)
        store = cls.open(path)
        saved = store.manifest
        # Other package versions may finish a run; anything else would mix two runs in one.
        asked = json.loads(json.dumps(dict(manifest)))
        for name in sorted((saved.keys() | asked.keys()) - {"versions"}):
            if saved.get(name) != asked.get(name):
                raise UsageError(
                    f"{path}: holds another run (its {name} differs); choose another --out."
                )
        return store

    @classmethod
    def open(cls, path: Path) -> Store:
        """An existing run directory."""
        if not (path / DATABASE).is_file():
            raise UsageError(f"{path}: is no run directory; it has no {DATABASE}.")
        try:
            store = cls(path, connect(path / DATABASE))
            schema = store.meta("schema")
        except sqlite3.DatabaseError:
            fix = "restore it from a copy or run again"
            raise DataError.at(path / DATABASE, None, "is damaged or no run", fix) from None
        if schema != SCHEMA_VERSION:
            raise UsageError(f"{path}: has run format {schema}, not {SCHEMA_VERSION}; update.")
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def discard(self) -> None:
        """Close and remove what this run wrote: nothing half-written stays behind."""
        self.db.close()
        shutil.rmtree(self.path / TOKEN_ROWS, ignore_errors=True)
        for file in self.path.glob(DATABASE + "*"):
            file.unlink()
        for folder in self._made:
            if not any(folder.iterdir()):
                folder.rmdir()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; inside another transaction, a part of it."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    # Facts about the run -------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        """What was asked for: corpus, protocol, seed, versions."""
        found: dict[str, Any] = self.meta("manifest")
        return found

    def meta(self, key: str) -> Any:
        """A saved fact, or `None`."""
        found = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else json.loads(found[0])

    def set_meta(self, key: str, value: Any) -> None:
        """Save a fact under a key."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    # Items and draws -----------------------------------------------------------------------

    def add_items(self, items: Iterable[Item]) -> int:
        """Save a corpus's items in one transaction; returns their number."""
        with self.transaction():
            self.db.executemany(
                "INSERT INTO items (id, grp, context, original, responses) VALUES (?, ?, ?, ?, ?)",
                ((i.id, i.group, i.context, i.original, codec.dump(i.responses)) for i in items),
            )
        return self.n_items

    @property
    def n_items(self) -> int:
        """How many items the run holds."""
        return int(self.db.execute("SELECT count(*) FROM items").fetchone()[0])

    def add_system(self, name: str, facts: Mapping[str, Any]) -> int:
        """Register a system under its name, once; returns its number."""
        insert = "INSERT OR IGNORE INTO systems (name, facts) VALUES (?, ?)"
        self.db.execute(insert, (name, json.dumps(dict(facts))))
        return self.system_no(name)

    def systems(self) -> dict[str, dict[str, Any]]:
        """System name -> its facts, in the order of registration."""
        rows = self.db.execute("SELECT name, facts FROM systems ORDER BY no")
        return {name: json.loads(facts) for name, facts in rows}

    def add_draws(self, system: str, draws: Iterable[Draws], whole: bool = True) -> Joined:
        """Save draws joined to items by id: in one transaction, or as they come."""
        number = self.system_no(system)
        matched = unmatched = repeated = 0
        with self.transaction() if whole else nullcontext():
            for one in draws:
                item = self.item_no(one.item_id)
                if item is None:
                    unmatched += 1
                    continue
                matched += 1
                repeated += one.row > 0
                row = (item, number, one.row, codec.dump_draws(one))
                self.db.execute("INSERT OR REPLACE INTO draws VALUES (?, ?, ?, ?)", row)
        return Joined(matched, unmatched, repeated)

    def n_items_with_draws(self, system: str) -> int:
        """How many items a system has answered."""
        query = "SELECT count(DISTINCT item) FROM draws WHERE system = ?"
        return int(self.db.execute(query, (self.system_no(system),)).fetchone()[0])

    def answered(self, system: str) -> set[str]:
        """The ids of the items that a system has answered."""
        query = "SELECT DISTINCT id FROM draws JOIN items ON items.no = item WHERE system = ?"
        return {item_id for (item_id,) in self.db.execute(query, (self.system_no(system),))}

    def walk(self) -> Iterator[tuple[int, Item, dict[str, list[Draws]]]]:
        """Every item in order, with its number and each system's draws."""
        names = dict(self.db.execute("SELECT no, name FROM systems"))
        for page in self._item_pages():
            by_item = self._draws_between(page[0][0], page[-1][0], names)
            for no, item in page:
                yield no, item, by_item.get(no, {})

    def walk_system(self, system: str) -> Iterator[tuple[Item, list[Draws]]]:
        """The items that a system has answered, with its draws."""
        for _, item, systems in self.walk():
            if system in systems:
                yield item, systems[system]

    # Statistics ----------------------------------------------------------------------------

    def write_stats(self, columns: Sequence[str], rows: Iterable[StatRow]) -> None:
        """Replace the statistics of the run; the old ones stay until the new are complete."""
        sql_names = sql_names_of(columns)
        listed = ", ".join(f"{name} REAL" for name in sql_names)
        self.db.execute("DROP TABLE IF EXISTS stats_new")
        self.db.execute(
            "CREATE TABLE stats_new (system INTEGER NOT NULL, item INTEGER NOT NULL, row INTEGER "
            f"NOT NULL, {listed}, splits BLOB, PRIMARY KEY (system, item, row)) WITHOUT ROWID"
        )
        split_names = self._insert_stats(columns, rows)
        with self.transaction():
            self.db.execute("DROP TABLE IF EXISTS stats")
            self.db.execute("ALTER TABLE stats_new RENAME TO stats")
            self.set_meta("stat_columns", list(columns))
            self.set_meta("stat_sql_names", sql_names)
            self.set_meta("split_names", split_names)

    def has_stats(self) -> bool:
        """Whether the run has been scored."""
        return self.meta("stat_columns") is not None

    def stat_pages(self, system: str) -> Iterator[StatPage]:
        """A system's statistics page by page; split statistics replace their means."""
        columns: list[str] = self.meta("stat_columns")
        names: list[str] = self.meta("split_names").get(system, [])
        n_splits: int = self.manifest.get("n_splits", 1)
        query = (
            f"SELECT grp, {', '.join(self._sql_columns())}, splits FROM stats "
            "JOIN items ON items.no = item WHERE system = ? ORDER BY item, row"
        )
        cursor = self.db.execute(query, (self.system_no(system),))
        while rows := cursor.fetchmany(PAGE):
            yield codec.stat_page(rows, columns, names, n_splits)

    def rows(self, system: str, metric: str) -> Iterator[Row]:
        """One metric of one system, item by item."""
        query = (
            f"SELECT items.id, grp, {self._sql_column(metric)} FROM stats "
            "JOIN items ON items.no = item WHERE system = ? ORDER BY item, row"
        )
        for item_id, group, value in self.db.execute(query, (self.system_no(system),)):
            yield Row(item_id, group, value)

    def total(self, system: str, column: str) -> int:
        """The sum of a count over a system's items."""
        query = f"SELECT sum({self._sql_column(column)}) FROM stats WHERE system = ?"
        return int(self.db.execute(query, (self.system_no(system),)).fetchone()[0] or 0)

    def stat_table(self) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """All statistics with their item and system, for export: column names and rows."""
        columns: list[str] = self.meta("stat_columns")
        query = (
            f"SELECT systems.name, items.id, grp, row, {', '.join(self._sql_columns())} FROM stats "
            "JOIN items ON items.no = item JOIN systems ON systems.no = system "
            "ORDER BY system, item, row"
        )
        return ["system", "item", "group", "row", *columns], iter(self.db.execute(query))

    # Tokens --------------------------------------------------------------------------------

    def save_token_sums(self, system: str, sums: TokenSums) -> None:
        """Replace a system's sums by those of more of the corpus, in one transaction."""
        row = (self.system_no(system), sums.items, sums.unscored, sums.tokens, sums.payload)
        self.db.execute("INSERT OR REPLACE INTO token_sums VALUES (?, ?, ?, ?, ?)", row)

    def token_sums(self, system: str) -> TokenSums | None:
        """A system's sums, or `None` before its first part is done."""
        query = "SELECT items, unscored, tokens, payload FROM token_sums WHERE system = ?"
        found = self.db.execute(query, (self.system_no(system),)).fetchone()
        return None if found is None else TokenSums(*found)

    def tokens_read(self, system: str) -> int:
        """How many tokens a system's sums are of."""
        query = "SELECT tokens FROM token_sums WHERE system = ?"
        found = self.db.execute(query, (self.system_no(system),)).fetchone()
        return int(found[0]) if found else 0

    def token_rows_folder(self, system: str) -> Path:
        """Where a system's per-token rows lie, a Parquet file for each part of the corpus."""
        return self.path / TOKEN_ROWS / f"{self.system_no(system):03}"

    # Inside --------------------------------------------------------------------------------

    def system_no(self, name: str) -> int:
        """The number of a system in the run; an unknown one is refused."""
        found = self.db.execute("SELECT no FROM systems WHERE name = ?", (name,)).fetchone()
        if found is None:
            known = ", ".join(self.systems()) or "none"
            raise UsageError(f"{self.path}: has no system {name!r}; it has: {known}.")
        return int(found[0])

    def _sql_columns(self) -> list[str]:
        """The columns of all statistics, in the order of their names; older runs have one name."""
        found: list[str] = self.meta("stat_sql_names") or self.meta("stat_columns")
        return found

    def _sql_column(self, name: str) -> str:
        known: list[str] = self.meta("stat_columns")
        if name not in known:
            raise UsageError(f"{self.path}: has no statistic {name!r}; score it again.")
        return self._sql_columns()[known.index(name)]

    def item_no(self, item_id: str) -> int | None:
        """The number of an item in the run, or `None`."""
        found = self.db.execute("SELECT no FROM items WHERE id = ?", (item_id,)).fetchone()
        return None if found is None else int(found[0])

    def _item_pages(self) -> Iterator[list[tuple[int, Item]]]:
        last = -1
        query = (
            "SELECT no, id, grp, context, original, responses FROM items "
            "WHERE no > ? ORDER BY no LIMIT ?"
        )
        while page := self.db.execute(query, (last, PAGE)).fetchall():
            last = page[-1][0]
            yield [(no, codec.load_item(*rest)) for no, *rest in page]

    def _draws_between(
        self, first: int, last: int, names: Mapping[int, str]
    ) -> dict[int, dict[str, list[Draws]]]:
        query = (
            "SELECT item, system, row, payload, id FROM draws JOIN items ON items.no = item "
            "WHERE item BETWEEN ? AND ? ORDER BY item, system, row"
        )
        found: dict[int, dict[str, list[Draws]]] = {}
        for item, system, row, payload, item_id in self.db.execute(query, (first, last)):
            of_system = found.setdefault(item, {}).setdefault(names[system], [])
            of_system.append(codec.load_draws(item_id, row, payload))
        return found

    def _insert_stats(
        self, columns: Sequence[str], rows: Iterable[StatRow]
    ) -> dict[str, list[str]]:
        numbers = {name: self.system_no(name) for name in self.systems()}
        split_names: dict[str, list[str]] = {}
        insert = f"INSERT INTO stats_new VALUES ({', '.join('?' * (len(columns) + 4))})"
        waiting = iter(rows)
        while page := list(islice(waiting, PAGE)):
            for system, group in groupby(page, key=lambda row: row.system):
                first = next((row for row in group if row.splits), None)
                if first is not None:
                    split_names.setdefault(system, list(first.splits))
            with self.transaction():
                self.db.executemany(
                    insert, (codec.flat(row, numbers[row.system], columns) for row in page)
                )
        return split_names
