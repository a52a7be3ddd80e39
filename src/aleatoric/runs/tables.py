"""What every part of a run stands on: transactions, saved facts, systems."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.runs import formats
from aleatoric.runs.formats import (
    ITEMS_SAVED,
    META,
    STATS,
    SYSTEMS,
    DamagedRowError,
    StatPage,
    StatRow,
    StatTable,
    check_fact,
    check_system,
    insert,
    select,
    temporary,
)
from aleatoric.types import Draws, Item, Row

_FINISHED = "finished models"
COMPLETE = "complete"
"""The fact that all that was asked for is drawn and scored."""
FINETUNING = "finetuning"
"""The fact under which a fine-tuning run keeps its perplexities, curves and temperatures."""
BASE_WEIGHTS = "base weights"
"""The fact that tells the weights of the model that a fine-tuning run began with."""
TRAINING = "training"
"""The folder of weights and checkpoints in the directory of a fine-tuning run."""
_STRAYED = (
    "SELECT 1 FROM draws WHERE item < 1 UNION ALL SELECT 1 FROM draws WHERE item > "
    "max(?, (SELECT coalesce(max(no), 0) FROM items)) UNION ALL SELECT 1 FROM draws "
    "WHERE system NOT IN (SELECT no FROM systems) LIMIT 1"
)


def load_fact(row: formats.RowOf) -> Any:
    """A saved fact from its key and value; one of another shape than ours is damage."""
    key, text = formats.unseal(row)
    value = formats.load_facts(text)
    check_fact(key, value)
    return value


def _checked_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Refuse a manifest that does not fit the job of its level."""
    name = manifest.setdefault("command", manifest["level"])
    if name not in registry.names("levels"):
        raise DamagedRowError(f"there is no level {name!r:.40}")
    level = registry.find("levels", name)
    if manifest["level"] != level.name:
        raise DamagedRowError(f"the level of aleatoric {name} is not {manifest['level']!r:.40}")
    level.job_type.check_saved(manifest)
    return manifest


class Tables:
    """The tables of an opened run.

    `place` is the database that statistics are written to: the run's own (`main`), or one that
    disappears with the connection (`temp`) where another process writes the run.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.db = connection
        self.place = "main"
        self._manifest: dict[str, Any] | None = None
        self._systems: tuple[Any, dict[str, dict[str, Any]]] | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; inside another transaction, a part of it."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            # SQLite ends a transaction itself where the disk is full.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def check_whole(self) -> None:
        """Refuse a database that is not as it was written; it is read through once."""
        (found,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise DamagedRowError(found)
        # Rows are checked as they are read; facts, systems and answers under another key than
        # they were saved under would not be.
        self.systems()
        for row in self.db.execute(select("meta")):
            load_fact(row)
        if self.db.execute(_STRAYED, (self.meta(ITEMS_SAVED) or 0,)).fetchone():
            raise DamagedRowError("answers to no item, or of no system")

    def read_apart(self) -> None:
        """Look at the run as it is now and write no more to it, however long others go on.

        What is computed from here on lies in tables that go with the connection and are found
        before the run's own.
        """
        if self.place == "temp":
            return
        self.place = "temp"
        self.db.execute("BEGIN")
        for table, statement in (("meta", META), ("systems", SYSTEMS)):
            self.db.execute(temporary(statement))
            self.db.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    # Facts about the run -------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        """What was asked for: corpus, protocol, seed, versions."""
        if self._manifest is None:  # it never changes, and is asked for once per system
            self._manifest = _checked_manifest(self.fact("manifest"))
        return self._manifest

    def meta(self, key: str) -> Any:
        """A saved fact, or `None`."""
        found = self.db.execute(f"{select('meta')} WHERE key = ?", (key,)).fetchone()
        return None if found is None else load_fact(found)

    def fact(self, key: str) -> Any:
        """A saved fact that must be there."""
        found = self.meta(key)
        if found is None:
            raise DamagedRowError(f"the fact {key!r} is missing")
        return found

    def set_meta(self, key: str, value: Any) -> None:
        """Save a fact under a key."""
        row = formats.seal((key, json.dumps(value)))
        self.db.execute(insert("meta", "INSERT OR REPLACE"), row)

    def unfinished(self, specs: Iterable[str]) -> list[str]:
        """The models, as a user names them, that have not done all that was asked of them."""
        finished = self.meta(_FINISHED) or []
        return [spec for spec in specs if spec not in finished]

    def set_finished(self, spec: str) -> None:
        """A model has done all that was asked of it, and need not be loaded again."""
        self.set_meta(_FINISHED, [*(self.meta(_FINISHED) or []), spec])

    # Systems -------------------------------------------------------------------------------

    def add_system(self, name: str, facts: Mapping[str, Any]) -> int:
        """Register a system under its name, once; returns its number."""
        if self.db.execute("SELECT 1 FROM systems WHERE name = ?", (name,)).fetchone() is None:
            (last,) = self.db.execute("SELECT coalesce(max(no), 0) FROM systems").fetchone()
            row = formats.seal((last + 1, name, json.dumps(dict(facts))))
            self.db.execute(insert("systems"), row)
            self._systems = None
        return self.system_no(name)

    def systems(self) -> dict[str, dict[str, Any]]:
        """System name -> its facts, in the order of registration."""
        state = self.db.execute("PRAGMA data_version").fetchone()
        if self._systems is None or self._systems[0] != state:
            rows = self.db.execute(f"{select('systems')} ORDER BY no")
            opened = map(formats.unseal, rows)
            loaded = formats.Facts((name, formats.load_facts(text)) for _, name, text in opened)
            for name, facts in loaded.items():
                check_system(name, facts)
            self._systems = state, loaded
        return self._systems[1]

    def system_names(self) -> dict[int, str]:
        """The name of every system by its number."""
        return formats.Facts(self.db.execute("SELECT no, name FROM systems"))

    def system_no(self, name: str) -> int:
        """The number of a system in the run; an unknown one is refused."""
        found = self.db.execute("SELECT no FROM systems WHERE name = ?", (name,)).fetchone()
        if found is None:
            known = ", ".join(self.systems()) or "none"
            raise UsageError(f"{self.path}: has no system {name!r}; it has: {known}.")
        return int(found[0])


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
            found = formats.Facts(table.values)
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
            values = formats.or_none(table.values[metric][:, 0])
            yield from map(Row, *self._ids_and_groups(table), values)

    def total(self, system: str, column: str) -> int:
        """The sum of a count over a system's items."""
        if column not in self.stat_columns():
            raise UsageError(f"{self.path}: has no statistic {column!r}; score it again.")
        sums = (np.nansum(table.values[column]) for table in self.stat_tables(system))
        return formats.whole(sum(sums, 0.0))

    def stat_rows(self, systems: Iterable[str] | None = None) -> Iterator[formats.RowOf]:
        """System, id, group, row, all statistics and the packed splits, system by system."""
        for system in self.systems() if systems is None else systems:
            for table in self.stat_tables(system):
                columns = [formats.or_none(own[:, 0]) for own in table.values.values()]
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
            query = f"{select('stats')} WHERE generation = ? AND system = ? ORDER BY page"
            cursor = self.db.execute(query, (valid["generation"], number))
        n_splits = len(names) * self.manifest.get("n_splits", 1)
        n_rows = 0
        for sealed in cursor:
            table = formats.load_stats(formats.unseal(sealed)[-1], columns, n_splits)
            n_rows += len(table.items)
            yield table, names
        if n_rows != valid["rows"].get(system, 0):
            raise formats.DamagedRowError("statistics are missing")

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
            raise formats.DamagedRowError("statistics of no item") from None
        return list(formats.texts(ids)), list(formats.texts(groups))

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
            if n_cells >= formats.CELLS // 2 or is_wider:  # all rows of a page have one width
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
        with self.transaction():
            for system, rows in pending.items():
                payload = formats.dump_stats(rows, columns, widths[system])
                row = (generation, self.system_no(system), page, rows[-1].item, payload)
                self.db.execute(insert(f"{self.place}.stats"), formats.seal(row))


_ANSWERED = "EXISTS (SELECT 1 FROM draws WHERE item = no AND system = ?)"


@dataclass(frozen=True)
class Joined:
    """How a model's rows met the corpus: what matched, what had no item, what came again."""

    matched: int
    unmatched: int
    repeated: int


class Mark(NamedTuple):
    """An item's place in a run, and whether a system has answered it."""

    no: int
    id: str
    group: str
    is_answered: bool


class ItemTables(Tables):
    """The tables of items and draws."""

    def add_items(self, items: Iterable[Item]) -> int:
        """Save a corpus's items in one transaction; returns their number."""
        return self.add_item_rows(map(formats.dump_item, items))

    def add_item_rows(self, rows: Iterable[formats.ItemRow]) -> int:
        """Save items as their columns, numbered in the order in which the corpus has them.

        Where a damaged run has lost some, those alone are filled in.
        """
        with self.transaction():
            known = {no for (no,) in self.db.execute("SELECT no FROM items")}
            first = 1 if self.lacks_items else len(known) + 1
            numbered = ((first + place, *row) for place, row in enumerate(rows))
            new = (formats.seal(row) for row in numbered if row[0] not in known)
            self.db.executemany(insert("items"), new)
            self.set_meta(ITEMS_SAVED, self.n_items)
        return self.n_items

    @property
    def lacks_items(self) -> bool:
        """Whether the items of the corpus are not, or not all, in the run."""
        saved = self.meta(ITEMS_SAVED)
        return saved is None or self.n_items < int(saved)

    @property
    def n_items(self) -> int:
        """How many items the run holds."""
        return int(self.db.execute("SELECT count(no) FROM items").fetchone()[0])

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
                row = formats.seal((item, number, one.row, formats.dump_draws(one)))
                self.db.execute(insert("draws", "INSERT OR REPLACE"), row)
        return Joined(matched, unmatched, repeated)

    def n_items_with_draws(self, system: str) -> int:
        """How many items a system has answered."""
        query = "SELECT count(DISTINCT item) FROM draws WHERE system = ?"
        return int(self.db.execute(query, (self.system_no(system),)).fetchone()[0])

    def waiting(self, system: str) -> Iterator[Item]:
        """The items that a system has not answered yet, page by page."""
        return (formats.load_item(*row) for row in self.waiting_rows(system, PAGE))

    def waiting_rows(self, system: str, page_size: int) -> Iterator[tuple[Any, ...]]:
        """The columns of the items that a system has not answered yet."""
        number, last = self.system_no(system), -1
        query = f"{select('items')} WHERE no > ? AND NOT {_ANSWERED} ORDER BY no LIMIT ?"
        while page := self.db.execute(query, (last, number, page_size)).fetchall():
            last = page[-1][0]
            yield from (formats.unseal(row)[1:] for row in page)

    def marks(self, system: str) -> Iterator[Mark]:
        """Every item in order, and whether a system has answered it."""
        query = f"SELECT no, id, grp, {_ANSWERED} FROM items ORDER BY no"
        return (
            Mark(no, item_id, group, bool(answered))
            for no, item_id, group, answered in self.db.execute(query, (self.system_no(system),))
        )

    def items_between(self, first: int, last: int) -> list[Item]:
        """The items of these numbers, both included."""
        query = f"{select('items')} WHERE no BETWEEN ? AND ? ORDER BY no"
        rows = map(formats.unseal, self.db.execute(query, (first, last)))
        return [formats.load_item(*rest) for _, *rest in rows]

    def walk(self, system: str | None = None) -> Iterator[tuple[int, Item, dict[str, list[Draws]]]]:
        """Every item in order, with its number and the draws of each system, or of one."""
        names = self.system_names()
        if system is not None:
            names = {no: name for no, name in names.items() if name == system}
        for page in self._item_pages():
            by_item = self._draws_between(page[0][0], page[-1][0], names)
            for no, item in page:
                yield no, item, by_item.get(no, {})

    def walk_system(self, system: str) -> Iterator[tuple[Item, list[Draws]]]:
        """The items that a system has answered, with its draws."""
        for _, item, systems in self.walk(system):
            if system in systems:
                yield item, systems[system]

    def item_no(self, item_id: str) -> int | None:
        """The number of an item in the run, or `None`."""
        found = self.db.execute("SELECT no FROM items WHERE id = ?", (item_id,)).fetchone()
        return None if found is None else int(found[0])

    def _item_pages(self) -> Iterator[list[tuple[int, Item]]]:
        last = -1
        query = f"{select('items')} WHERE no > ? ORDER BY no LIMIT ?"
        while page := self.db.execute(query, (last, PAGE)).fetchall():
            last = page[-1][0]
            yield [(no, formats.load_item(*rest)) for no, *rest in map(formats.unseal, page)]

    def _draws_between(
        self, first: int, last: int, names: Mapping[int, str]
    ) -> dict[int, dict[str, list[Draws]]]:
        one = min(names) if len(names) == 1 else None
        query = (
            "SELECT id, item, system, row, payload, draws.checksum "
            "FROM draws JOIN items ON items.no = item "
            "WHERE item BETWEEN ? AND ? AND (? IS NULL OR system = ?) ORDER BY item, system, row"
        )
        found: dict[int, dict[str, list[Draws]]] = {}
        for item_id, *sealed in self.db.execute(query, (first, last, one, one)):
            item, system, row, payload = formats.unseal(tuple(sealed))
            of_system = found.setdefault(item, {}).setdefault(names[system], [])
            of_system.append(formats.load_draws(item_id, row, payload))
        return found


TOKEN_ROWS = "tokens"
"""The folder of per-token rows in a run directory, where they are kept."""


@dataclass(frozen=True)
class TokenSums:
    """How far a system has read a corpus, and the sums of what it read as a stream saved them."""

    items: int
    unscored: int
    """Items that were too short to hold a scored token."""
    tokens: int
    payload: bytes


class TokenTables(Tables):
    """The sums of an opened run's systems."""

    def save_token_sums(self, system: str, sums: TokenSums) -> None:
        """Replace a system's sums by those of more of the corpus, in one transaction."""
        row = (self.system_no(system), sums.items, sums.unscored, sums.tokens, sums.payload)
        self.db.execute(insert("token_sums", "INSERT OR REPLACE"), formats.seal(row))

    def token_sums(self, system: str) -> TokenSums | None:
        """A system's sums, or `None` before its first part is done."""
        query = f"{select('token_sums')} WHERE system = ?"
        found = self.db.execute(query, (self.system_no(system),)).fetchone()
        return None if found is None else TokenSums(*formats.unseal(found)[1:])

    def tokens_read(self, system: str) -> int:
        """How many tokens a system's sums are of."""
        query = "SELECT tokens FROM token_sums WHERE system = ?"
        found = self.db.execute(query, (self.system_no(system),)).fetchone()
        return int(found[0]) if found else 0

    def token_rows_folder(self, system: str) -> Path:
        """Where a system's per-token rows lie, a Parquet file for each part of the corpus."""
        return self.path / TOKEN_ROWS / f"{self.system_no(system):03}"
