"""The tables of a run, and how names become columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

DATABASE = "run.sqlite"
VERSION = "schema"
"""The fact that says which form a run is in."""
ITEMS_SAVED = "n_items"
"""The fact that says how many items a run was given: fewer in its table have been lost."""
SCHEMA_VERSION = 3
"""Raised when a table or the manifest changes; `migrations` holds the way from each to the next."""
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE items (no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, grp TEXT NOT NULL, "
    "context TEXT NOT NULL, original TEXT, responses TEXT NOT NULL)",
    "CREATE TABLE systems (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, facts TEXT NOT NULL)",
    "CREATE TABLE draws (item INTEGER NOT NULL, system INTEGER NOT NULL, row INTEGER NOT NULL, "
    "payload TEXT NOT NULL, PRIMARY KEY (item, system, row)) WITHOUT ROWID",
    # Which items a system has answered is asked often: told without reading what it answered.
    "CREATE INDEX draws_by_system ON draws (system, item)",
    "CREATE TABLE token_sums (system INTEGER PRIMARY KEY, items INTEGER NOT NULL, "
    "unscored INTEGER NOT NULL, tokens INTEGER NOT NULL, payload BLOB NOT NULL)",
)
"""One statement each: a new run is made in one transaction, whole or not at all."""
COLUMNS = {
    "meta": ("key", "value"),
    "systems": ("no", "name", "facts"),
    "items": ("no", "id", "grp", "context", "original", "responses"),
    "draws": ("item", "system", "row", "payload"),
    "token_sums": ("system", "items", "unscored", "tokens", "payload"),
}
"""The tables whose rows are sealed: in each the last column holds the contents."""
WAIT = 30.0
"""Seconds that a statement waits for another process to end a transaction."""


def connect(file: Path) -> sqlite3.Connection:
    """A connection that begins and ends transactions only when told to."""
    connection = sqlite3.connect(file, timeout=WAIT, isolation_level=None)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def connect_read_only(file: Path) -> sqlite3.Connection:
    """A connection to a file in a place where nothing can be written."""
    # With a journal beside it, others may write the file; without, nobody does.
    journal = file.with_name(file.name + "-wal")
    how = "mode=ro" if journal.exists() and journal.stat().st_size else "immutable=1"
    uri = f"{file.absolute().as_uri()}?{how}"
    return sqlite3.connect(uri, timeout=WAIT, isolation_level=None, uri=True)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no table yet: its maker died before its first transaction."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def sql_names_of(columns: Sequence[str]) -> list[str]:
    """Column names go into SQL text: what is no plain identifier gets a number in its place.

    >>> sql_names_of(["tvd", "w1_M/lexical-1"])
    ['tvd', 'stat_1']
    """
    plain = [name.isidentifier() and name.isascii() for name in columns]
    return [
        name if ok else f"stat_{i}" for i, (name, ok) in enumerate(zip(columns, plain, strict=True))
    ]
