"""Where downloads are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The folder for downloads: `$ALEATORIC_CACHE`, or `aleatoric` in the user's cache."""
    chosen = os.environ.get("ALEATORIC_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aleatoric"
