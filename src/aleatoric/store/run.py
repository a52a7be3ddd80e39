"""The run directory: one SQLite file between sampling, scoring and reporting.

Items, draws and statistics are written in whole transactions; scoring reads draws and needs no
model; every reader walks page by page, so that a run of any size fits in memory.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from aleatoric.errors import AleatoricError, UsageError
from aleatoric.store import faults
from aleatoric.store.asking import check_asked
from aleatoric.store.items import ItemTables
from aleatoric.store.locking import LockedError, RunLock
from aleatoric.store.opening import check_format, connect_to_read, connect_to_write, is_empty
from aleatoric.store.schema import DATABASE, SCHEMA, SCHEMA_VERSION
from aleatoric.store.statistics import Statistics
from aleatoric.store.token_sums import TOKEN_ROWS, TokenTables


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
            raise faults.unwritable(path, str(error)) from None
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
        faults.check_run(path)
        return _locked(path, lambda lock: cls._opened(path, lock))

    @classmethod
    def open(cls, path: Path) -> Store:
        """An existing run directory, to be read while others may write it.

        SQLite itself refuses to write through it; `alone` opens it to be written.
        """
        faults.check_run(path)
        with faults.told(path, reads=True):
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
        error = faults.error_of(self.path, problem[1]) if len(problem) > 1 else None
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
        with faults.told(self.path):
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
        with faults.told(path):
            store = cls(path, connect_to_write(path / DATABASE), lock, made)
        store.is_created = True
        try:
            with faults.told(path):
                if not (path / DATABASE).stat().st_size:
                    # Otherwise the header is written with a journal, which may stay behind.
                    store.db.execute("PRAGMA journal_mode = MEMORY")
                store.db.execute("PRAGMA journal_mode = WAL")
                store._make_tables(manifest)
        except AleatoricError as error:
            store.discard()
            raise faults.before_any_work(error) from error
        return store

    def _make_tables(self, manifest: Mapping[str, Any]) -> None:
        with self.transaction():
            for statement in SCHEMA:
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self.set_meta("manifest", dict(manifest))

    @classmethod
    def _opened(cls, path: Path, lock: RunLock) -> Store:
        with faults.told(path):
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
    faults.check_place(path)
    if not (path / DATABASE).exists():
        return False
    with faults.told(path), closing(connect_to_read(path / DATABASE)) as connection:
        return not is_empty(connection)


def _locked(path: Path, opened: Callable[[RunLock], Store]) -> Store:
    """Open a run under its lock, which is let go where that fails."""
    with faults.told(path):
        lock = RunLock.take(path)
    try:
        return opened(lock)
    except BaseException:
        lock.release()
        raise
