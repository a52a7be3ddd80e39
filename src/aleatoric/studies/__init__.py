"""The papers' studies, one file each: cases in, a `Study` (tables and figure data) out."""

import tomllib
from importlib import resources
from typing import Any

TEXTS: dict[str, Any] = tomllib.loads(
    (resources.files(__name__) / "texts.toml").read_text(encoding="utf-8")
)
"""Notes below tables, and what the papers print."""


def notes_on(table: str, **facts: object) -> tuple[str, ...]:
    """Return the notes below a table, with facts filled in."""
    return tuple(note.format(**facts) for note in TEXTS["notes"][table])
