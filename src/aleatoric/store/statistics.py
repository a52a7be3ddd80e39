"""The statistics of a run: one row an item and system, replaced as a whole."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any

from aleatoric import codec
from aleatoric.codec import StatPage, StatRow
from aleatoric.errors import UsageError
from aleatoric.store.base import Tables
from aleatoric.store.schema import sql_names_of
from aleatoric.types import Row

PAGE = 2000
SEALED = "stats sealed"
"""The fact of how many rows each system has: every row carries a checksum behind its splits."""


class Statistics(Tables):
    """The part of an opened run that scoring writes and results read."""

    def write_stats(
        self,
        columns: Sequence[str],
        rows: Iterable[StatRow],
        facts: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Replace the statistics of the run; the old ones stay until the new are complete.

        `facts` is called after the last row; what it returns is saved together with the rows.
        """
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
        counts: Counter[str] = Counter()
        split_names = self._insert_stats(columns, rows, counts)
        with self.transaction():
            self.db.execute(f"DROP TABLE IF EXISTS {place}.stats")
            self.db.execute(f"ALTER TABLE {place}.stats_new RENAME TO stats")
            self.set_meta("stat_columns", list(columns))
            self.set_meta("stat_sql_names", sql_names)
            self.set_meta("split_names", split_names)
            self.set_meta(SEALED, counts)
            for key, value in facts().items():
                self.set_meta(key, value)

    def has_stats(self) -> bool:
        """Whether the run has been scored."""
        return self.meta("stat_columns") is not None

    def stat_pages(self, system: str) -> Iterator[StatPage]:
        """A system's statistics page by page; split statistics replace their means."""
        with self._one_moment():
            columns: list[str] = self.meta("stat_columns")
            names: list[str] = self.meta("split_names").get(system, [])
            n_splits: int = self.manifest.get("n_splits", 1)
            saved, cursor = self.meta(SEALED), self._pages_of(system)
        counts: Counter[str] = Counter()
        while rows := cursor.fetchmany(PAGE):
            counts[system] += len(rows)
            opened = _checked([row[1:] for row in rows], saved)
            page = [(row[0], *own[3:]) for row, own in zip(rows, opened, strict=True)]
            yield codec.stat_page(page, columns, names, n_splits)
        _check_counts(counts, [system], saved)

    def _pages_of(self, system: str) -> sqlite3.Cursor:
        query = (
            f"SELECT grp, system, item, row, {', '.join(self.sql_columns())}, splits FROM stats "
            "JOIN items ON items.no = item WHERE system = ? ORDER BY item, row"
        )
        return self.db.execute(query, (self.system_no(system),))

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Facts and a cursor of one state of the run, though others may write it meanwhile.

        A cursor keeps to the state that it began with, also after the end of the transaction; facts
        that are read later may be of other statistics.
        """
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            self.db.execute("COMMIT")

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
        rows = (row[:-1] for row in self.stat_rows("system, item, row"))
        return ["system", "item", "group", "row", *columns], rows

    def stat_rows(self, order: str) -> Iterator[codec.RowOf]:
        """System, id, group, row, all statistics and the packed splits, item by item."""
        with self._one_moment():
            saved, systems = self.meta(SEALED), self.systems()
            cursor = self.db.execute(
                "SELECT systems.name, items.id, grp, system, item, row, "
                f"{', '.join(self.sql_columns())}, splits FROM stats "
                "JOIN items ON items.no = item JOIN systems ON systems.no = system "
                f"ORDER BY {order}"
            )
        counts: Counter[str] = Counter()
        while rows := cursor.fetchmany(PAGE):
            counts.update(row[0] for row in rows)
            opened = _checked([row[3:] for row in rows], saved)
            yield from ((*row[:3], *own[2:]) for row, own in zip(rows, opened, strict=True))
        _check_counts(counts, systems, saved)

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
        self, columns: Sequence[str], rows: Iterable[StatRow], counts: Counter[str]
    ) -> dict[str, list[str]]:
        """Save rows and count them by system; returns the names of what each system splits."""
        numbers = {name: self.system_no(name) for name in self.systems()}
        split_names: dict[str, list[str]] = {}
        insert = (
            f"INSERT INTO {self.place}.stats_new VALUES ({', '.join('?' * (len(columns) + 4))})"
        )
        waiting = iter(rows)
        while page := list(islice(waiting, PAGE)):
            counts.update(row.system for row in page)
            for system, group in groupby(page, key=lambda row: row.system):
                first = next((row for row in group if row.splits), None)
                if first is not None:
                    split_names.setdefault(system, list(first.splits))
            with self.transaction():
                flat = [codec.flat(row, numbers[row.system], columns) for row in page]
                self.db.executemany(insert, codec.seal_stats(flat))
        return split_names


def _check_counts(
    found: Mapping[str, int], systems: Iterable[str], saved: Mapping[str, int] | None
) -> None:
    """Refuse statistics of which some are gone: a row under another key is not even read."""
    if saved is not None and any(saved.get(s, 0) != found.get(s, 0) for s in systems):
        raise codec.DamagedRowError("statistics are missing")


def _checked(rows: list[codec.RowOf], saved: Mapping[str, int] | None) -> list[codec.RowOf]:
    """Rows as they were given to be saved; an older version's carry no checksums."""
    return rows if saved is None else codec.check_stats(rows)
