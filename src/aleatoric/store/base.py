"""What every part of a run stands on: transactions, saved facts, systems."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aleatoric import codec
from aleatoric.codec import DamagedRowError
from aleatoric.errors import UsageError
from aleatoric.store.schema import ITEMS_SAVED, META, SYSTEMS, temporary
from aleatoric.store.shapes import check_fact, check_system

_FINISHED = "finished models"
COMPLETE = "complete"
"""The fact that all that was asked for is drawn and scored."""
FINETUNING = "finetuning"
"""The fact under which a fine-tuning run keeps its perplexities, curves and temperatures."""
BASE_WEIGHTS = "base weights"
"""The fact that tells the weights of the model that a fine-tuning run began with."""
TRAINING = "training"
"""The folder of weights and checkpoints in the directory of a fine-tuning run."""
_STRAYED = (
    "SELECT 1 FROM draws WHERE item < 1 UNION ALL SELECT 1 FROM draws WHERE item > "
    "max(?, (SELECT coalesce(max(no), 0) FROM items)) UNION ALL SELECT 1 FROM draws "
    "WHERE system NOT IN (SELECT no FROM systems) LIMIT 1"
)


def load_fact(row: codec.RowOf) -> Any:
    """A saved fact from its key and value; one of another shape than ours is damage."""
    key, text = codec.unseal(row)
    value = codec.load_facts(text)
    check_fact(key, value)
    return value


def dump_fact(key: str, value: Any) -> codec.RowOf:
    """A fact to be saved, as its key and value."""
    return codec.seal((key, json.dumps(value)))


class Tables:
    """The tables of an opened run.

    `place` is the database that statistics are written to: the run's own (`main`), or one that
    disappears with the connection (`temp`) where another process writes the run.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.db = connection
        self.place = "main"
        self._manifest: dict[str, Any] | None = None
        self._systems: tuple[Any, dict[str, dict[str, Any]]] | None = None

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
        """Refuse a database that is not as it was written; it is read through once."""
        (found,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise DamagedRowError(found)
        # Rows are checked as they are read; facts, systems and answers under another key than
        # they were saved under would not be.
        self.systems()
        for row in self.db.execute("SELECT key, value FROM meta"):
            load_fact(row)
        if self.db.execute(_STRAYED, (self.meta(ITEMS_SAVED) or 0,)).fetchone():
            raise DamagedRowError("answers to no item, or of no system")

    def read_apart(self) -> None:
        """Look at the run as it is now and write no more to it, however long others go on.

        What is computed from here on lies in tables that go with the connection and are found
        before the run's own.
        """
        if self.place == "temp":
            return
        self.place = "temp"
        self.db.execute("BEGIN")
        for table, statement in (("meta", META), ("systems", SYSTEMS)):
            self.db.execute(temporary(statement))
            self.db.execute(f"INSERT INTO temp.{table} SELECT * FROM main.{table}")

    # Facts about the run -------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        """What was asked for: corpus, protocol, seed, versions."""
        if self._manifest is None:  # it never changes, and is asked for once per system
            self._manifest = self.fact("manifest")
        found: dict[str, Any] = self._manifest
        return found

    def meta(self, key: str) -> Any:
        """A saved fact, or `None`."""
        found = self.db.execute("SELECT key, value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else load_fact(found)

    def fact(self, key: str) -> Any:
        """A saved fact that must be there."""
        found = self.meta(key)
        if found is None:
            raise DamagedRowError(f"the fact {key!r} is missing")
        return found

    def set_meta(self, key: str, value: Any) -> None:
        """Save a fact under a key."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", dump_fact(key, value))

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
        if self.db.execute("SELECT 1 FROM systems WHERE name = ?", (name,)).fetchone() is None:
            (last,) = self.db.execute("SELECT coalesce(max(no), 0) FROM systems").fetchone()
            row = codec.seal((last + 1, name, json.dumps(dict(facts))))
            self.db.execute("INSERT INTO systems (no, name, facts) VALUES (?, ?, ?)", row)
            self._systems = None
        return self.system_no(name)

    def systems(self) -> dict[str, dict[str, Any]]:
        """System name -> its facts, in the order of registration."""
        state = self.db.execute("PRAGMA data_version").fetchone()
        if self._systems is None or self._systems[0] != state:
            rows = self.db.execute("SELECT no, name, facts FROM systems ORDER BY no")
            opened = map(codec.unseal, rows)
            loaded = codec.Facts((name, codec.load_facts(text)) for _, name, text in opened)
            for name, facts in loaded.items():
                check_system(name, facts)
            self._systems = state, loaded
        return self._systems[1]

    def system_names(self) -> dict[int, str]:
        """The name of every system by its number."""
        return codec.Facts(self.db.execute("SELECT no, name FROM systems"))

    def system_no(self, name: str) -> int:
        """The number of a system in the run; an unknown one is refused."""
        found = self.db.execute("SELECT no FROM systems WHERE name = ?", (name,)).fetchone()
        if found is None:
            known = ", ".join(self.systems()) or "none"
            raise UsageError(f"{self.path}: has no system {name!r}; it has: {known}.")
        return int(found[0])
