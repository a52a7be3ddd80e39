"""The run directory: one SQLite file between sampling, scoring and reporting.

Items, draws and statistics are written in whole transactions; scoring reads draws and needs no
model; every reader walks page by page, so that a run of any size fits in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.runs import disk, formats
from aleatoric.runs.disk import (
    LockedError,
    RunLock,
    check_format,
    connect_to_read,
    connect_to_write,
    is_empty,
)
from aleatoric.runs.formats import (
    DATABASE,
    EMBEDDINGS,
    SCHEMA,
    SCHEMA_VERSION,
    insert,
    select,
    temporary,
    texts,
)
from aleatoric.runs.job import flag_of
from aleatoric.runs.tables import TOKEN_ROWS, ItemTables, Statistics, TokenTables
from aleatoric.types import Draws, Floats, Ints, Item, Row, TextItem, Texts

MAY_DIFFER = ("versions", "language")
_OTHER_OPTIONS = {"choices": "--choose", "assignment": "--split"}
"""Saved facts that are no fields of a job -> the options they follow from."""


def check_asked(path: Path, saved: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Refuse to continue the run in `path` with other options than it was started with."""
    asked = json.loads(json.dumps(dict(manifest)))
    for problem in _problems(saved, asked):
        raise UsageError(f"{path}: holds another run ({problem}); choose another --out.")


def _problems(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield all that differs, what says most first."""
    if saved["command"] != asked["command"]:
        yield f"it is of aleatoric {saved['command']}"
        return
    job_type = registry.find("levels", asked["command"]).job_type
    names = [name for name in _differing(saved, asked) if name not in MAY_DIFFER]
    # What the corpus and the options are says more than what follows from them.
    for name in sorted(names, key=lambda name: (name in _OTHER_OPTIONS, name)):
        if name == "corpus":
            yield from _corpus_problems(saved[name], asked[name])
        elif name == "contents":
            yield from _content_problems(saved.get(name) or {}, asked.get(name) or {})
        elif flag := _OTHER_OPTIONS.get(name) or flag_of(job_type, name):
            yield f"its {flag} differs"


def _differing(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    names = sorted(saved.keys() | asked.keys())
    return [name for name in names if saved.get(name) != asked.get(name)]


def _content_problems(saved: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Which models have other files; of one run or the other, they may not be known."""
    for spec in sorted(saved.keys() & asked.keys()):
        if saved[spec] != asked[spec]:
            yield f"the files of --model {spec} have changed since"


def _corpus_problems(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """What differs of a corpus; one file has many paths."""
    differing = _differing(saved, asked)
    if differing == ["spec"] and _is_same_place(saved["spec"], asked["spec"]):
        return
    if differing == ["encoding"]:
        yield "its --encoding differs"
    elif saved.get("spec") == asked.get("spec") and "sha256" in differing:
        yield "its --corpus has changed since"
    else:
        yield "its --corpus differs"


def _is_same_place(saved: str, asked: str) -> bool:
    """Whether two ways to name a corpus name the same files.

    >>> _is_same_place("w.jsonl", "./w.jsonl"), _is_same_place("cloze:a/../w", "cloze:w")
    (True, True)
    >>> _is_same_place("w.jsonl", "cloze:w.jsonl"), _is_same_place("w.jsonl", "v.jsonl")
    (False, False)
    """
    (kind, *first), (other_kind, *second) = _places(saved), _places(asked)
    return kind == other_kind and first == second


def _places(spec: str) -> list[str]:
    """The kind of a corpus, empty where it is not named, and its resolved paths."""
    kind, colon, argument = spec.partition(":")
    if not colon:
        kind, argument = "", spec
    return [kind, *map(os.path.realpath, argument.split(","))]


class Store(ItemTables, Statistics, TokenTables):
    """A run directory, opened.

    >>> import tempfile
    >>> from aleatoric.types import Item
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "word"}) as store:
    ...         store.add_items([Item("1:2", "1", "There", ("are", "is"))])
    1
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: RunLock | None = None,
        made: Sequence[Path] = (),
    ) -> None:
        super().__init__(path, connection)
        self._lock = lock
        self._made = made  # folders that were not there before, innermost first
        self.is_created = False

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> Store:
        """A new run directory, to be written by this process alone; an existing one is refused."""
        try:
            made = [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk.unwritable(path, str(error)) from None
        return _locked(path, lambda lock: cls._begun(path, manifest, lock, made))

    @classmethod
    def continue_or_create(cls, path: Path, manifest: Mapping[str, Any]) -> Store:
        """The run in `path` if it was asked for with the same words, or a new one, to write."""
        if not _holds_run(path):
            return cls.create(path, manifest)
        store = cls.resume(path)
        try:
            check_asked(path, store.manifest, manifest)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def resume(cls, path: Path) -> Store:
        """An existing run directory, to be written by this process alone."""
        disk.check_run(path)
        return _locked(path, lambda lock: cls._opened(path, lock))

    @classmethod
    def open(cls, path: Path) -> Store:
        """An existing run directory, to be read while others may write it.

        SQLite itself refuses to write through it; `alone` opens it to be written.
        """
        disk.check_run(path)
        with disk.told(path, reads=True):
            store = cls(path, connect_to_read(path / DATABASE))
            try:
                check_format(store.db, path)
            except BaseException:
                store.db.close()
                raise
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *problem: Any) -> None:
        """Close; what SQLite had to say is said so that a user can act on it."""
        self.close()
        error = disk.error_of(self.path, problem[1]) if len(problem) > 1 else None
        if error is not None:
            raise error from problem[1]

    def close(self) -> None:
        """Close the run, and let others write it."""
        self.db.close()
        self.release()

    def release(self) -> None:
        """Let others write the run; it stays open to be read."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Write statistics that no other process writes at the same time.

        Where another process writes the run, they are computed from its items as they are now,
        and kept apart from it.
        """
        if self._lock is not None:
            yield
            return
        self.check_whole()
        if self.place == "main":
            self._open_to_write()
        try:
            yield
        finally:
            self.release()

    def _open_to_write(self) -> None:
        """Open the run to be written; where that cannot be, statistics are kept apart from it."""
        if not (os.access(self.path, os.W_OK) and os.access(self.path / DATABASE, os.W_OK)):
            self.read_apart()
            return
        try:
            self._lock = RunLock.take(self.path)
        except LockedError:
            self.read_apart()
            return
        with disk.told(self.path):
            written = connect_to_write(self.path / DATABASE)
            check_format(written, self.path)
            self.db.close()
            self.db = written

    def discard(self) -> None:
        """Close and remove what this run wrote: nothing half-written stays behind."""
        self.db.close()
        shutil.rmtree(self.path / TOKEN_ROWS, ignore_errors=True)
        for file in self.path.glob(DATABASE + "*"):
            file.unlink()
        self.release()
        for folder in self._made:
            if not any(folder.iterdir()):
                folder.rmdir()

    @classmethod
    def _begun(
        cls, path: Path, manifest: Mapping[str, Any], lock: RunLock, made: Sequence[Path]
    ) -> Store:
        """A new database, made in one transaction: a run is there with its manifest or not."""
        if _holds_run(path):
            raise UsageError(f"{path}: holds a run already; choose another --out.")
        with disk.told(path):
            store = cls(path, connect_to_write(path / DATABASE), lock, made)
        store.is_created = True
        try:
            with disk.told(path):
                if not (path / DATABASE).stat().st_size:
                    # Otherwise the header is written with a journal, which may stay behind.
                    store.db.execute("PRAGMA journal_mode = MEMORY")
                store.db.execute("PRAGMA journal_mode = WAL")
                store._make_tables(manifest)
        except AleatoricError as error:
            store.discard()
            raise disk.before_any_work(error) from error
        return store

    def _make_tables(self, manifest: Mapping[str, Any]) -> None:
        with self.transaction():
            for statement in SCHEMA:
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self.set_meta("manifest", dict(manifest))

    @classmethod
    def _opened(cls, path: Path, lock: RunLock) -> Store:
        with disk.told(path):
            store = cls(path, connect_to_write(path / DATABASE), lock)
            try:
                check_format(store.db, path)
                store.check_whole()
            except BaseException:
                store.db.close()
                raise
        return store


def _holds_run(path: Path) -> bool:
    """Whether a directory holds a database with anything in it."""
    disk.check_place(path)
    if not (path / DATABASE).exists():
        return False
    with disk.told(path), closing(connect_to_read(path / DATABASE)) as connection:
        return not is_empty(connection)


def _locked(path: Path, opened: Callable[[RunLock], Store]) -> Store:
    """Open a run under its lock, which is let go where that fails."""
    with disk.told(path):
        lock = RunLock.take(path)
    try:
        return opened(lock)
    except BaseException:
        lock.release()
        raise


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
    >>> from aleatoric.runs.formats import StatRow
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
        query = f"SELECT no, id, grp, context FROM items WHERE no IN ({_placeholders(some)})"
        rows = store.db.execute(query, some)
        found |= {no: (id_, grp, text) for no, *head in rows for id_, grp, text in [texts(head)]}
    return found


def item_and_draws(store: Store, no: int) -> tuple[Item, dict[str, list[Draws]]]:
    """One context with each system's draws, as far as they are there."""
    found_row = store.db.execute(f"{select('items')} WHERE no = ?", (no,)).fetchone()
    if found_row is None:
        raise UsageError(f"{store.path}: has no item number {no}.")
    item = formats.load_item(*formats.unseal(found_row)[1:])
    found: dict[str, list[Draws]] = {}
    query = (
        "SELECT name, item, system, row, payload, draws.checksum "
        "FROM draws JOIN systems ON systems.no = system WHERE item = ? ORDER BY system, row"
    )
    for name, *sealed in store.db.execute(query, (no,)):
        *_, row, payload = formats.unseal(tuple(sealed))
        found.setdefault(name, []).append(formats.load_draws(item.id, row, payload))
    return item, found


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


PAGE = 200
"""Inputs read at once: texts are longer than words."""


@dataclass(frozen=True, slots=True)
class Produced:
    """An input with everything written to it: people's texts, and each system's."""

    no: int
    item: TextItem
    systems: Mapping[str, tuple[str, ...]]


class TextShelf:
    """The texts of an opened run.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "text"}) as store:
    ...         shelf = TextShelf(store)
    ...         n = shelf.add_items([TextItem("1", "1", ("Hello?",), ("Hi.", "Yes?"))])
    ...         _ = store.add_system("toy", {})
    ...         added = shelf.add("toy", Texts("1", ("Hm.",)))
    ...         next(shelf.walk()).systems
    {'toy': ('Hm.',)}
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._db = store.db

    def add_items(self, items: Iterable[TextItem]) -> int:
        """Save a corpus's inputs with people's texts in one transaction; returns their number."""
        return self.store.add_item_rows(formats.dump_text_item(item) for item in items)

    def add(self, system: str, texts: Texts) -> bool:
        """Save what a system wrote to an input, at once; whether the run has the input.

        Texts that come for an input again are further texts to it.
        """
        item = self.store.item_no(texts.item_id)
        if item is None:
            return False
        number = self.store.system_no(system)
        count = "SELECT count(*) FROM draws WHERE item = ? AND system = ?"
        (row,) = self._db.execute(count, (item, number)).fetchone()
        sealed = formats.seal((item, number, row, formats.dump(texts.texts)))
        self._db.execute(insert("draws"), sealed)
        return True

    def clear(self, system: str) -> None:
        """Forget what a system wrote."""
        self._db.execute("DELETE FROM draws WHERE system = ?", (self.store.system_no(system),))

    def walk(self, after: int = -1) -> Iterator[Produced]:
        """Every input in order with all its texts, page by page."""
        names = self.store.system_names()
        query = f"{select('items')} WHERE no > ? ORDER BY no LIMIT ?"
        while page := self._db.execute(query, (after, PAGE)).fetchall():
            written = self._written(page[0][0], page[-1][0], names)
            after = page[-1][0]
            for no, *columns in map(formats.unseal, page):
                yield Produced(no, formats.load_text_item(*columns), written.get(no, {}))

    def waiting(self, system: str) -> Iterator[TextItem]:
        """The inputs to which a system has written nothing yet."""
        return (formats.load_text_item(*row) for row in self.store.waiting_rows(system, PAGE))

    def find(self, item_id: str) -> Produced:
        """One input with all its texts."""
        no = self.store.item_no(item_id)
        if no is None:
            raise UsageError(f"{self.store.path}: has no input {item_id!r}.")
        return next(self.walk(no - 1))

    def _written(
        self, first: int, last: int, names: Mapping[int, str]
    ) -> dict[int, dict[str, tuple[str, ...]]]:
        query = f"{select('draws')} WHERE item BETWEEN ? AND ? ORDER BY item, system, row"
        found: dict[int, dict[str, tuple[str, ...]]] = {}
        for sealed in self._db.execute(query, (first, last)):
            item, system, _, payload = formats.unseal(sealed)
            own = found.setdefault(item, {})
            own[names[system]] = own.get(names[system], ()) + formats.load_texts(payload)
        return found


class EmbeddingCache(MutableMapping[str, bytes]):
    """Vectors of texts by content, kept in a run: what was encoded once is not encoded again.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "text"}) as store:
    ...         cache = EmbeddingCache(store)
    ...         cache.update({"a": b"1234"})
    ...         cache.get("a"), cache.get("b"), len(cache)
    (b'1234', None, 1)
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = store.db
        self._table = f"{store.place}.embeddings"
        if store.place == "temp":
            self._db.execute(temporary(EMBEDDINGS))

    def __getitem__(self, key: str) -> bytes:
        # What a reader works out lies apart from what the run has.
        for table in dict.fromkeys([self._table, "main.embeddings"]):
            query = f"SELECT vector FROM {table} WHERE hash = ?"
            found = self._db.execute(query, (key,)).fetchone()
            if found is not None:
                return bytes(found[0])
        raise KeyError(key)

    def __setitem__(self, key: str, vector: bytes) -> None:
        self._db.execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", (key, vector))

    def update(self, vectors: Mapping[str, bytes]) -> None:  # type: ignore[override]
        """Keep many vectors in one transaction."""
        with self._store.transaction():
            for key, vector in vectors.items():
                self[key] = vector

    def __delitem__(self, key: str) -> None:
        self._db.execute(f"DELETE FROM {self._table} WHERE hash = ?", (key,))

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._db.execute(f"SELECT hash FROM {self._table}"))

    def __len__(self) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])
