"""Runs of older versions brought to today's form, each step in one transaction with the others."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aleatoric import codec
from aleatoric.store.schema import COLUMNS, ITEMS_SAVED, SCHEMA, SCHEMA_VERSION, VERSION

Step = Callable[[sqlite3.Connection], None]
_SEALED = 3
"""The first version whose seals cover the keys of rows."""


def version_of(connection: sqlite3.Connection) -> Any:
    """The form that a run is in; `None` where it says nothing."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (VERSION,)).fetchone()
    return None if found is None else json.loads(found[0])


def is_older(version: Any) -> bool:
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
    for table, columns in COLUMNS.items():
        connection.create_function("reseal", len(columns), partial(_resealed, table))
        connection.execute(
            f"UPDATE {table} SET {columns[-1]} = reseal({', '.join(columns)}) "
            f"WHERE {columns[0]} IS NOT ?",
            (VERSION,),
        )


def manifest_to_3(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with what it takes to go on with fine-tuning.

    >>> manifest_to_3({"level": "word", "command": "finetune"})
    {'save_every': 0, 'device': None, 'level': 'word', 'command': 'finetune'}
    """
    return ({"save_every": 0, "device": None} if "command" in manifest else {}) | manifest


def brought_up(table: str, row: codec.RowOf, version: int) -> codec.RowOf:
    """A row of any version as it is saved today; refuses one that has changed."""
    if version >= _SEALED:
        codec.unseal(row)
        return row
    return codec.seal((*row[:-1], _opened(table, row)))


def _resealed(table: str, *row: Any) -> Any:
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
    (value,) = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return json.loads(value)


def _set(connection: sqlite3.Connection, key: str, value: Any) -> None:
    row = (key, json.dumps(value))
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
