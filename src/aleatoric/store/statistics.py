"""The statistics of a run: one row an item and system, replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from aleatoric import codec
from aleatoric.codec import StatPage, StatRow
from aleatoric.errors import UsageError
from aleatoric.store.base import Tables
from aleatoric.store.schema import sql_names_of
from aleatoric.types import Row

PAGE = 2000


class Statistics(Tables):
    """The part of an opened run that scoring writes and results read."""

    def write_stats(self, columns: Sequence[str], rows: Iterable[StatRow]) -> None:
        """Replace the statistics of the run; the old ones stay until the new are complete."""
        sql_names = sql_names_of(columns)
        listed = ", ".join(f"{name} REAL" for name in sql_names)
        place = (
            self.place
        )  # said everywhere: a bare name might be the run's own, another's to write
        self.db.execute(f"DROP TABLE IF EXISTS {place}.stats_new")
        self.db.execute(
            f"CREATE TABLE {place}.stats_new (system INTEGER NOT NULL, item INTEGER NOT NULL, "
            f"row INTEGER NOT NULL, {listed}, splits BLOB, "
            "PRIMARY KEY (system, item, row)) WITHOUT ROWID"
        )
        split_names = self._insert_stats(columns, rows)
        with self.transaction():
            self.db.execute(f"DROP TABLE IF EXISTS {place}.stats")
            self.db.execute(f"ALTER TABLE {place}.stats_new RENAME TO stats")
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
            f"SELECT grp, {', '.join(self.sql_columns())}, splits FROM stats "
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
            f"SELECT systems.name, items.id, grp, row, {', '.join(self.sql_columns())} FROM stats "
            "JOIN items ON items.no = item JOIN systems ON systems.no = system "
            "ORDER BY system, item, row"
        )
        return ["system", "item", "group", "row", *columns], iter(self.db.execute(query))

    def sql_columns(self) -> list[str]:
        """The columns of all statistics, in the order of their names; older runs have one name."""
        found: list[str] = self.meta("stat_sql_names") or self.meta("stat_columns")
        return found

    def _sql_column(self, name: str) -> str:
        known: list[str] = self.meta("stat_columns")
        if name not in known:
            raise UsageError(f"{self.path}: has no statistic {name!r}; score it again.")
        return self.sql_columns()[known.index(name)]

    def _insert_stats(
        self, columns: Sequence[str], rows: Iterable[StatRow]
    ) -> dict[str, list[str]]:
        numbers = {name: self.system_no(name) for name in self.systems()}
        split_names: dict[str, list[str]] = {}
        insert = (
            f"INSERT INTO {self.place}.stats_new VALUES ({', '.join('?' * (len(columns) + 4))})"
        )
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
