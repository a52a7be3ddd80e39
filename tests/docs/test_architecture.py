"""The architecture page matches the source tree."""

from __future__ import annotations

import re
from pathlib import Path

from doc_pages import ROOT

PACKAGE = ROOT / "src" / "aleatoric"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def _listed_packages() -> list[str]:
    table = PAGE.partition("## Subpackages")[2].partition("## Six stages")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_architecture_page_lists_every_package() -> None:
    hidden = ("__init__.py", "__main__.py", "py.typed")
    tree = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in PACKAGE.iterdir()
        if path.name not in hidden and path.name != "__pycache__"
    }
    assert set(_listed_packages()) == tree


def test_every_listed_file_exists() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_]+\.py)`", PAGE)
    assert named
    assert [name for name in named if not (PACKAGE / name).exists()] == []


def test_packages_are_listed_in_layer_order() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = text.partition("layers = [")[2].partition("]")[0]
    rank = {
        name: place
        for place, line in enumerate(layers.strip().splitlines())
        for name in re.findall(r"aleatoric\.(\w+)", line)
    }
    ranks = [rank[Path(room).stem] for room in _listed_packages()]
    assert ranks == sorted(ranks, reverse=True)
