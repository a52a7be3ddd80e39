"""Fixtures for the tests of models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faulty_server import FaultyServer, serving


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with serving() as faulty:
        yield faulty


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ALEATORIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
