"""Fixtures: a real browser, example runs, and a folder for screenshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import browser
from explored_fixtures import explorer, texts, words

__all__ = ["browser", "explorer", "texts", "words"]
ARTEFACTS = Path(__file__).parent / "artefacts"
NARROW = {"width": 390, "height": 800}
WIDE = {"width": 1280, "height": 900}


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a URL in a new window; any console error fails the test."""
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
    """Save a screenshot to $ALEATORIC_SCREENSHOTS, or next to these tests."""
    folder = Path(os.environ.get("ALEATORIC_SCREENSHOTS", ARTEFACTS))
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Any, name: str, whole: bool = False) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=whole)
        assert (folder / f"{name}.png").stat().st_size > 1000

    return take
