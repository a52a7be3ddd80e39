"""The run directory: one SQLite file, written in whole transactions and read page by page."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from aleatoric.data.selection import ReferenceLimits, Selection, TableOptions, options_of
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.runs import disk, formats
from aleatoric.runs.disk import RunLock
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.job import check_same_options
from aleatoric.runs.tables import TOKEN_ROWS, ItemTables, StatisticsTables, TokenTables
from aleatoric.types import Draws, Floats, Ints, Item, Row, Signature, TextItem, Texts


class Store(ItemTables, StatisticsTables, TokenTables):
    """An opened run directory."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: RunLock | None = None,
        new_folders: Sequence[Path] = (),
    ) -> None:
        super().__init__(path, connection)
        self._lock = lock
        self._new_folders = new_folders  # innermost first
        self.is_created = False

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> Store:
        """Create a run directory that only this process writes; an existing run is refused."""
        try:
            new_folders = [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk.unwritable(path, str(error)) from None
        with disk.reporting_faults(path):
            lock = RunLock.take(path)
        with disk.on_failure(lock.release):
            return cls._new(path, manifest, lock, new_folders)

    @classmethod
    def continue_or_create(cls, path: Path, manifest: Mapping[str, Any]) -> Store:
        """Open the run in `path` to write if it has the same manifest, or create it."""
        if not _holds_run(path):
            return cls.create(path, manifest)
        store = cls.resume(path)
        with disk.on_failure(store.close):
            check_same_options(path, store.manifest, manifest)
        return store

    @classmethod
    def resume(cls, path: Path) -> Store:
        """Open an existing run directory that only this process writes."""
        disk.check_run(path)
        with disk.reporting_faults(path):
            lock = RunLock.take(path)
            with disk.on_failure(lock.release):
                store = cls(path, disk.connect_to_write(path / DATABASE), lock)
                with disk.on_failure(store.db.close):
                    disk.check_format(store.db, path)
                    store.check_whole()
        return store

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open an existing run directory to read only, while others may write it."""
        disk.check_run(path)
        with disk.reporting_faults(path, reads=True):
            store = cls(path, disk.connect_to_read(path / DATABASE))
            with disk.on_failure(store.db.close):
                disk.check_format(store.db, path)
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *problem: Any) -> None:
        """Close; faults of SQLite and of the disk become errors that a user can act on."""
        self.close()
        error = disk.error_of(self.path, problem[1]) if len(problem) > 1 else None
        if error is not None:
            raise error from problem[1]

    def close(self) -> None:
        """Close the run, and let others write it."""
        self.db.close()
        self.release()

    def release(self) -> None:
        """Let others write the run; it stays open to read."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Write statistics exclusively; while another process writes, to temporary tables."""
        if self._lock is not None:
            yield
            return
        self.check_whole()
        if self.database == "main":
            self._open_to_write()
        try:
            yield
        finally:
            self.release()

    def _open_to_write(self) -> None:
        """Open the run to write; if that is impossible, use temporary tables."""
        with suppress(disk.LockedError):
            if os.access(self.path, os.W_OK) and os.access(self.path / DATABASE, os.W_OK):
                self._lock = RunLock.take(self.path)
        if self._lock is None:
            self.use_temporary_tables()
            return
        with disk.reporting_faults(self.path):
            connection = disk.connect_to_write(self.path / DATABASE)
            disk.check_format(connection, self.path)
            self.db.close()
            self.db = connection

    def discard(self) -> None:
        """Close the run and remove the files it wrote."""
        self.db.close()
        shutil.rmtree(self.path / TOKEN_ROWS, ignore_errors=True)
        for file in self.path.glob(DATABASE + "*"):
            file.unlink()
        self.release()
        for folder in self._new_folders:
            if not any(folder.iterdir()):
                folder.rmdir()

    @classmethod
    def _new(
        cls, path: Path, manifest: Mapping[str, Any], lock: RunLock, new_folders: Sequence[Path]
    ) -> Store:
        """Create the database in one transaction: a run exists with its manifest or not at all."""
        if _holds_run(path):
            raise UsageError(f"{path}: holds a run already; choose another --out.")
        with disk.reporting_faults(path):
            store = cls(path, disk.connect_to_write(path / DATABASE), lock, new_folders)
        store.is_created = True
        try:
            with disk.reporting_faults(path):
                store._create_tables(manifest)
        except AleatoricError as error:
            store.discard()
            raise disk.before_any_work(error) from error
        return store

    def _create_tables(self, manifest: Mapping[str, Any]) -> None:
        if not (self.path / DATABASE).stat().st_size:
            # Otherwise the header is written with a journal, which may stay behind.
            self.db.execute("PRAGMA journal_mode = MEMORY")
        self.db.execute("PRAGMA journal_mode = WAL")
        with self.transaction():
            for statement in formats.SCHEMA:
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {formats.SCHEMA_VERSION}")
            self.set_meta("manifest", dict(manifest))


def _holds_run(path: Path) -> bool:
    disk.check_place(path)
    if not (path / DATABASE).exists():
        return False
    with disk.reporting_faults(path), closing(disk.connect_to_read(path / DATABASE)) as connection:
        return not disk.is_empty(connection)


AT_ONCE = 500
"""Values that one SQL statement takes."""


@dataclass(frozen=True)
class StoredRows:
    """A system's values of one column by item, read from the run on every iteration."""

    store: Store
    system: str
    column: str

    def __iter__(self) -> Iterator[Row]:
        return self.store.rows(self.system, self.column)


def stat_columns(store: Store, system: str, names: Sequence[str]) -> tuple[Ints, dict[str, Floats]]:
    """Return item numbers and some of a system's statistics as arrays; undefined is NaN."""
    tables = list(store.stat_tables(system))
    items = [np.zeros(0, dtype=np.int64), *(table.items for table in tables)]
    values = {name: [np.zeros(0), *(t.values[name][:, 0] for t in tables)] for name in names}
    return np.concatenate(items), {name: np.concatenate(parts) for name, parts in values.items()}


def scored_until(store: Store, systems: Sequence[str]) -> int:
    """Return the number of the last item that a scoring in progress has reached, or 0."""
    query = "SELECT max(last_item) FROM stats WHERE generation > ? AND system = ?"
    keys = [(store.stats_generation, store.system_no(name)) for name in systems]
    return max((store.db.execute(query, key).fetchone()[0] or 0 for key in keys), default=0)


def item_heads(store: Store) -> Iterator[tuple[int, str, str, str]]:
    """Yield the number, id, group and context of every item, in order."""
    query = "SELECT no, id, grp, context FROM items ORDER BY no"
    return ((no, *formats.valid_texts(head)) for no, *head in store.db.execute(query))


def heads_of(store: Store, numbers: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """Return item number -> id, group and context of some items, `AT_ONCE` at most."""
    query = f"SELECT no, id, grp, context FROM items WHERE no IN ({', '.join('?' * len(numbers))})"
    rows = store.db.execute(query, [int(no) for no in numbers])
    heads: dict[int, Any] = {no: formats.valid_texts(head) for no, *head in rows}
    return heads


def item_and_draws(store: Store, no: int) -> tuple[Item, dict[str, list[Draws]]]:
    """Return one item with the saved draws of each system."""
    found = next(store.walk(after=no - 1, size=1), None)
    if found is None or found[0] != no:
        raise UsageError(f"{store.path}: has no item number {no}.")
    return found[1:]


TEXTS_PAGE = 200
"""Inputs that are read at once: texts are longer than words."""


@dataclass(frozen=True, slots=True)
class Produced:
    """An input with all its texts: those of people, and those of each system."""

    no: int
    item: TextItem
    systems: Mapping[str, tuple[str, ...]]
    with_log_probs: Mapping[str, Texts] = field(default_factory=dict)
    """The texts of each system whose log-probabilities are saved."""


class StoredTexts:
    """The inputs and texts of an opened run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._db = store.db

    def add(self, system: str, texts: Texts) -> bool:
        """Save texts, in addition to earlier ones; return whether the run has the input."""
        item = self.store.item_no(texts.item_id)
        if item is None:
            return False
        number = self.store.system_no(system)
        count = "SELECT count(*) FROM draws WHERE item = ? AND system = ?"
        (n_rows,) = self._db.execute(count, (item, number)).fetchone()
        row = formats.seal((item, number, n_rows, formats.dump_texts(texts)))
        self._db.execute(formats.insert("draws"), row)
        return True

    def clear(self, system: str) -> None:
        """Delete the texts of a system."""
        self._db.execute("DELETE FROM draws WHERE system = ?", (self.store.system_no(system),))

    def walk(self, after: int = -1) -> Iterator[Produced]:
        """Yield every input in order with all its texts."""
        for no, columns, answers in self.store.answered_rows(TEXTS_PAGE, after):
            by_name = {name: _joined(rows) for name, rows in answers.items()}
            systems = {name: texts.texts for name, texts in by_name.items()}
            known = {name: texts for name, texts in by_name.items() if texts.logprobs}
            yield Produced(no, formats.load_text_item(*columns), systems, known)

    def pending_items(self, system: str) -> Iterator[TextItem]:
        """Yield the inputs for which a system has written nothing yet."""
        rows = self.store.pending_rows(system, TEXTS_PAGE)
        return (formats.load_text_item(*row) for row in rows)

    def find(self, item_id: str) -> Produced:
        """Return one input with all its texts."""
        no = self.store.item_no(item_id)
        if no is None:
            raise UsageError(f"{self.store.path}: has no input {item_id!r}.")
        return next(self.walk(no - 1))


def _joined(rows: Sequence[tuple[int, str]]) -> Texts:
    """Return the texts of all rows of an input and a system."""
    return reduce(Texts.and_more, (formats.load_written(payload) for _, payload in rows))


class EmbeddingCache(MutableMapping[str, bytes]):
    """Vectors of texts by content hash, cached in a run."""

    def __init__(self, store: Store) -> None:
        self._store, self._db = store, store.db
        self._table = f"{store.database}.embeddings"
        if store.database == "temp":
            self._db.execute(formats.temporary(formats.EMBEDDINGS))

    def __getitem__(self, key: str) -> bytes:
        # Temporary tables hold only what this reader computed.
        for table in dict.fromkeys([self._table, "main.embeddings"]):
            for (vector,) in self._db.execute(f"SELECT vector FROM {table} WHERE hash = ?", (key,)):
                return bytes(vector)
        raise KeyError(key)

    def __setitem__(self, key: str, vector: bytes) -> None:
        self._db.execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", (key, vector))

    def update(self, vectors: Mapping[str, bytes]) -> None:  # type: ignore[override]
        """Save many vectors in one transaction."""
        with self._store.transaction():
            for key, vector in vectors.items():
                self[key] = vector

    def __delitem__(self, key: str) -> None:
        self._db.execute(f"DELETE FROM {self._table} WHERE hash = ?", (key,))

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._db.execute(f"SELECT hash FROM {self._table}"))

    def __len__(self) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])


def labels_of(stores: Sequence[Store]) -> dict[str, tuple[Store, str]]:
    """Return a label for every system: its name, prefixed by its run if several runs have it."""
    places = [(store, name) for store in stores for name in store.systems()]
    counts = Counter(name for _, name in places)
    labels = (name if counts[name] == 1 else f"{store.path}:{name}" for store, name in places)
    return dict(zip(labels, places, strict=True))


def signature(
    store: Store, system: str, metric: str, protocol: Mapping[str, str], n: str, *how: str
) -> Signature:
    """Return the signature of a number; `how` is decoder and estimator, if not the system's."""
    manifest, facts = store.manifest, store.systems()[system]
    corpus, version = manifest["corpus"], manifest["versions"]["aleatoric"]
    decoder, estimator = how or (facts["decoder"], facts["estimator"])
    table, selection = (options_of(kind, manifest) for kind in (TableOptions, Selection))
    limits = ReferenceLimits.parse(manifest.get("references"), manifest["seed"])
    part = ";".join(filter(None, map(str, (table, limits, selection))))
    name = f"{corpus['name']}[{part}]" if part else corpus["name"]
    source = (name, corpus["sha256"], facts["model"], decoder, estimator)
    return Signature(*source, protocol, n, manifest["seed"], metric, version)
