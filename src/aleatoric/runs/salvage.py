"""Salvage: copy what is intact in a damaged run to a new run that can be scored and resumed.

A damaged page makes SQLite fail only where it is read: ranges that cannot be read are halved until
the lost rows stand alone. The damaged run is only read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric import registry
from aleatoric.errors import AleatoricError, DataError, UsageError
from aleatoric.runs import disk, formats
from aleatoric.runs.formats import DATABASE, DamagedRowError, SqlRow
from aleatoric.runs.run import Store
from aleatoric.runs.tables import BASE_WEIGHTS, FINETUNING, TOKEN_ROWS, TRAINING, load_fact

CHUNK = 1 << 20
STRIDE = 512
"""Rows that are read at once as long as nothing is damaged; also the most systems of a run."""


def salvage(run: Path, out: Path) -> list[str]:
    """Save what is intact as a new run, which redraws the rest if resumed; return what is saved."""
    disk.check_run(run)
    disk.check_place(out)
    has_weights = (run / TRAINING).is_dir()
    if has_weights and (out / TRAINING).exists():
        raise UsageError(f"{out}: has a folder {TRAINING} already; choose another.")
    with closing(disk.connect_to_salvage(run / DATABASE)) as damaged:
        store = Store.create(out, _manifest(damaged, run))
        try:
            with disk.reporting_faults(out):
                return list(_copied(damaged, run, store))
        except BaseException as error:
            if has_weights:
                shutil.rmtree(out / TRAINING, ignore_errors=True)
            store.discard()
            if isinstance(error, AleatoricError):
                raise disk.before_any_work(error) from error
            raise
        finally:
            store.close()


def _manifest(damaged: sqlite3.Connection, run: Path) -> dict[str, Any]:
    with suppress(sqlite3.DatabaseError):
        disk.check_objects(damaged, run)
    manifest = _fact(damaged, "manifest")
    if manifest is None:
        problem, fix = "is damaged where the run is described", "restore a copy or run again"
        raise DataError.at(run / DATABASE, None, problem, fix)
    return dict(manifest)


def _copied(damaged: sqlite3.Connection, run: Path, store: Store) -> Iterator[str]:
    reader = _IntactRows(damaged)
    last = _last_item(damaged)
    with store.transaction():
        for table in ("systems", "items", "draws", "token_sums"):
            most = last if table in ("items", "draws") else STRIDE
            # If damage made two rows identical, the first is kept and the other is drawn again.
            insert = formats.insert(table, "INSERT OR IGNORE")
            store.db.executemany(insert, reader.rows(table, most))
        for table in ("draws", "token_sums"):  # rows of a system that is lost
            store.db.execute(f"DELETE FROM {table} WHERE system NOT IN (SELECT no FROM systems)")
        unread = _copy_files(run, store)
        has_facts = not (run / TRAINING).is_dir() or _fact(damaged, FINETUNING) is not None
        _copy_facts(damaged, store, last, has_facts and not unread and not reader.n_lost)
    yield from (f"{file} cannot be read and is left out" for file in unread)
    yield from registry.find("levels", store.manifest["command"])().intact(store, last)


@dataclass
class _IntactRows:
    """Reads the intact rows of a run, and counts the keys that cannot be read."""

    damaged: sqlite3.Connection
    n_lost: int = 0

    def rows(self, table: str, last: int) -> Iterator[SqlRow]:
        """Yield the intact rows of a table up to a key."""
        for start in range(1, last + 1, STRIDE):
            yield from self._between(table, start, min(start + STRIDE - 1, last))

    def _between(self, table: str, low: int, high: int) -> Iterator[SqlRow]:
        try:
            rows = self._read(table, low, high)
        except (sqlite3.DatabaseError, DamagedRowError):
            if low == high:
                self.n_lost += 1
                return
            middle = (low + high) // 2
            yield from self._between(table, low, middle)
            yield from self._between(table, middle + 1, high)
        else:
            yield from rows

    def _read(self, table: str, low: int, high: int) -> list[SqlRow]:
        """Read the rows between two keys, without indexes, which may be damaged themselves."""
        key = formats.COLUMNS[table][0]
        query = f"{formats.select(table)} NOT INDEXED WHERE {key} BETWEEN ? AND ?"
        rows = self.damaged.execute(query, (low, high)).fetchall()
        if not all(low <= row[0] <= high for row in rows):
            raise DamagedRowError("a row of another key")
        for row in rows:
            formats.unseal(row)
        return rows


def _last_item(damaged: sqlite3.Connection) -> int:
    numbers = [_fact(damaged, formats.ITEMS_SAVED) or 0]
    for query in ("SELECT max(no) FROM items", "SELECT max(item) FROM draws"):
        with suppress(sqlite3.DatabaseError):
            numbers.append(damaged.execute(query).fetchone()[0] or 0)
    return max(int(number) for number in numbers)


def _fact(damaged: sqlite3.Connection, key: str) -> Any:
    """Return a saved fact, read with the index or without it; `None` if neither works."""
    for index_hint in ("", "NOT INDEXED "):
        query = f"{formats.select('meta')} {index_hint}WHERE key = ? LIMIT 1"
        with suppress(sqlite3.DatabaseError, DamagedRowError, TypeError):
            row = damaged.execute(query, (key,)).fetchone()
            if row is not None:
                return load_fact(row)
    return None


def _copy_facts(damaged: sqlite3.Connection, store: Store, last: int, is_whole: bool) -> None:
    """Copy the facts that still hold: if something is lost, nothing counts as done."""
    keys = ["notes", FINETUNING, BASE_WEIGHTS]
    if is_whole:
        keys.append("finished models")
        keys += [f"{kind} {name}" for name in store.systems() for kind in ("done", "tally")]
    for key in keys:
        value = _fact(damaged, key)
        if value is not None:
            store.set_meta(key, value)
    if last:
        store.set_meta(formats.ITEMS_SAVED, last)


def _copy_files(run: Path, store: Store) -> list[Path]:
    """Copy weights and per-token rows; return the files that cannot be read."""
    source = run / TRAINING
    unread = copy_readable(source, store.path / TRAINING) if source.is_dir() else []
    for name in store.systems():
        to = store.token_rows_folder(name)
        source = run / TOKEN_ROWS / to.name
        if store.token_sums(name) is None or not source.is_dir():
            continue
        if lost := copy_readable(source, to):  # they are computed again, together with the sums
            shutil.rmtree(to)
            store.db.execute("DELETE FROM token_sums WHERE system = ?", (store.system_no(name),))
        unread += lost
    return unread


def copy_readable(source: Path, to: Path) -> list[Path]:
    """Copy the readable files of a folder; return the others, which are left out."""
    unread: list[Path] = []
    walked = os.walk(source, onerror=lambda error: unread.append(Path(error.filename)))
    for folder, _, names in walked:
        place = to / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        files = [Path(folder) / name for name in sorted(names)]
        unread += [file for file in files if not _copy(file, place / file.name)]
    return unread


def _copy(file: Path, to: Path) -> bool:
    """Copy a file; return whether it could be read to its end. Errors of writing are raised."""
    with to.open("wb") as copy:
        for chunk in _chunks(file):
            if chunk is None:
                to.unlink()
                return False
            copy.write(chunk)
    return True


def _chunks(file: Path) -> Iterator[bytes | None]:
    """Yield the parts of a file, and `None` where it cannot be read."""
    if not file.is_file():  # reading a pipe would block
        yield None
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(CHUNK):
                yield chunk
    except OSError:
        yield None
