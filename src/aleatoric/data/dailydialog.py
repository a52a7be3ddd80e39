"""DailyDialog++ (Sai et al. 2020): dialogues, each with the next turns that five people wrote.

Read as the publishers' JSON lines (`context`, a list of turns, and `positive_responses`; negative
responses are left out) or as JSON lines with `input` and `references`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import multi_reference, read_references
from aleatoric.types import MultiRef, TextItem


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read the dialogues in either of the two forms."""

    def read() -> Iterator[TextItem]:
        _, first = next(files.read_json_lines(source, encoding), (None, {}))
        published = "positive_responses" in first or "context" in first
        names = ("context", "positive_responses") if published else ("input", "references")
        return read_references(source, encoding, None, *names)

    version = source.name.partition(".")[0]
    return multi_reference(read, [source], "dailydialog++", version, "none stated")
