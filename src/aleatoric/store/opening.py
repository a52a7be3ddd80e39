"""Connections to the database of a run, which may come from others.

SQLite trusts the files beside a database: a rollback journal can make it overwrite or delete any
file of the user's. Every connection is made here, after the files have been checked, and a
statement that takes longer than the size of the database can explain is interrupted.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from aleatoric.errors import UsageError
from aleatoric.store import faults
from aleatoric.store.schema import SCHEMA, SCHEMA_VERSION

WAIT = 30.0
"""Seconds that a statement waits for another process to end a transaction."""
STEPS = 100_000
"""Steps of SQLite's virtual machine between two looks at the limit."""
MOST_STEPS = 10_000_000
"""Steps that a statement may take on a database of any size: about a second."""
STEPS_PER_BYTE = 20
_MAGIC, _WAL = b"SQLite format 3\0", b"\2\2"
_FIX = "restore a copy of the run, or run the original command again"


def connect_to_write(file: Path) -> sqlite3.Connection:
    """A connection that begins and ends transactions only when told to."""
    check_files(file)
    connection = _connect(file, str(file), uri=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def connect_to_read(file: Path) -> sqlite3.Connection:
    """A connection through which SQLite itself refuses to write; others may write meanwhile."""
    check_files(file)
    connection = _connect_read_only(file, "mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if _has_log(file):
            raise
        # In a folder where not even a lock can be made, nobody writes: the file does not change.
        connection = _connect_read_only(file, "immutable=1")
    return connection


def connect_to_salvage(file: Path) -> sqlite3.Connection:
    """A read-only connection to a database that may be damaged."""
    check_files(file)
    connection = _connect_read_only(file, "mode=ro" if _has_log(file) else "immutable=1")
    # Otherwise a file that was cut short is refused because of the length in its header.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def check_files(file: Path) -> None:
    """Refuse files that SQLite must not open.

    >>> check_files(Path("runs/none/run.sqlite"))
    """
    journal = _beside(file, "-journal")
    if os.path.lexists(journal):
        raise UsageError(f"{journal}: a run has no rollback journal; remove this file.")
    for part in (file, _beside(file, "-wal"), _beside(file, "-shm")):
        try:
            found = part.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise UsageError(
                f"{part}: is a link or not a regular file; copy the run and use the copy."
            )
    if not file.exists():
        return
    with file.open("rb") as opened:
        header = opened.read(20)
    if header and header[:16] != _MAGIC:
        raise faults.damaged(file.parent)
    if header and header[18:] != _WAL:
        raise UsageError(f"{file}: is not in the journal mode of a run (write-ahead log); {_FIX}.")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no table yet: its maker died before its first transaction."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is not of today's format, tables and indexes alone."""
    if is_empty(connection):
        raise UsageError(
            f"{path}: was stopped before it began; the original command starts it again."
        )
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        fix = "update aleatoric" if version > SCHEMA_VERSION else _FIX
        raise UsageError(
            f"{path}: has run format {version}, and this version reads {SCHEMA_VERSION}; {fix}."
        )
    check_objects(connection, path)


def check_objects(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse tables, indexes, views and triggers that are not those of a run."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    with closing(sqlite3.connect(":memory:")) as made:
        for statement in SCHEMA:
            made.execute(statement)
        unknown = set(connection.execute(query)) ^ set(made.execute(query))
    if unknown:
        names = ", ".join(sorted(repr(str(row[1])) for row in unknown)[:3])
        raise UsageError(f"{path}: its tables are not those of a run (see {names}); {_FIX}.")


class _LimitedConnection(sqlite3.Connection):
    """A connection that counts the steps of each statement in `steps`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.steps = [0]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Begin to count, and execute a statement."""
        self.steps[0] = 0
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement with each row of parameters, without a limit."""
        self.steps[0] = -(1 << 62)  # rows of our own, however many
        return super().executemany(sql, parameters)


def _connect(file: Path, place: str, uri: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        place, timeout=WAIT, isolation_level=None, uri=uri, factory=_LimitedConnection
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    steps = connection.steps  # the handler must not hold the connection: they would form a cycle

    def is_too_long() -> bool:
        steps[0] += STEPS
        if steps[0] < MOST_STEPS:
            return False
        sizes = [part.stat().st_size for part in (file, _beside(file, "-wal")) if part.exists()]
        return steps[0] > MOST_STEPS + STEPS_PER_BYTE * sum(sizes)

    connection.set_progress_handler(is_too_long, STEPS)
    return connection


def _connect_read_only(file: Path, how: str) -> sqlite3.Connection:
    return _connect(file, f"{file.absolute().as_uri()}?{how}", uri=True)


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(file.name + ending)


def _has_log(file: Path) -> bool:
    log = _beside(file, "-wal")
    return log.exists() and log.stat().st_size > 0
