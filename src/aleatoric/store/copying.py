"""Files of a damaged run, copied as far as they can be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20


class _UnreadError(Exception):
    """A file cannot be read; what goes wrong with its copy is another matter."""


def copy_readable(source: Path, to: Path) -> list[Path]:
    """Copy a folder, file by file; returns what of it cannot be read and is left out.

    What cannot be written, as on a full disk, is raised.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     folder = Path(made)
    ...     (folder / "a").mkdir()
    ...     _ = (folder / "a" / "whole").write_text("x")
    ...     (folder / "a" / "gone").symlink_to("nowhere")
    ...     [file.name for file in copy_readable(folder / "a", folder / "b")]
    ...     [file.name for file in (folder / "b").iterdir()]
    ['gone']
    ['whole']
    """
    unread: list[Path] = []
    walked = os.walk(source, onerror=lambda error: unread.append(Path(error.filename)))
    for folder, _, names in walked:
        place = to / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        files = [Path(folder) / name for name in sorted(names)]
        unread += [file for file in files if not _copy(file, place / file.name)]
    return unread


def _copy(file: Path, to: Path) -> bool:
    """Whether a file could be read to its end, and was copied."""
    try:
        with to.open("wb") as copy:
            copy.writelines(_chunks(file))
    except _UnreadError:
        to.unlink()
        return False
    return True


def _chunks(file: Path) -> Iterator[bytes]:
    if not file.is_file():  # a pipe would be waited for
        raise _UnreadError
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(CHUNK):
                yield chunk
    except OSError:
        raise _UnreadError from None
