"""Files of a run directory: its lock, connections to its database, and errors of the disk.

Whatever SQLite or the disk reports becomes one sentence that a user can act on.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import shlex
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from aleatoric.errors import AleatoricError, DataError, StorageError, UsageError
from aleatoric.runs.formats import DATABASE, SCHEMA, SCHEMA_VERSION, DamagedRowError

LOCK = "run.lock"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_INTERRUPT)
_DATABASE_FAULTS = (sqlite3.DatabaseError, DamagedRowError)
_UNOPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_NOT_PERMITTED = (errno.EACCES, errno.EPERM, errno.EROFS)
FULL_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
STEPS, MOST_STEPS = 100_000, 10_000_000
"""Steps of SQLite between two checks of the limit, and those that any statement may take: 1 s."""
_MAGIC, _WAL = b"SQLite format 3\0", b"\2\2"
_RESTORE = "restore a copy of the run, or run the original command again"


class LockedError(UsageError):
    """Another process writes the run."""


class RunLock:
    """The right to write a run, held until it is released."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file

    @classmethod
    def take(cls, folder: Path) -> RunLock:
        """Lock a run directory; if another process holds the lock, `LockedError` names it."""
        path = folder / LOCK
        while True:
            file = _open_lock(path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _holder(file)
                file.close()
                raise _lock_error(folder, error, holder) from None
            # The former holder may have removed the file between our opening and locking it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    _sign(file)
                    return cls(path, file)
            file.close()

    def release(self) -> None:
        """Let others write; the file is removed while it is still locked."""
        if not self._file.closed:
            self._path.unlink(missing_ok=True)
            self._file.close()


def _sign(file: TextIO) -> None:
    now = datetime.now().astimezone().isoformat(" ", "seconds")
    file.truncate(0)
    with suppress(OSError):  # on a full disk the lock holds without a signature
        json.dump({"process": os.getpid(), "host": socket.gethostname(), "since": now}, file)
        file.flush()


def _open_lock(path: Path) -> TextIO:
    """Open or create the file of a lock; anything else at its path is refused."""
    try:
        # A run may come from others: through a link, any file of the user could be overwritten.
        number = os.open(path, _FLAGS, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _not_a_lock(path) from None
        if error.errno not in (*_NOT_PERMITTED, errno.ENOTDIR, errno.ENOENT):
            raise
        raise unwritable(path.parent, str(error.strerror)) from None
    if not _is_plain(os.fstat(number)):
        os.close(number)
        raise _not_a_lock(path)
    return os.fdopen(number, "a+", encoding="utf-8")


def _not_a_lock(path: Path) -> UsageError:
    return UsageError(f"{path}: is no lock of a run but another file, or a link to one; remove it.")


def _is_plain(status: os.stat_result) -> bool:
    """Whether a file is a regular one that has no other name."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1


def _holder(file: TextIO) -> dict[str, Any]:
    with suppress(OSError, ValueError):  # not signed yet
        file.seek(0)
        if isinstance(holder := json.load(file), dict):
            return holder
    return {}


def _lock_error(folder: Path, error: OSError, holder: dict[str, Any]) -> UsageError:
    if not isinstance(error, BlockingIOError):
        problem = f"{folder}: cannot be locked ({error.strerror})"
        return UsageError(f"{problem}; choose a place on a disk of this machine.")
    host = holder.get("host")
    where = "" if host in (None, socket.gethostname()) else f" on {host}"
    who = f"process {holder['process']}{where}" if "process" in holder else "another process"
    since = f" since {holder['since']}" if "since" in holder else ""
    problem = f"{folder}: is being written by {who}{since}"
    return LockedError(f"{problem}; wait until it is done, or stop it.")


@contextmanager
def reporting_faults(path: Path, reads: bool = False) -> Iterator[None]:
    """Turn faults of the database and the disk inside into errors for the user.

    `reads` says that the run is only read: if it cannot be opened, it is called unreadable.
    """
    try:
        yield
    except (*_DATABASE_FAULTS, OSError) as error:
        if (user_error := error_of(path, error, reads)) is None:
            raise
        raise user_error from error


@contextmanager
def on_failure(undo: Callable[[], None]) -> Iterator[None]:
    """Call `undo` if the block inside fails."""
    with ExitStack() as on_exit:
        on_exit.callback(undo)
        yield
        on_exit.pop_all()


def error_of(path: Path, error: BaseException | None, reads: bool = False) -> AleatoricError | None:
    """Return the error for the user behind an error of SQLite or the disk, or `None`."""
    if isinstance(error, OSError):
        return _file_error(path, error)
    return _database_error(path, error, reads) if isinstance(error, _DATABASE_FAULTS) else None


def _database_error(path: Path, error: Exception, reads: bool) -> AleatoricError | None:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in _DAMAGED or code is None:  # bytes that are not UTF-8 have no code
        return damaged(path)
    if primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return _full(path)
    if reads and primary in _UNOPENED:
        return unreadable(path, str(error))
    if primary in (sqlite3.SQLITE_READONLY, *_UNOPENED):
        return unwritable(path, str(error))
    if primary == sqlite3.SQLITE_BUSY:
        return UsageError(f"{path}: another process holds its database; wait until it is done.")
    if primary != sqlite3.SQLITE_IOERR:
        return None  # a bug in this package, not a fault of the disk
    fix = f"what was finished is saved: check the disk and continue with {command(path)}"
    return StorageError(f"{path}: its database cannot be used ({error})", fix)


def _file_error(path: Path, error: OSError) -> AleatoricError | None:
    """Return the error for a file in the run directory; others are reported where they occur."""
    # A failed write names no file; what a run writes lies in its directory.
    named = None if error.filename is None else Path(str(error.filename))
    inside = named is not None and named.absolute().is_relative_to(path.absolute())
    if error.errno in FULL_DISKS and (named is None or inside):
        return _full(path)
    if error.errno in _NOT_PERMITTED and inside:
        return unwritable(path, error.strerror or "not allowed")
    return None


def _has_no_room(path: Path) -> bool:
    """Whether less is free than SQLite may need: for some failures it names no reason."""
    try:
        return shutil.disk_usage(path).free < 256 << 10
    except OSError:
        return False


def damaged(path: Path) -> DataError:
    """Return the error for a database that does not hold what was written."""
    fix = f"restore a copy, or save what is intact with {command(path)} --salvage NEW_FOLDER"
    return DataError.at(path / DATABASE, None, "is damaged or no run", fix)


def _full(path: Path) -> StorageError:
    return StorageError(
        f"{path}: the disk is full",
        f"what was finished is saved: make room and continue with {command(path)}",
    )


def before_any_work(error: AleatoricError) -> AleatoricError:
    """Return the error of a run that was removed again because it held nothing yet."""
    if not isinstance(error, StorageError):
        return error
    return StorageError(error.problem, "nothing was finished: make room and repeat the command")


def unwritable(path: Path, reason: str) -> UsageError:
    """Return the error for a place where nothing can be written."""
    fix = "choose another --out, or copy the run to a place where it can be"
    return UsageError(f"{path}: cannot be written ({reason}); {fix}.")


def unreadable(path: Path, reason: str) -> UsageError:
    """Return the error for a run that cannot be read."""
    fix = "check the path and who may read it, or copy the run"
    return UsageError(f"{path}: cannot be read ({reason}); {fix}.")


def check_place(path: Path) -> None:
    """Refuse a place for a run whose name is too long, or which may not be accessed."""
    try:
        (path / DATABASE).exists()
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


def check_run(path: Path) -> None:
    """Refuse a path that is not a run directory."""
    try:
        is_run = (path / DATABASE).is_file()
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None
    if not is_run:
        died = path.is_dir() and all(file.name == LOCK for file in path.iterdir())
        fix = "; if the run died before it was written, the original command starts it"
        raise UsageError(f"{path}: is no run directory; it has no {DATABASE}{fix if died else ''}.")


def command(path: Path, name: str = "resume") -> str:
    """Return the command for a run as it can be pasted into a shell.

    >>> command(Path("my runs/a")), command(Path("-a"), "score")
    ("aleatoric resume 'my runs/a'", 'aleatoric score ./-a')
    """
    place = f"./{path}" if str(path).startswith("-") else str(path)
    return f"aleatoric {name} {shlex.quote(place)}"


def connect_to_write(file: Path) -> sqlite3.Connection:
    """Return a connection that begins and ends transactions only explicitly."""
    connection = _connect(file, "mode=rwc")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Return a read-only connection; others may write meanwhile."""
    connection = _connect(file, "mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if _has_log(file):
            raise
        # In a folder where no lock can be created, nobody writes: the file does not change.
        connection = _connect(file, "immutable=1")
    return connection


def connect_to_salvage(file: Path) -> sqlite3.Connection:
    """Return a read-only connection to a database that may be damaged."""
    connection = _connect(file, "mode=ro" if _has_log(file) else "immutable=1")
    # Otherwise a file that was cut short is refused because of the length in its header.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _check_files(file: Path) -> None:
    """Refuse files that SQLite must not open."""
    journal = _beside(file, "-journal")
    if os.path.lexists(journal):
        raise UsageError(f"{journal}: a run has no rollback journal; remove this file.")
    for part in (file, _beside(file, "-wal"), _beside(file, "-shm")):
        with suppress(FileNotFoundError):
            if not _is_plain(part.lstat()):
                problem = "is a link or not a regular file"
                raise UsageError(f"{part}: {problem}; copy the run and use the copy.")
    if file.exists():
        _check_header(file)


def _check_header(file: Path) -> None:
    with file.open("rb") as opened:
        header = opened.read(20)
    if header and header[:16] != _MAGIC:
        raise damaged(file.parent)
    if header and header[18:] != _WAL:
        problem = "is not in the journal mode of a run (write-ahead log)"
        raise UsageError(f"{file}: {problem}; {_RESTORE}.")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no table yet: its process died before the first transaction."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database of another format, or with other tables and indexes."""
    if is_empty(connection):
        fix = "the original command starts it again"
        raise UsageError(f"{path}: was stopped before it began; {fix}.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        again = "run the original command again with another --out"
        fix = "update aleatoric" if version > SCHEMA_VERSION else again
        problem = f"has run format {version}, and this version reads {SCHEMA_VERSION}"
        raise UsageError(f"{path}: {problem}; {fix}.")
    check_objects(connection, path)


def check_objects(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse tables, indexes, views and triggers that are not those of a run."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    with closing(sqlite3.connect(":memory:")) as expected:
        for statement in SCHEMA:
            expected.execute(statement)
        unknown = set(connection.execute(query)) ^ set(expected.execute(query))
    if unknown:
        names = ", ".join(sorted(repr(str(row[1])) for row in unknown)[:3])
        raise UsageError(f"{path}: its tables are not those of a run (see {names}); {_RESTORE}.")


def _stoppable(method: Callable[..., Any]) -> Callable[..., Any]:
    """Raise `KeyboardInterrupt` for a statement ended by a signal: SQLite loses what it raises."""

    def call(cursor: Any, *arguments: Any) -> Any:
        try:
            return method(cursor, *arguments)
        except sqlite3.OperationalError as error:
            is_ended = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
            if is_ended and cursor.connection.steps[0] < math.inf:
                raise KeyboardInterrupt from None
            raise

    return call


class _StoppableCursor(sqlite3.Cursor):
    """A cursor whose statements end with Ctrl-C."""

    execute = _stoppable(sqlite3.Cursor.execute)
    executemany = _stoppable(sqlite3.Cursor.executemany)
    fetchone = _stoppable(sqlite3.Cursor.fetchone)
    fetchall = _stoppable(sqlite3.Cursor.fetchall)
    __next__ = _stoppable(sqlite3.Cursor.__next__)


class _LimitedConnection(sqlite3.Connection):
    """A connection that counts the steps of each statement in `steps`, infinite beyond a limit."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.steps = [0.0]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.steps[0] = 0
        cursor: sqlite3.Cursor = self.cursor(_StoppableCursor)
        return cursor.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self.steps[0] = -(1 << 62)  # rows that this process writes have no limit
        cursor: sqlite3.Cursor = self.cursor(_StoppableCursor)
        return cursor.executemany(sql, parameters)


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    """Open a database; a statement waits 30 seconds for others to end a transaction."""
    _check_files(file)
    place = f"{file.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(
        place, timeout=30.0, isolation_level=None, uri=True, factory=_LimitedConnection
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    steps = connection.steps  # the handler must not hold the connection: they would form a cycle

    def is_too_long() -> bool:
        steps[0] += STEPS
        sizes = (part.stat().st_size for part in (file, _beside(file, "-wal")) if part.exists())
        if steps[0] >= MOST_STEPS and steps[0] > MOST_STEPS + 20 * sum(sizes):
            steps[0] = math.inf
        return steps[0] == math.inf

    connection.set_progress_handler(is_too_long, STEPS)
    return connection


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(file.name + ending)


def _has_log(file: Path) -> bool:
    log = _beside(file, "-wal")
    return log.exists() and log.stat().st_size > 0
