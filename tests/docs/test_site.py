"""The site builds without a warning, runs its tutorial, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import ROOT

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytest.importorskip("nbclient", reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: strictly, with the tutorial run on the way."""
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
def test_the_tutorial_was_run(site: Path) -> None:
    page = (site / "tutorial.html").read_text(encoding="utf-8")
    assert "<caption>Word level</caption>" in page  # results show as tables
    assert page.count('src="data:image/png;base64,') == 2  # and draw themselves
    assert "corpus:simulated#" in page
    assert "{'toy': 'a'," in page
    assert (site / "tutorial.ipynb").exists()


@pytest.mark.long
def test_the_reference_has_what_the_guides_name(site: Path) -> None:
    runs = (site / "api" / "runs.html").read_text(encoding="utf-8")
    for name in ("aleatoric.levels.base.run_job", "aleatoric.result_types.Result"):
        assert f'id="{name}"' in runs
    assert "# Whether it matters to live models only" in runs
    assert 'id="aleatoric.metrics.distances.tvd"' in (site / "api" / "metrics.html").read_text()


@pytest.mark.long
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe|link(?! rel=.?canonical))[^>]+https?://[^>]+>")
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text(encoding="utf-8")) == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", sheet.read_text(encoding="utf-8")), sheet.name


@pytest.mark.long
def test_tools_are_not_published(site: Path) -> None:
    assert not list(site.rglob("*.py"))
