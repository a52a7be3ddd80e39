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
from aleatoric.store.schema import DATABASE

LITTLE = 256 << 10
"""Bytes of free room that are as good as none."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_UNWRITABLE_FILES = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What goes wrong with the run directory inside, told as an error meant for the user.

    >>> with told(Path("runs/a")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    aleatoric.errors.StorageError: runs/a: the disk is full; what was finished is saved: make \
room and continue with aleatoric resume runs/a.
    """
    try:
        yield
    except (sqlite3.DatabaseError, DamagedRowError, OSError) as error:
        found = error_of(path, error)
        if found is None:
            raise
        raise found from error


def error_of(path: Path, error: BaseException | None) -> AleatoricError | None:
    """The error for the user behind what SQLite or the disk says; `None` where there is none."""
    if isinstance(error, OSError):
        return _of_file(path, error)
    if isinstance(error, sqlite3.DatabaseError | DamagedRowError):
        return _of_database(path, error)
    return None


def _of_database(path: Path, error: Exception) -> AleatoricError | None:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in _DAMAGED or code is None:  # bytes that are no UTF-8 have no code
        return damaged(path)
    if primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return full(path)
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


def command(path: Path) -> str:
    """How a run is continued.

    >>> command(Path("my runs/a"))
    "aleatoric resume 'my runs/a'"
    """
    return f"aleatoric resume {shlex.quote(str(path))}"


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
