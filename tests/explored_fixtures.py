"""Two runs and their explorer, for tests of its pages with and without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from explored_runs import explored, text_run, word_run

from aleatoric.reporting.explorer.server import Explorer


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A word-level run with three systems and hostile texts."""
    return word_run(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text-level run with hostile texts."""
    return text_run(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def explorer(words: Path, texts: Path) -> Iterator[Explorer]:
    """An explorer that serves both runs."""
    with explored(words, texts) as found:
        yield found
