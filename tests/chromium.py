"""Fixture: a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


# Playwright keeps an event loop running while it is open: no longer than the tests that need it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; skipped if it or its driver is not installed."""
    program = os.environ.get("ALEATORIC_CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed; install it or set ALEATORIC_CHROMIUM")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"], timeout=60_000
        )
        yield opened
        opened.close()
