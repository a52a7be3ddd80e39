"""What every part of a run stands on: transactions, saved facts, systems."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aleatoric.codec import DamagedRowError
from aleatoric.errors import UsageError

_FINISHED = "finished models"
COMPLETE = "complete"
"""The fact that all that was asked for is drawn and scored."""


class Tables:
    """The tables of an opened run.

    `place` is the database that statistics are written to: the run's own, or one that is gone
    with the connection, where the run is another's to write.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.db = connection
        self.place = "main"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; inside another transaction, a part of it."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            # SQLite ends a transaction itself where the disk is full.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def check_whole(self) -> None:
        """Refuse a database whose pages or keys do not fit together; it is read through once."""
        (found,) = self.db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise DamagedRowError(found)

    def read_apart(self) -> None:
        """Look at the run as it is now and write no more to it, however long others go on.

        What is computed from here on lies in tables that go with the connection and are found
        before the run's own.
        """
        if self.place == "temp":
            return
        self.place = "temp"
        self.db.execute("BEGIN")
        for table in ("meta", "systems"):
            (statement,) = self.db.execute(
                "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?", (table,)
            ).fetchone()
            self.db.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
            self.db.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    # Facts about the run -------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        """What was asked for: corpus, protocol, seed, versions."""
        found: dict[str, Any] = self.meta("manifest")
        return found

    def meta(self, key: str) -> Any:
        """A saved fact, or `None`."""
        found = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else json.loads(found[0])

    def set_meta(self, key: str, value: Any) -> None:
        """Save a fact under a key."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def unfinished(self, specs: Iterable[str]) -> list[str]:
        """The models, as a user names them, that have not done all that was asked of them."""
        finished = self.meta(_FINISHED) or []
        return [spec for spec in specs if spec not in finished]

    def set_finished(self, spec: str) -> None:
        """A model has done all that was asked of it, and need not be loaded again."""
        self.set_meta(_FINISHED, [*(self.meta(_FINISHED) or []), spec])

    # Systems -------------------------------------------------------------------------------

    def add_system(self, name: str, facts: Mapping[str, Any]) -> int:
        """Register a system under its name, once; returns its number."""
        insert = "INSERT OR IGNORE INTO systems (name, facts) VALUES (?, ?)"
        self.db.execute(insert, (name, json.dumps(dict(facts))))
        return self.system_no(name)

    def systems(self) -> dict[str, dict[str, Any]]:
        """System name -> its facts, in the order of registration."""
        rows = self.db.execute("SELECT name, facts FROM systems ORDER BY no")
        return {name: json.loads(facts) for name, facts in rows}

    def system_no(self, name: str) -> int:
        """The number of a system in the run; an unknown one is refused."""
        found = self.db.execute("SELECT no FROM systems WHERE name = ?", (name,)).fetchone()
        if found is None:
            known = ", ".join(self.systems()) or "none"
            raise UsageError(f"{self.path}: has no system {name!r}; it has: {known}.")
        return int(found[0])
