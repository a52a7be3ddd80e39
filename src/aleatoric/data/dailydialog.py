"""DailyDialog++ (Sai et al. 2020): dialogues and five people's next turns to each.

Read as the publishers' JSON lines (`context`, a list of turns, and `positive_responses`; negative
responses are left out) or as JSON lines with `input` and `references`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import Gaps, Names, checked, read_json_lines
from aleatoric.types import MultiRef, TextItem

LICENCE = "none stated"


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read the dialogues, whichever of the two forms they have."""
    gaps = Gaps()
    items = checked(lambda: _read(source, encoding), gaps, source)
    version, sha256 = source.name.partition(".")[0], files.sha256_of(source)
    return MultiRef("dailydialog++", version, sha256, LICENCE, items, gaps, "en")


def is_published(row: object) -> bool:
    """Whether a row has the publishers' names.

    >>> is_published({"context": ["Hi."], "positive_responses": ["Hello."]})
    True
    """
    return isinstance(row, dict) and ("positive_responses" in row or "context" in row)


def _read(source: Path, encoding: str) -> Iterator[TextItem]:
    _, first = next(files.read_json_lines(source, encoding), (None, None))
    if is_published(first):
        return read_json_lines(source, encoding, Names("context", "positive_responses"))
    return read_json_lines(source, encoding)
