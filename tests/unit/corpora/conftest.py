"""Where the shared data lie; tests that need them are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_provo() -> Path:
    root = Path(__file__).resolve().parents[3]
    folder = Path(os.environ.get("ALEATORIC_SHARED") or root.parent / "shared")
    path = folder / "data" / "provo" / "provo_cloze.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"the shared data are not at {folder}; set ALEATORIC_SHARED")
    return path
