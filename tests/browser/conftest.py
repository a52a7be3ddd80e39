"""A real browser, runs to look at, and a folder for screenshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explored_fixtures import explorer, texts, words

__all__ = ["explorer", "texts", "words"]
ARTEFACTS = Path(__file__).parent / "artefacts"
NARROW = {"width": 390, "height": 800}
WIDE = {"width": 1280, "height": 900}


# Playwright keeps an event loop running while it is open: no longer than the tests that need it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; skipped where it or its driver is not installed."""
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


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address in a fresh window; anything that the console complains of fails the test."""
    contexts, complaints = [], []

    def watch(page: Any) -> None:
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: m.type in ("error", "warning") and complaints.append(m.text))

    def open_page(address: str, theme: str = "light", size: dict[str, int] = WIDE) -> Any:
        context = browser.new_context(viewport=size, color_scheme=theme, accept_downloads=True)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture(scope="session")
def keep() -> Callable[..., None]:
    """Keep a picture of a page: in $ALEATORIC_SCREENSHOTS, or beside these tests."""
    folder = Path(os.environ.get("ALEATORIC_SCREENSHOTS", ARTEFACTS))
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Any, name: str, whole: bool = False) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=whole)
        assert (folder / f"{name}.png").stat().st_size > 1000

    return take
