"""The tables of a run. Their statements are fixed: a database with any other object is refused."""

from __future__ import annotations

DATABASE = "run.sqlite"
ITEMS_SAVED = "n_items"
"""The fact that says how many items a run was given: fewer in its table have been lost."""
SCHEMA_VERSION = 4
"""Raised when a table or the manifest changes; kept as SQLite's `user_version`."""
STATS = (
    "CREATE TABLE stats (generation INTEGER NOT NULL, system INTEGER NOT NULL, "
    "page INTEGER NOT NULL, last_item INTEGER NOT NULL, payload BLOB NOT NULL, "
    "PRIMARY KEY (generation, system, page)) WITHOUT ROWID"
)
EMBEDDINGS = "CREATE TABLE embeddings (hash TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
SYSTEMS = (
    "CREATE TABLE systems (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, facts TEXT NOT NULL)"
)
SCHEMA = (
    META,
    "CREATE TABLE items (no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, grp TEXT NOT NULL, "
    "context TEXT NOT NULL, original TEXT, responses TEXT NOT NULL)",
    SYSTEMS,
    "CREATE TABLE draws (item INTEGER NOT NULL, system INTEGER NOT NULL, row INTEGER NOT NULL, "
    "payload TEXT NOT NULL, PRIMARY KEY (item, system, row)) WITHOUT ROWID",
    # Which items a system has answered is asked often: told without reading what it answered.
    "CREATE INDEX draws_by_system ON draws (system, item)",
    "CREATE TABLE token_sums (system INTEGER PRIMARY KEY, items INTEGER NOT NULL, "
    "unscored INTEGER NOT NULL, tokens INTEGER NOT NULL, payload BLOB NOT NULL)",
    STATS,
    EMBEDDINGS,
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


def temporary(statement: str) -> str:
    """The statement that creates a table which disappears with the connection.

    >>> temporary(META)[:22]
    'CREATE TEMP TABLE IF N'
    """
    return statement.replace("CREATE TABLE", "CREATE TEMP TABLE IF NOT EXISTS", 1)
