"""Contents of the wheel: every data file is listed in `pyproject.toml` and small."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "aleatoric"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GLOBS = SETTINGS["tool"]["setuptools"]["package-data"]["aleatoric"]


def test_package_data_patterns_match_data_files() -> None:
    found = {glob: set(PACKAGE.glob(glob)) for glob in GLOBS}
    assert all(found.values()), found
    files = {path for path in PACKAGE.rglob("*") if path.is_file()}
    data = {path for path in files if path.suffix not in (".py", ".pyc", ".nbc", ".nbi")}
    assert data == set().union(*found.values())


def test_data_files_are_small() -> None:
    sizes = {path.name: path.stat().st_size for glob in GLOBS for path in PACKAGE.glob(glob)}
    assert max(sizes.values()) < 200_000, sizes
