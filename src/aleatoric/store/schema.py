"""The tables of a run, and how names become columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

DATABASE = "run.sqlite"
SCHEMA_VERSION = 1
"""Raised when a table changes. New tables are added where they are first needed: old runs stay."""
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (
    no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, grp TEXT NOT NULL,
    context TEXT NOT NULL, original TEXT, responses TEXT NOT NULL);
CREATE TABLE systems (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, facts TEXT NOT NULL);
CREATE TABLE draws (
    item INTEGER NOT NULL, system INTEGER NOT NULL, row INTEGER NOT NULL, payload TEXT NOT NULL,
    PRIMARY KEY (item, system, row)) WITHOUT ROWID;
CREATE TABLE token_sums (
    system INTEGER PRIMARY KEY, items INTEGER NOT NULL, unscored INTEGER NOT NULL,
    tokens INTEGER NOT NULL, payload BLOB NOT NULL);
"""


def connect(file: Path) -> sqlite3.Connection:
    """A connection that begins and ends transactions only when told to."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def sql_names_of(columns: Sequence[str]) -> list[str]:
    """Column names go into SQL text: what is no plain identifier gets a number in its place.

    >>> sql_names_of(["tvd", "w1_M/lexical-1"])
    ['tvd', 'stat_1']
    """
    plain = [name.isidentifier() and name.isascii() for name in columns]
    return [
        name if ok else f"stat_{i}" for i, (name, ok) in enumerate(zip(columns, plain, strict=True))
    ]
