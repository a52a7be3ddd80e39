"""Statements of a run's database that a signal or their limit ends."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aleatoric.errors import DataError
from aleatoric.runs import disk

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 9"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(disk.connect_to_write(tmp_path / "run.sqlite")) as opened:
        yield opened


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send a signal during the next statement, which has no limit."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "MOST_STEPS", 1 << 60)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("query", [ENDLESS, ROWS], ids=["first row", "later rows"])
@pytest.mark.usefixtures("alarm")
def test_signal_during_a_statement_is_no_damage(query: str, connection: sqlite3.Connection) -> None:
    with pytest.raises(KeyboardInterrupt), disk.reporting_faults(Path("run")):
        list(connection.execute(query))
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.usefixtures("alarm")
def test_signal_rolls_a_transaction_back(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE numbers (n)")
    connection.execute("BEGIN")
    with pytest.raises(KeyboardInterrupt):
        connection.execute(f"INSERT INTO numbers {ENDLESS}")
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (0,)


def test_statement_beyond_its_limit_is_damage(connection: sqlite3.Connection) -> None:
    with pytest.raises(DataError, match="is damaged"), disk.reporting_faults(Path("run")):
        connection.execute(ENDLESS)
