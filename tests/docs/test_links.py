"""Every relative link in the documentation resolves. (The site build checks its own pages.)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import ROOT, anchors, links, our_pages

MADE = (ROOT / "docs" / "api", ROOT / "docs" / "tutorial.md")
"""Pages that the site's build makes; it checks the links to them."""


def problem_of(page: Path, link: str) -> str | None:
    """The problem with a link, or None."""
    if "://" in link or link.startswith("mailto:"):
        return None
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if any(target == made or made in target.parents for made in MADE):
        return None
    if not target.exists():
        return f"{link}: there is no such file"
    if anchor and anchor not in anchors(target):
        return f"{link}: there is no such heading"
    return None


@pytest.mark.parametrize("page", our_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    assert [problem for link in links(page) if (problem := problem_of(page, link))] == []


@pytest.mark.parametrize("page", our_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_named_source_files_exist(page: Path) -> None:
    named = set(re.findall(r"`(\w+/\w+\.py)`", page.read_text(encoding="utf-8")))
    roots = (ROOT, ROOT / "src" / "aleatoric")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_broken_link_is_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](gone.md) [d](page.md#one) `[e](gone.md)`\n")
    found = [problem_of(page, link) for link in links(page)]
    assert [bool(problem) for problem in found] == [False, True, True, False]
