"""What is intact in a damaged run, as a new run that can be scored and continued.

A damaged page makes SQLite fail where it is read and nowhere else: ranges that cannot be read are
halved until the rows that are lost stand alone. The damaged run is only read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric.errors import AleatoricError, DataError, UsageError
from aleatoric.runs import disk, formats
from aleatoric.runs.disk import check_objects, connect_to_salvage
from aleatoric.runs.formats import COLUMNS, DATABASE, ITEMS_SAVED, insert, select
from aleatoric.runs.run import Store
from aleatoric.runs.tables import BASE_WEIGHTS, FINETUNING, TOKEN_ROWS, TRAINING, load_fact

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


STRIDE = 512
"""Rows that are asked for at once while all goes well."""
MOST_SYSTEMS = STRIDE
TABLES = ("systems", "items", "draws", "token_sums")


def salvage(run: Path, out: Path) -> list[str]:
    """Save what is intact of a damaged run in a new one; returns a sentence for each part.

    What is lost is drawn again, from the same random streams, when the new run is continued.
    """
    if not (run / DATABASE).is_file():
        raise UsageError(f"{run}: is no run directory; it has no {DATABASE}.")
    has_weights = (run / TRAINING).is_dir()
    if has_weights and (out / TRAINING).exists():
        raise UsageError(f"{out}: has a folder {TRAINING} already; choose another.")
    with closing(connect_to_salvage(run / DATABASE)) as damaged:
        store = Store.create(out, _manifest(damaged, run))
        try:
            with _or_nothing(store, has_weights), disk.told(out):
                return list(_copied(damaged, run, store))
        finally:
            store.close()


@contextmanager
def _or_nothing(store: Store, has_weights: bool) -> Iterator[None]:
    """Where the copy fails, nothing of it stays behind."""
    try:
        yield
    except BaseException as error:
        if has_weights:
            shutil.rmtree(store.path / TRAINING, ignore_errors=True)
        store.discard()
        if isinstance(error, AleatoricError):
            raise disk.before_any_work(error) from error
        raise


def _manifest(damaged: sqlite3.Connection, run: Path) -> dict[str, Any]:
    with suppress(sqlite3.DatabaseError):
        check_objects(damaged, run)
    manifest = _fact(damaged, "manifest")
    if manifest is None:
        problem, fix = "is damaged where the run is described", "restore a copy or run again"
        raise DataError.at(run / DATABASE, None, problem, fix)
    return dict(manifest)


def _copied(damaged: sqlite3.Connection, run: Path, store: Store) -> Iterator[str]:
    """Copy the parts of a run, each with a sentence on it."""
    reader = Reader(damaged)
    last = _last_item(damaged)
    with store.transaction():
        for table in TABLES:
            most = last if table in ("items", "draws") else MOST_SYSTEMS
            # Where damage made two rows look alike, the first stays and the other is made again.
            store.db.executemany(insert(table, "INSERT OR IGNORE"), reader.rows(table, most))
        for table in ("draws", "token_sums"):  # whose they are cannot be told any more
            store.db.execute(f"DELETE FROM {table} WHERE system NOT IN (SELECT no FROM systems)")
        unread = _copy_files(run, store)
        told = [FINETUNING] if (run / TRAINING).is_dir() else []
        is_told = all(_fact(damaged, key) is not None for key in told)
        _copy_facts(damaged, store, last, is_told and not unread and not reader.n_lost)
    yield from (f"{file} cannot be read and is left out" for file in unread)
    if store.manifest["level"] == "token":
        intact = [name for name in store.systems() if store.token_sums(name) is not None]
        yield f"the sums of {len(intact)} of {len(store.systems())} models are intact"
        return
    yield f"{store.n_items} of {max(last, store.n_items)} items are intact"
    for name in store.systems():
        yield f"{name}: the answers to {store.n_items_with_draws(name)} items are intact"


@dataclass
class Reader:
    """Reads what can be read of a run, and counts the keys that cannot."""

    damaged: sqlite3.Connection
    n_lost: int = 0

    def rows(self, table: str, last: int) -> Iterator[formats.RowOf]:
        """The rows of a table up to a key."""
        for start in range(1, last + 1, STRIDE):
            yield from self._between(table, start, min(start + STRIDE - 1, last))

    def _between(self, table: str, low: int, high: int) -> Iterator[formats.RowOf]:
        try:
            rows = self._read(table, low, high)
        except (sqlite3.DatabaseError, formats.DamagedRowError):
            if low == high:
                self.n_lost += 1
                return
            middle = (low + high) // 2
            yield from self._between(table, low, middle)
            yield from self._between(table, middle + 1, high)
        else:
            yield from rows

    def _read(self, table: str, low: int, high: int) -> list[formats.RowOf]:
        """The rows from one key to another, past indexes, which may be damaged alone."""
        query = f"{select(table)} NOT INDEXED WHERE {COLUMNS[table][0]} BETWEEN ? AND ?"
        rows = self.damaged.execute(query, (low, high)).fetchall()
        if not all(low <= row[0] <= high for row in rows):
            raise formats.DamagedRowError("a row of another key")
        for row in rows:
            formats.unseal(row)
        return rows


def _last_item(damaged: sqlite3.Connection) -> int:
    """The number of the last item, from whichever part still tells it."""
    told = [_fact(damaged, ITEMS_SAVED) or 0]
    for query in ("SELECT max(no) FROM items", "SELECT max(item) FROM draws"):
        with suppress(sqlite3.DatabaseError):
            told.append(damaged.execute(query).fetchone()[0] or 0)
    return max(int(number) for number in told)


def _fact(damaged: sqlite3.Connection, key: str) -> Any:
    """A saved fact by its index, or past it; `None` where neither can be read."""
    for how in ("", "NOT INDEXED "):
        query = f"{select('meta')} {how}WHERE key = ? LIMIT 1"
        with suppress(sqlite3.DatabaseError, formats.DamagedRowError, TypeError):
            row = damaged.execute(query, (key,)).fetchone()
            if row is not None:
                return load_fact(row)
    return None


def _copy_facts(damaged: sqlite3.Connection, store: Store, last: int, is_whole: bool) -> None:
    """Facts that still hold: where something is lost, nothing is called done."""
    keys = ["notes", FINETUNING, BASE_WEIGHTS]
    if is_whole:
        keys.append("finished models")
        keys += [f"{kind} {name}" for name in store.systems() for kind in ("done", "tally")]
    for key in keys:
        value = _fact(damaged, key)
        if value is not None:
            store.set_meta(key, value)
    if last:
        store.set_meta(ITEMS_SAVED, last)


def _copy_files(run: Path, store: Store) -> list[Path]:
    """Weights and rows of tokens lie in files of their own; returns those that cannot be read.

    Training checks weights when it reads them. Rows of tokens are made with a system's sums: where
    some are lost, both are made again.
    """
    unread = (
        copy_readable(run / TRAINING, store.path / TRAINING) if (run / TRAINING).is_dir() else []
    )
    for name in store.systems():
        to = store.token_rows_folder(name)
        source = run / TOKEN_ROWS / to.name
        if store.token_sums(name) is None or not source.is_dir():
            continue
        if lost := copy_readable(source, to):
            shutil.rmtree(to)
            store.db.execute("DELETE FROM token_sums WHERE system = ?", (store.system_no(name),))
        unread += lost
    return unread
