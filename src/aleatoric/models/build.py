"""Directories that are made once: downloaded and converted models."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from aleatoric.models.checkpoints import check_source, record_source


def build_once(target: Path, build: Callable[[Path], None], source: str) -> Path:
    """`target`, filled by `build(directory)` on first use from what has the hash `source`.

    The directory is built beside its place and moved there whole, so that an interrupted or a
    concurrent build never leaves a half-filled one behind.
    """
    if target.is_dir():
        check_source(target, source)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
        fresh = Path(scratch) / target.name
        fresh.mkdir()
        build(fresh)
        record_source(fresh, source)
        _move_unless_there(fresh, target)
    return target


def _move_unless_there(fresh: Path, target: Path) -> None:
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():  # another process finishing first is fine
            shutil.move(str(fresh), str(target))
