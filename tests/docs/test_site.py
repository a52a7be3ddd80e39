"""The documentation site builds without warnings, runs its tutorial, and is self-contained."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chromium import browser
from doc_pages import ROOT

__all__ = ["browser"]

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytest.importorskip("nbclient", reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as by `make docs`: strict, with the tutorial executed."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    built = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=300
    )
    assert built.returncode == 0, built.stderr[-3000:]
    assert "WARNING" not in built.stderr
    return folder


@pytest.mark.long
def test_tutorial_was_executed(site: Path) -> None:
    page = (site / "tutorial.html").read_text(encoding="utf-8")
    assert "<caption>Word level</caption>" in page  # results show as tables
    assert page.count('src="data:image/png;base64,') == 2  # and draw themselves
    assert "corpus:simulated#" in page
    assert "{'toy': 'a'," in page
    assert (site / "tutorial.ipynb").exists()


@pytest.mark.long
def test_names_in_guides_are_in_reference(site: Path) -> None:
    runs = (site / "api" / "runs.html").read_text(encoding="utf-8")
    for name in ("aleatoric.levels.base.run_job", "aleatoric.result_types.Result"):
        assert f'id="{name}"' in runs
    assert "# Whether it matters to live models only" in runs
    assert 'id="aleatoric.metrics.distances.tvd"' in (site / "api" / "metrics.html").read_text()


@pytest.mark.long
def test_site_loads_no_external_resources(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe|link(?! rel=.?canonical))[^>]+https?://[^>]+>")
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text(encoding="utf-8")) == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", sheet.read_text(encoding="utf-8")), sheet.name


@pytest.mark.long
def test_python_files_are_not_published(site: Path) -> None:
    assert not list(site.rglob("*.py"))


@pytest.mark.long
def test_search_box_works_without_a_server(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "how-to" / "own-data.html").as_uri())
    page.click("[data-md-component=search-query]")
    page.keyboard.type("bootstrap")
    page.wait_for_selector(".md-search-result__item")
    titles = page.locator(".md-search-result__item h1").all_inner_texts()
    page.close()
    assert any("Intervals" in title for title in titles)
