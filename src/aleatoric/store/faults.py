"""What SQLite and the disk say, as one sentence that a user can act on."""

from __future__ import annotations

import errno
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aleatoric.codec import DamagedRowError
from aleatoric.errors import AleatoricError, DataError, StorageError, UsageError
from aleatoric.store.locking import LOCK
from aleatoric.store.schema import DATABASE

LITTLE = 256 << 10
"""Bytes of free room that are as good as none."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_INTERRUPT)
_UNOPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, *_UNOPENED)
_UNWRITABLE_FILES = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def told(path: Path, reads: bool = False) -> Iterator[None]:
    """What goes wrong with the run directory inside, told as an error meant for the user.

    `reads` says that the run is opened to be read: one that cannot be opened is unreadable then.

    >>> with told(Path("runs/a")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    aleatoric.errors.StorageError: runs/a: the disk is full; what was finished is saved: make \
room and continue with aleatoric resume runs/a.
    """
    try:
        yield
    except (sqlite3.DatabaseError, DamagedRowError, OSError) as error:
        found = error_of(path, error, reads)
        if found is None:
            raise
        raise found from error


def error_of(path: Path, error: BaseException | None, reads: bool = False) -> AleatoricError | None:
    """The error for the user behind what SQLite or the disk says; `None` where there is none."""
    if isinstance(error, OSError):
        return _of_file(path, error)
    if isinstance(error, sqlite3.DatabaseError | DamagedRowError):
        return _of_database(path, error, reads)
    return None


def _of_database(path: Path, error: Exception, reads: bool) -> AleatoricError | None:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in _DAMAGED or code is None:  # bytes that are no UTF-8 have no code
        return damaged(path)
    if primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return full(path)
    if reads and primary in _UNOPENED:
        return unreadable(path, str(error))
    if primary in _UNWRITABLE:
        return unwritable(path, str(error))
    if primary == sqlite3.SQLITE_BUSY:
        return UsageError(f"{path}: another process holds its database; wait until it is done.")
    if primary != sqlite3.SQLITE_IOERR:
        return None  # a mistake of ours, not the disk's
    return StorageError(
        f"{path}: its database cannot be used ({error})",
        f"what was finished is saved: check the disk and continue with {command(path)}",
    )


def damaged(path: Path) -> DataError:
    """A database that holds something else than what was written."""
    fix = f"restore a copy, or save what is intact with {command(path)} --salvage NEW_FOLDER"
    return DataError.at(path / DATABASE, None, "is damaged or no run", fix)


def full(path: Path) -> StorageError:
    """A disk without room."""
    return StorageError(
        f"{path}: the disk is full",
        f"what was finished is saved: make room and continue with {command(path)}",
    )


def before_any_work(error: AleatoricError) -> AleatoricError:
    """The error of a run that is gone again, since it held nothing yet."""
    if not isinstance(error, StorageError):
        return error
    return StorageError(error.problem, "nothing was finished: make room and repeat the command")


def unwritable(path: Path, reason: str) -> UsageError:
    """A place where nothing can be written."""
    return UsageError(
        f"{path}: cannot be written ({reason}); choose another --out, or copy the run to a place "
        "where it can be."
    )


def unreadable(path: Path, reason: str) -> UsageError:
    """A run that cannot be read.

    >>> str(unreadable(Path("runs/a"), "Permission denied"))
    'runs/a: cannot be read (Permission denied); check the path and who may read it, or copy the \
run.'
    """
    fix = "check the path and who may read it, or copy the run"
    return UsageError(f"{path}: cannot be read ({reason}); {fix}.")


def holds_database(path: Path) -> bool:
    """Whether a directory holds the database of a run; one that cannot be looked at is refused.

    >>> holds_database(Path("no such folder"))
    False
    """
    try:
        return (path / DATABASE).is_file()
    except OSError as error:  # a name too long, or a folder that is closed to us
        raise unreadable(path, error.strerror or str(error)) from None


def check_place(path: Path) -> None:
    """Refuse a place for a run whose name is too long, or that is closed to us.

    >>> check_place(Path("runs/none"))
    """
    try:
        (path / DATABASE).exists()
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


def check_run(path: Path) -> None:
    """Refuse what is no run directory.

    >>> check_run(Path("runs/none"))
    Traceback (most recent call last):
    aleatoric.errors.UsageError: runs/none: is no run directory; it has no run.sqlite.
    """
    if not holds_database(path):
        died = path.is_dir() and all(file.name == LOCK for file in path.iterdir())
        fix = "; if the run died before it was written, the original command starts it"
        raise UsageError(f"{path}: is no run directory; it has no {DATABASE}{fix if died else ''}.")


def command(path: Path, name: str = "resume") -> str:
    """How a run is continued, or given to another command: as it can be pasted into a shell.

    >>> command(Path("my runs/a")), command(Path("-a"), "score")
    ("aleatoric resume 'my runs/a'", 'aleatoric score ./-a')
    """
    place = f"./{path}" if str(path).startswith("-") else str(path)
    return f"aleatoric {name} {shlex.quote(place)}"


def _has_no_room(path: Path) -> bool:
    """Whether less is free than SQLite may need at once; it names no reason for some failures."""
    try:
        return shutil.disk_usage(path).free < LITTLE
    except OSError:
        return False


def _of_file(path: Path, error: OSError) -> AleatoricError | None:
    """An error of a file in the run directory; others are told where they come from."""
    # A failed write names no file: what a run writes lies in its directory.
    named = None if error.filename is None else Path(str(error.filename))
    inside = named is not None and named.absolute().is_relative_to(path.absolute())
    if error.errno in _FULL_DISKS and (named is None or inside):
        return full(path)
    if error.errno in _UNWRITABLE_FILES and inside:
        return unwritable(path, error.strerror or "not allowed")
    return None
