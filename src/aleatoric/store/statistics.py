"""The statistics of a run: one row per item and system, saved in compressed pages.

Statistics are replaced as a whole: new pages are a new generation, which one fact names as the
valid one when all are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from aleatoric import codec
from aleatoric.codec import StatPage, StatRow, StatTable
from aleatoric.errors import UsageError
from aleatoric.store.base import Tables
from aleatoric.store.schema import STATS, temporary
from aleatoric.types import Row

PAGE = 2000
"""Items that are read at once."""
VALID = "stats"
"""The fact that names the valid generation, and how many rows each system has in it."""


class Statistics(Tables):
    """The part of an opened run that scoring writes and results read."""

    _layout: tuple[Any, tuple[list[str], dict[str, list[str]], dict[str, Any]]] | None = None

    def write_stats(
        self,
        columns: Sequence[str],
        rows: Iterable[StatRow],
        facts: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Replace the statistics of the run; the old ones stay until the new are complete.

        `facts` is called after the last row; what it returns is saved together with the rows.
        """
        if self.place == "temp":
            self.db.execute(temporary(STATS))
        new = self.stats_generation + 1
        self.db.execute(f"DELETE FROM {self.place}.stats WHERE generation >= ?", (new,))
        counts: Counter[str] = Counter()
        split_names = self._insert_stats(new, columns, rows, counts)
        self._layout = None
        with self.transaction():
            self.db.execute(f"DELETE FROM {self.place}.stats WHERE generation < ?", (new,))
            self.set_meta("stat_columns", list(columns))
            self.set_meta("split_names", split_names)
            self.set_meta(VALID, {"generation": new, "rows": counts})
            for key, value in facts().items():
                self.set_meta(key, value)

    def has_stats(self) -> bool:
        """Whether the run has been scored."""
        return self.meta(VALID) is not None

    @property
    def stats_generation(self) -> int:
        """A number that changes whenever statistics have been replaced; 0 without any."""
        found = self.meta(VALID)
        return 0 if found is None else int(found["generation"])

    def stat_columns(self) -> list[str]:
        """The names of all saved statistics; none before the run has been scored."""
        found: list[str] = self.meta("stat_columns") or []
        return found

    def stat_pages(self, system: str) -> Iterator[StatPage]:
        """A system's statistics page by page; split statistics replace their means."""
        for table, split_names in self._tables_of(system):
            found = codec.Facts(table.values)
            if split_names:
                parts = table.splits.reshape(len(split_names), -1, len(table.items))
                found.update((name, part.T) for name, part in zip(split_names, parts, strict=True))
            yield StatPage(*self._ids_and_groups(table), found)

    def stat_tables(self, system: str) -> Iterator[StatTable]:
        """A system's statistics page by page, with the numbers of their items."""
        return (table for table, _ in self._tables_of(system))

    def rows(self, system: str, metric: str) -> Iterator[Row]:
        """One metric of one system, item by item."""
        if metric not in self.stat_columns():
            raise UsageError(f"{self.path}: has no statistic {metric!r}; score it again.")
        for table in self.stat_tables(system):
            values = codec.or_none(table.values[metric][:, 0])
            yield from map(Row, *self._ids_and_groups(table), values)

    def total(self, system: str, column: str) -> int:
        """The sum of a count over a system's items."""
        if column not in self.stat_columns():
            raise UsageError(f"{self.path}: has no statistic {column!r}; score it again.")
        sums = (np.nansum(table.values[column]) for table in self.stat_tables(system))
        return codec.whole(sum(sums, 0.0))

    def stat_rows(self, systems: Iterable[str] | None = None) -> Iterator[codec.RowOf]:
        """System, id, group, row, all statistics and the packed splits, system by system."""
        for system in self.systems() if systems is None else systems:
            for table in self.stat_tables(system):
                columns = [codec.or_none(own[:, 0]) for own in table.values.values()]
                keys = (*self._ids_and_groups(table), table.rows.tolist())
                splits = (own.tobytes() for own in np.ascontiguousarray(table.splits.T))
                for row in zip(*keys, *columns, splits, strict=True):
                    yield (system, *row)

    def _tables_of(self, system: str) -> Iterator[tuple[StatTable, list[str]]]:
        """The pages of a system, each with the names of its splits.

        A cursor stays at the state of the run at which it began, also where others write.
        """
        with self._one_moment():
            columns, split_names, valid = self._read_layout()
            names: list[str] = split_names.get(system, [])
            number = self.system_no(system)
            query = (
                "SELECT generation, system, page, last_item, payload FROM stats "
                "WHERE generation = ? AND system = ? ORDER BY page"
            )
            cursor = self.db.execute(query, (valid["generation"], number))
        n_splits = len(names) * self.manifest.get("n_splits", 1)
        n_rows = 0
        for sealed in cursor:
            table = codec.load_stats(codec.unseal(sealed)[-1], columns, n_splits)
            n_rows += len(table.items)
            yield table, names
        if n_rows != valid["rows"].get(system, 0):
            raise codec.DamagedRowError("statistics are missing")

    def _read_layout(self) -> tuple[list[str], dict[str, list[str]], dict[str, Any]]:
        """Columns, names of splits, and the valid generation: read again where others wrote."""
        state = self.db.execute("PRAGMA data_version").fetchone()
        if self._layout is None or self._layout[0] != state:
            facts = self.stat_columns(), self.fact("split_names"), self.fact(VALID)
            self._layout = state, facts
        return self._layout[1]

    def _ids_and_groups(self, table: StatTable) -> tuple[list[str], list[str]]:
        """The id and the group of every row of a page."""
        numbers = table.items.tolist()
        ends = min(numbers), max(numbers)
        query = "SELECT no, id, grp FROM items WHERE no BETWEEN ? AND ?"
        heads = {no: (id_, group) for no, id_, group in self.db.execute(query, ends)}
        try:
            ids, groups = zip(*(heads[no] for no in numbers), strict=True)
        except KeyError:
            raise codec.DamagedRowError("statistics of no item") from None
        return list(codec.texts(ids)), list(codec.texts(groups))

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Facts and a cursor of one state of the run, though others may write it meanwhile."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            self.db.execute("COMMIT")

    def _insert_stats(
        self,
        generation: int,
        columns: Sequence[str],
        rows: Iterable[StatRow],
        counts: Counter[str],
    ) -> dict[str, list[str]]:
        """Save rows and count them by system; returns the names of what each system splits."""
        pending: dict[str, list[StatRow]] = {}
        split_names: dict[str, list[str]] = {}
        widths: Counter[str] = Counter()
        n_cells = page = 0
        for row in rows:
            system, width = row.system, sum(map(len, row.splits.values()))
            is_wider = width > widths[system] and system in pending
            if n_cells >= codec.CELLS // 2 or is_wider:  # all rows of a page have one width
                self._insert_page((generation, page), columns, pending, widths)
                pending, n_cells, page = {}, 0, page + 1
            if width > widths[system]:
                widths[system], split_names[system] = width, list(row.splits)
            pending.setdefault(system, []).append(row)
            counts[system] += 1
            n_cells += 2 + len(columns) + widths[system]
        self._insert_page((generation, page), columns, pending, widths)
        return split_names

    def _insert_page(
        self,
        key: tuple[int, int],
        columns: Sequence[str],
        pending: Mapping[str, Sequence[StatRow]],
        widths: Mapping[str, int],
    ) -> None:
        """Save the pending rows of every system as a page each, in one transaction."""
        generation, page = key
        insert = f"INSERT INTO {self.place}.stats VALUES (?, ?, ?, ?, ?)"
        with self.transaction():
            for system, rows in pending.items():
                payload = codec.dump_stats(rows, columns, widths[system])
                row = (generation, self.system_no(system), page, rows[-1].item, payload)
                self.db.execute(insert, codec.seal(row))
