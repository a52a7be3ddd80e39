"""Runs of older versions brought to today's form, each step in one transaction with the others."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from aleatoric.store.schema import SCHEMA, SCHEMA_VERSION

Step = Callable[[sqlite3.Connection], None]
ITEMS_SAVED = "n_items"
"""How many items a run was given: fewer in its table have been lost."""


def version_of(connection: sqlite3.Connection) -> Any:
    """The form that a run is in; `None` where it says nothing."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
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
            _set(connection, "schema", version + 1)
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


STEPS: dict[int, Step] = {1: _to_2}
"""The step from each older version to the next."""


def _get(connection: sqlite3.Connection, key: str) -> Any:
    (value,) = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return json.loads(value)


def _set(connection: sqlite3.Connection, key: str, value: Any) -> None:
    row = (key, json.dumps(value))
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
