"""What the wheel holds: every file that is no module is named in `pyproject.toml`, and is small."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "aleatoric"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GLOBS = SETTINGS["tool"]["setuptools"]["package-data"]["aleatoric"]


def test_every_data_file_is_in_the_wheel_and_every_pattern_finds_one() -> None:
    found = {glob: set(PACKAGE.glob(glob)) for glob in GLOBS}
    assert all(found.values()), found
    files = {path for path in PACKAGE.rglob("*") if path.is_file()}
    data = {path for path in files if path.suffix not in (".py", ".pyc", ".nbc", ".nbi")}
    assert data == set().union(*found.values())


def test_no_data_file_is_large() -> None:
    sizes = {path.name: path.stat().st_size for glob in GLOBS for path in PACKAGE.glob(glob)}
    assert max(sizes.values()) < 200_000, sizes
