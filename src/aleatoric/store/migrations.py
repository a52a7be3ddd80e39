"""Runs of older versions brought to today's form, each step in one transaction with the others."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from aleatoric import codec
from aleatoric.store.schema import COLUMNS, ITEMS_SAVED, SCHEMA, SCHEMA_VERSION, VERSION

Step = Callable[[sqlite3.Connection], None]
_SEALED = 3
"""The first version whose seals cover the keys of rows."""
_PAGE = 2000
"""Rows that are sealed at once."""
_KEY_COLUMNS = {"draws": 3}
"""The first columns of a table that tell its rows apart, where one does not."""


def version_of(connection: sqlite3.Connection) -> int:
    """The form that a run is in; it has no seal, so what is no number is damage."""
    found = _get(connection, VERSION)
    if type(found) is not int:
        raise codec.DamagedRowError("the form of the run is no number")
    return found


def is_older(version: int) -> bool:
    """Whether a run of this form can be brought to today's."""
    return version in STEPS


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a run to today's form: all steps or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        while (version := version_of(connection)) != SCHEMA_VERSION:
            STEPS[version](connection)
            _set(connection, VERSION, version + 1)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _to_2(connection: sqlite3.Connection) -> None:
    """Counts of answers need no payloads any more; the manifest tells how to go on."""
    for statement in SCHEMA:
        if "draws_by_system" in statement or "token_sums" in statement:
            made = statement.replace(" INDEX ", " INDEX IF NOT EXISTS ")
            connection.execute(made.replace(" TABLE ", " TABLE IF NOT EXISTS "))
    _set(connection, "manifest", manifest_to_2(_get(connection, "manifest")))
    (count,) = connection.execute("SELECT count(*) FROM items").fetchone()
    if count:
        _set(connection, ITEMS_SAVED, count)


def manifest_to_2(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with what it takes to go on; it has those defaults that were in force.

    >>> manifest_to_2({"level": "token"})
    {'device': None, 'batch_tokens': 2048, 'level': 'token'}
    """
    of_level: dict[str, dict[str, Any]] = {
        "word": {"remarks": []},
        "token": {"batch_tokens": 2048},
    }
    return {"device": None} | of_level.get(manifest["level"], {}) | manifest


def _to_3(connection: sqlite3.Connection) -> None:
    """Every row is sealed, with its key; a fine-tuning run knows how often it saves."""
    _set(connection, "manifest", manifest_to_3(_get(connection, "manifest")))
    for table in COLUMNS:
        _reseal(connection, table)


def _reseal(connection: sqlite3.Connection, table: str) -> None:
    """Seal every row of a table, page by page: SQLite hides a Ctrl-C inside of its statements."""
    columns = COLUMNS[table]
    key = columns[: _KEY_COLUMNS.get(table, 1)]
    named, places = ", ".join(key), ", ".join("?" * len(key))
    chosen = f"SELECT {', '.join(columns)} FROM {table}"
    page = f"ORDER BY {named} LIMIT {_PAGE}"
    update = f"UPDATE {table} SET {columns[-1]} = ? WHERE ({named}) = ({places})"
    rows = connection.execute(f"{chosen} {page}").fetchall()
    while rows:
        sealed = [(_resealed(table, row), *row[: len(key)]) for row in rows if row[0] != VERSION]
        connection.executemany(update, sealed)
        last = rows[-1][: len(key)]
        rows = connection.execute(f"{chosen} WHERE ({named}) > ({places}) {page}", last).fetchall()


def manifest_to_3(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with what it takes to go on with fine-tuning.

    >>> manifest_to_3({"level": "word", "command": "finetune"})
    {'save_every': 0, 'device': None, 'level': 'word', 'command': 'finetune'}
    """
    return ({"save_every": 0, "device": None} if "command" in manifest else {}) | manifest


def brought_up(table: str, row: codec.RowOf, version: int) -> codec.RowOf:
    """A row of any version as it is saved today; refuses one that has changed."""
    try:
        codec.unseal(row)
        return row  # whatever the version says, which has no seal itself
    except codec.DamagedRowError:
        if version >= _SEALED:
            raise
    return codec.seal((*row[:-1], _opened(table, row)))


def _resealed(table: str, row: codec.RowOf) -> Any:
    try:
        return brought_up(table, row, _SEALED - 1)[-1]
    except codec.DamagedRowError:
        return row[-1]  # what was noticed before is noticed again when it is read


def _opened(table: str, row: codec.RowOf) -> Any:
    """The contents of a row before all were sealed; those of the first version never were."""
    text = row[-1]
    if table == "token_sums":
        return text
    if not isinstance(text, str):
        raise codec.DamagedRowError("a row holds no text")
    content, mark, found = text.rpartition("\n")
    if not mark:
        content = text
    elif found != _former_checksum(content, row[1:-1] if table == "items" else ()):
        raise codec.DamagedRowError("a row is not what was written")
    codec.load(content)
    return content


def _former_checksum(text: str, others: Sequence[str | None]) -> str:
    whole = "\n".join([text, *(other or "" for other in others)])
    return f"{zlib.crc32(whole.encode('utf-8', 'surrogatepass')):08x}"


STEPS: dict[int, Step] = {1: _to_2, 2: _to_3}
"""The step from each older version to the next."""


def _get(connection: sqlite3.Connection, key: str) -> Any:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if found is None:
        raise codec.DamagedRowError(f"the fact {key} is gone")
    return codec.load(found[0])


def _set(connection: sqlite3.Connection, key: str, value: Any) -> None:
    row = (key, json.dumps(value))
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
