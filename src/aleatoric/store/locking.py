"""One writer at a time: a lock on a run directory that dies with its process.

The operating system drops the lock with the process that held it, however that died, so nothing
stale is ever in the way. The file beside the database only says who holds it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from aleatoric.errors import UsageError

LOCK = "run.lock"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT)


class LockedError(UsageError):
    """Another process writes the run."""


class RunLock:
    """The right to write a run, held until it is released.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = RunLock.take(Path(folder))
    ...     try:
    ...         RunLock.take(Path(folder))
    ...     except LockedError as error:
    ...         print("is being written by process" in str(error))
    ...     lock.release()
    True
    """

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file

    @classmethod
    def take(cls, folder: Path) -> RunLock:
        """The lock of a run directory; where another holds it, `LockedError` says who."""
        path = folder / LOCK
        while True:
            file = _opened(path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _holder(file)
                file.close()
                raise _refusal(folder, error, holder) from None
            # The former holder may have removed the file between our opening and locking it.
            if _is_at(file, path):
                lock = cls(path, file)
                lock._sign()
                return lock
            file.close()

    def release(self) -> None:
        """Let others write; the file goes while it is still ours."""
        if not self._file.closed:
            self._path.unlink(missing_ok=True)
            self._file.close()

    def _sign(self) -> None:
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        self._file.truncate(0)
        try:
            json.dump(
                {"process": os.getpid(), "host": socket.gethostname(), "since": now}, self._file
            )
            self._file.flush()
        except OSError:
            pass  # a full disk: the lock holds all the same, unsigned


def _opened(path: Path) -> TextIO:
    """The file of a lock, made where it is not there; what stands in its place is left alone."""
    try:
        # A run may come from others: a link would lead the writing to any file of the user's.
        number = os.open(path, _FLAGS, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_lock(path) from None
        if error.errno not in _UNWRITABLE:
            raise
        raise UsageError(
            f"{path.parent}: cannot be written ({error.strerror}); choose another --out, or copy "
            "the run to a place where it can be."
        ) from None
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(number)
        raise _no_lock(path)
    return os.fdopen(number, "a+", encoding="utf-8")


def _no_lock(path: Path) -> UsageError:
    return UsageError(f"{path}: is no lock of a run but another file, or a link to one; remove it.")


def _is_at(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _holder(file: TextIO) -> dict[str, Any]:
    try:
        file.seek(0)
        found: Any = json.load(file)
    except (OSError, ValueError):
        return {}  # not signed yet
    return found if isinstance(found, dict) else {}


def _refusal(folder: Path, error: OSError, holder: dict[str, Any]) -> UsageError:
    if not isinstance(error, BlockingIOError):
        problem = f"cannot be locked ({error.strerror})"
        return UsageError(f"{folder}: {problem}; choose a place on a disk of this machine.")
    host = holder.get("host")
    where = "" if host in (None, socket.gethostname()) else f" on {host}"
    who = f"process {holder['process']}{where}" if "process" in holder else "another process"
    since = f" since {holder['since']}" if "since" in holder else ""
    return LockedError(
        f"{folder}: is being written by {who}{since}; wait until it is done, or stop it."
    )
