"""The tables of an opened run: facts, systems, items, draws, statistics, token sums."""

from __future__ import annotations

import json
import math
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
from aleatoric.runs.formats import DamagedRowError, StatRow, StatTable, insert, seal, select, unseal
from aleatoric.types import Draws, Floats, Item, Row, TextItem

PAGE = 2000
"""Items that are read at once."""
COMPLETE = "complete"
"""The fact that everything is drawn and scored."""
FINETUNING, BASE_WEIGHTS = "finetuning", "base weights"
"""Facts of a fine-tuning run: its perplexities, curves and temperatures, and its first weights."""
VALID = "stats"
"""The fact that names the valid generation of statistics, and how many rows each system has."""
SCORED_BY = "scored by"
"""The fact that identifies the version of the code that scored the run."""
TRAINING, TOKEN_ROWS = "training", "tokens"
"""Folders in a run directory: weights and checkpoints of fine-tuning, and per-token rows."""
TRAINED_MODEL = f"{TRAINING}/model"
"""The folder of a fine-tuned text generator, which transformers can load."""
_FINISHED = "finished models"
_ANSWERED = "EXISTS (SELECT 1 FROM draws WHERE item = no AND system = ?)"
_STRAY_DRAWS = (
    "SELECT 1 FROM draws WHERE item < 1 UNION ALL SELECT 1 FROM draws WHERE item > "
    "max(?, (SELECT coalesce(max(no), 0) FROM items)) UNION ALL SELECT 1 FROM draws "
    "WHERE system NOT IN (SELECT no FROM systems) LIMIT 1"
)


def load_fact(row: formats.SqlRow) -> Any:
    """Return the value of a saved fact; a value of an unexpected shape counts as damage."""
    key, text = unseal(row)
    value = formats.load(text, formats.SavedDict)
    formats.check_fact(key, value)
    return value


def _checked_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    name = manifest.setdefault("command", manifest["level"])
    if name not in registry.names("levels"):
        raise DamagedRowError(f"there is no level {name!r:.40}")
    level = registry.find("levels", name)
    if manifest["level"] != level.name:
        raise DamagedRowError(f"the level of aleatoric {name} is not {manifest['level']!r:.40}")
    level.job_type.check_saved(manifest)
    return manifest


class Tables:
    """Facts and systems of an opened run."""

    database = "main"
    """Where statistics are written: "temp" tables while another process writes the run."""
    _manifest: dict[str, Any] | None = None
    _systems: tuple[Any, dict[str, dict[str, Any]]] | None = None

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.db = connection

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Write all or nothing, or read one state; inside another transaction, a part of it."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute(begin)
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            # SQLite ends a transaction itself if the disk is full.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def check_whole(self) -> None:
        """Refuse a database that is not as it was written; all of it is read once."""
        (outcome,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        if outcome != "ok":
            raise DamagedRowError(outcome)
        # Rows are checked as they are read; facts, systems and answers under another key than
        # they were saved under would not be.
        self.systems()
        for row in self.db.execute(select("meta")):
            load_fact(row)
        if self.db.execute(_STRAY_DRAWS, (self.meta(formats.ITEMS_SAVED) or 0,)).fetchone():
            raise DamagedRowError("answers to no item, or of no system")

    def use_temporary_tables(self) -> None:
        """Stay at the present state of the run, and write only to temporary tables."""
        if self.database == "temp":
            return
        self.database = "temp"
        self.db.execute("BEGIN")
        for table, statement in (("meta", formats.META), ("systems", formats.SYSTEMS)):
            self.db.execute(formats.temporary(statement))
            self.db.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    @property
    def manifest(self) -> dict[str, Any]:
        """The options of the run, its corpus and versions; read once."""
        if self._manifest is None:
            self._manifest = _checked_manifest(self.fact("manifest"))
        return self._manifest

    def meta(self, key: str) -> Any:
        """Return a saved fact, or `None`."""
        row = self.db.execute(f"{select('meta')} WHERE key = ?", (key,)).fetchone()
        return None if row is None else load_fact(row)

    def fact(self, key: str) -> Any:
        """Return a saved fact that must be there."""
        value = self.meta(key)
        if value is None:
            raise DamagedRowError(f"the fact {key!r} is missing")
        return value

    def set_meta(self, key: str, value: Any) -> None:
        """Save a fact under a key."""
        self.db.execute(insert("meta", "INSERT OR REPLACE"), seal((key, json.dumps(value))))

    def unfinished_models(self, specs: Iterable[str]) -> list[str]:
        """Return the models that have not finished."""
        finished = self.meta(_FINISHED) or []
        return [spec for spec in specs if spec not in finished]

    def set_finished(self, spec: str) -> None:
        """Mark a model as finished, so that it is not loaded again."""
        self.set_meta(_FINISHED, [*(self.meta(_FINISHED) or []), spec])

    def add_system(self, name: str, facts: Mapping[str, Any]) -> int:
        """Register a system under its name, once; return its number."""
        if self.db.execute("SELECT 1 FROM systems WHERE name = ?", (name,)).fetchone() is None:
            (last,) = self.db.execute("SELECT coalesce(max(no), 0) FROM systems").fetchone()
            self.db.execute(insert("systems"), seal((last + 1, name, json.dumps(dict(facts)))))
            self._systems = None
        return self.system_no(name)

    def systems(self) -> dict[str, dict[str, Any]]:
        """Return system name -> facts, in the order of registration."""
        state = self.db.execute("PRAGMA data_version").fetchone()
        if self._systems is None or self._systems[0] != state:
            rows = map(unseal, self.db.execute(f"{select('systems')} ORDER BY no"))
            loaded = formats.SavedDict(
                (name, formats.load(text, formats.SavedDict)) for _, name, text in rows
            )
            for name, facts in loaded.items():
                formats.check_system(name, facts)
            self._systems = state, loaded
        return self._systems[1]

    def system_names(self) -> dict[int, str]:
        """Return number -> name of every system."""
        return formats.SavedDict(self.db.execute("SELECT no, name FROM systems"))

    def system_no(self, name: str) -> int:
        """Return the number of a system in the run; an unknown one is refused."""
        if row := self.db.execute("SELECT no FROM systems WHERE name = ?", (name,)).fetchone():
            return int(row[0])
        names = ", ".join(self.systems()) or "none"
        raise UsageError(f"{self.path}: has no system {name!r}; it has: {names}.")


@dataclass(frozen=True)
class StatPage:
    """A page of saved statistics: ids, groups, and name -> (items, splits) values."""

    ids: list[str]
    groups: list[str]
    values: dict[str, Floats]


class StatisticsTables(Tables):
    """The statistics of an opened run: scoring writes them, results read them."""

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
        if self.database == "temp":
            self.db.execute(formats.temporary(formats.STATS))
        new = self.stats_generation + 1
        self.db.execute(f"DELETE FROM {self.database}.stats WHERE generation >= ?", (new,))
        counts: Counter[str] = Counter()
        split_names = self._insert_stats(new, columns, rows, counts)
        self._layout = None
        with self.transaction():
            self.db.execute(f"DELETE FROM {self.database}.stats WHERE generation < ?", (new,))
            self.set_meta("stat_columns", list(columns))
            self.set_meta("split_names", split_names)
            # Statistics of a reader are never taken for those of the run.
            apart = {"apart": True} if self.database == "temp" else {}
            self.set_meta(VALID, {"generation": new, "rows": counts} | apart)
            for key, value in facts().items():
                self.set_meta(key, value)

    def has_stats(self) -> bool:
        """Whether the run has been scored."""
        return self.meta(VALID) is not None

    @property
    def stats_generation(self) -> int:
        """A number that changes whenever statistics are replaced; 0 without any."""
        return int((self.meta(VALID) or {"generation": 0})["generation"])

    def stat_columns(self) -> list[str]:
        """Return the names of all saved statistics; none before the run has been scored."""
        return list(self.meta("stat_columns") or ())

    def stat_pages(self, system: str) -> Iterator[StatPage]:
        """Yield a system's statistics page by page; split statistics replace their means."""
        for table, split_names in self._pages_of(system):
            values = formats.SavedDict(table.values)
            if split_names:
                parts = table.splits.reshape(len(split_names), -1, len(table.items))
                values.update((name, part.T) for name, part in zip(split_names, parts, strict=True))
            yield StatPage(*self._ids_and_groups(table), values)

    def stat_tables(self, system: str) -> Iterator[StatTable]:
        """Yield a system's statistics page by page, with the numbers of their items."""
        return (table for table, _ in self._pages_of(system))

    def rows(self, system: str, metric: str) -> Iterator[Row]:
        """Yield one metric of one system, item by item."""
        self._check_column(metric)
        for table in self.stat_tables(system):
            values = formats.or_none(table.values[metric][:, 0])
            yield from map(Row, *self._ids_and_groups(table), values)

    def total(self, system: str, column: str) -> int:
        """Return the sum of a count over a system's items."""
        self._check_column(column)
        total = sum(np.nansum(table.values[column]) for table in self.stat_tables(system))
        if not math.isfinite(total):
            raise DamagedRowError("a sum of counts is infinite")
        return int(total)

    def _check_column(self, name: str) -> None:
        if name not in self.stat_columns():
            raise UsageError(f"{self.path}: has no statistic {name!r}; score it again.")

    def stat_rows(self, systems: Iterable[str] | None = None) -> Iterator[formats.SqlRow]:
        """Yield system, id, group, row, all statistics and the packed splits of every row."""
        for system in self.systems() if systems is None else systems:
            for table in self.stat_tables(system):
                columns = [formats.or_none(values[:, 0]) for values in table.values.values()]
                keys = (*self._ids_and_groups(table), table.rows.tolist())
                splits = (values.tobytes() for values in np.ascontiguousarray(table.splits.T))
                for row in zip(*keys, *columns, splits, strict=True):
                    yield (system, *row)

    def _pages_of(self, system: str) -> Iterator[tuple[StatTable, list[str]]]:
        """Yield the pages of a system, each with the names of its splits, all of one state."""
        with self.transaction("BEGIN"):
            columns, split_names, valid = self._read_layout()
            names: list[str] = split_names.get(system, [])
            query = f"{select('stats')} WHERE generation = ? AND system = ? ORDER BY page"
            cursor = self.db.execute(query, (valid["generation"], self.system_no(system)))
        n_splits = len(names) * self.manifest.get("n_splits", 1)
        n_rows = 0
        for row in cursor:
            table = formats.load_stats(unseal(row)[-1], columns, n_splits)
            n_rows += len(table.items)
            yield table, names
        if n_rows != valid["rows"].get(system, 0):
            raise DamagedRowError("statistics are missing")

    def _read_layout(self) -> tuple[list[str], dict[str, list[str]], dict[str, Any]]:
        """Return columns, split names and valid generation; read again if others wrote."""
        state = self.db.execute("PRAGMA data_version").fetchone()
        if self._layout is None or self._layout[0] != state:
            self._layout = state, (self.stat_columns(), self.fact("split_names"), self.fact(VALID))
        return self._layout[1]

    def _ids_and_groups(self, table: StatTable) -> tuple[list[str], list[str]]:
        numbers = table.items.tolist()
        query = "SELECT no, id, grp FROM items WHERE no BETWEEN ? AND ?"
        rows = self.db.execute(query, (min(numbers), max(numbers)))
        heads = formats.SavedDict((no, head) for no, *head in rows)
        ids, groups = zip(*(heads[no] for no in numbers), strict=True)
        return list(formats.valid_texts(ids)), list(formats.valid_texts(groups))

    def _insert_stats(
        self, generation: int, columns: Sequence[str], rows: Iterable[StatRow], counts: Counter[str]
    ) -> dict[str, list[str]]:
        """Save rows and count them per system; return each system's split statistics."""
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
        generation, page = key
        with self.transaction():
            for system, rows in pending.items():
                payload = formats.dump_stats(rows, columns, widths[system])
                row = (generation, self.system_no(system), page, rows[-1].item, payload)
                self.db.execute(insert(f"{self.database}.stats"), seal(row))


@dataclass(frozen=True)
class Joined:
    """Numbers of a model's rows that matched an item, matched none, and repeated an item."""

    matched: int
    unmatched: int
    repeated: int


class ItemState(NamedTuple):
    """The number of an item in a run, and whether a system has answered it."""

    no: int
    id: str
    group: str
    is_answered: bool


class ItemTables(Tables):
    """The items and draws of an opened run."""

    def add_items(self, items: Iterable[Item | TextItem]) -> int:
        """Save the items that the run lacks, in one transaction; return their number in the run.

        They are numbered as in the corpus.
        """
        with self.transaction():
            saved_numbers = {no for (no,) in self.db.execute("SELECT no FROM items")}
            first = 1 if self.lacks_items else len(saved_numbers) + 1
            rows = enumerate(map(formats.dump_item, items), first)
            new = (seal((no, *row)) for no, row in rows if no not in saved_numbers)
            self.db.executemany(insert("items"), new)
            self.set_meta(formats.ITEMS_SAVED, self.n_items)
        return self.n_items

    def replace_items(self, change: Callable[[Iterable[Item]], Iterable[Item]]) -> None:
        """Save all items again, as `change` returns them, in one transaction."""
        with self.transaction():
            for page in self.item_pages(PAGE):
                items = change([formats.load_item(*row[1:]) for row in page])
                rows = zip(page, items, strict=True)
                new = [seal((row[0], *formats.dump_item(item))) for row, item in rows]
                self.db.executemany(insert("items", "INSERT OR REPLACE"), new)

    @property
    def lacks_items(self) -> bool:
        """Whether some or all items of the corpus are not in the run."""
        saved = self.meta(formats.ITEMS_SAVED)
        return saved is None or self.n_items < int(saved)

    @property
    def n_items(self) -> int:
        """The number of items in the run."""
        return int(self.db.execute("SELECT count(no) FROM items").fetchone()[0])

    def add_draws(self, system: str, draws: Iterable[Draws], whole: bool = True) -> Joined:
        """Save draws joined to items by id: in one transaction if `whole`, or as they come."""
        number, statement = self.system_no(system), insert("draws", "INSERT OR REPLACE")
        matched = unmatched = repeated = 0
        with self.transaction() if whole else nullcontext():
            for answer in draws:
                item = self.item_no(answer.item_id)
                if item is None:
                    unmatched += 1
                    continue
                matched += 1
                repeated += answer.row > 0
                row = (item, number, answer.row, formats.dump_draws(answer))
                self.db.execute(statement, seal(row))
        return Joined(matched, unmatched, repeated)

    def n_items_with_draws(self, system: str) -> int:
        """Return how many items a system has answered."""
        query = "SELECT count(DISTINCT item) FROM draws WHERE system = ?"
        return int(self.db.execute(query, (self.system_no(system),)).fetchone()[0])

    def pending_items(self, system: str) -> Iterator[Item]:
        """Yield the items that a system has not answered yet."""
        return (formats.load_item(*row) for row in self.pending_rows(system, PAGE))

    def pending_rows(self, system: str, page_size: int) -> Iterator[tuple[Any, ...]]:
        """Yield the columns of the items that a system has not answered yet."""
        number, last = self.system_no(system), -1
        query = f"{select('items')} WHERE no > ? AND NOT {_ANSWERED} ORDER BY no LIMIT ?"
        while page := self.db.execute(query, (last, number, page_size)).fetchall():
            last = page[-1][0]
            yield from (unseal(row)[1:] for row in page)

    def item_states(self, system: str) -> Iterator[ItemState]:
        """Yield every item in order, and whether a system has answered it."""
        query = f"SELECT no, id, grp, {_ANSWERED} FROM items ORDER BY no"
        return map(ItemState._make, self.db.execute(query, (self.system_no(system),)))

    def items_between(self, first: int, last: int) -> list[Item]:
        """Return the items with these numbers, both included."""
        query = f"{select('items')} WHERE no BETWEEN ? AND ? ORDER BY no"
        rows = self.db.execute(query, (first, last))
        return [formats.load_item(*unseal(row)[1:]) for row in rows]

    def walk(
        self, system: str | None = None, after: int = -1, size: int = PAGE
    ) -> Iterator[tuple[int, Item, dict[str, list[Draws]]]]:
        """Yield every item in order, with its number and the draws of each system, or of one."""
        for no, columns, answers in self.answered_rows(size, after, system):
            item, draws = formats.load_item(*columns), {}
            for name, rows in answers.items():
                draws[name] = [formats.load_draws(item.id, *row) for row in rows]
            yield no, item, draws

    def answered_rows(
        self, size: int, after: int = -1, system: str | None = None
    ) -> Iterator[tuple[int, list[Any], dict[str, list[tuple[int, str]]]]]:
        """Yield the number and columns of every item, with each system's rows and payloads."""
        names, number = self.system_names(), None if system is None else self.system_no(system)
        query = (
            f"{select('draws')} WHERE item BETWEEN ? AND ? AND (? IS NULL OR system = ?) "
            "ORDER BY item, system, row"
        )
        for page in self.item_pages(size, after):
            by_item: dict[int, dict[str, list[tuple[int, str]]]] = {}
            for sealed in self.db.execute(query, (page[0][0], page[-1][0], number, number)):
                item, system_no, *answer = unseal(sealed)
                by_item.setdefault(item, {}).setdefault(names[system_no], []).append(tuple(answer))
            for no, *columns in page:
                yield no, columns, by_item.get(no, {})

    def item_pages(self, size: int, after: int = -1) -> Iterator[list[formats.SqlRow]]:
        """Yield the columns of all items in order, in pages, after an item's number."""
        query = f"{select('items')} WHERE no > ? ORDER BY no LIMIT ?"
        while page := self.db.execute(query, (after, size)).fetchall():
            after = page[-1][0]
            yield [unseal(row) for row in page]

    def walk_system(self, system: str) -> Iterator[tuple[Item, list[Draws]]]:
        """Yield the items that a system has answered, with its draws."""
        for _, item, systems in self.walk(system):
            if system in systems:
                yield item, systems[system]

    def item_no(self, item_id: str) -> int | None:
        """Return the number of an item in the run, or `None`."""
        row = self.db.execute("SELECT no FROM items WHERE id = ?", (item_id,)).fetchone()
        return None if row is None else int(row[0])


@dataclass(frozen=True)
class TokenSums:
    """The part of a corpus that a system has read, and the sums over it."""

    items: int
    unscored: int
    """Items that were too short to hold a scored token."""
    tokens: int
    payload: bytes


class TokenTables(Tables):
    """The token-level sums of an opened run."""

    def save_token_sums(self, system: str, sums: TokenSums) -> None:
        """Replace a system's sums by those over a larger part of the corpus."""
        row = (self.system_no(system), sums.items, sums.unscored, sums.tokens, sums.payload)
        self.db.execute(insert("token_sums", "INSERT OR REPLACE"), seal(row))

    def token_sums(self, system: str) -> TokenSums | None:
        """Return a system's sums, or `None` before its first part is done."""
        query = f"{select('token_sums')} WHERE system = ?"
        row = self.db.execute(query, (self.system_no(system),)).fetchone()
        return None if row is None else TokenSums(*unseal(row)[1:])

    def tokens_read(self, system: str) -> int:
        """Return how many tokens a system's sums are over."""
        query = "SELECT tokens FROM token_sums WHERE system = ?"
        row = self.db.execute(query, (self.system_no(system),)).fetchone()
        return int(row[0]) if row else 0

    def token_rows_folder(self, system: str) -> Path:
        """Return the folder of a system's per-token rows, one Parquet file per part."""
        return self.path / TOKEN_ROWS / f"{self.system_no(system):03}"
