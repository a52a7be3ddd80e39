"""Users' own inputs, each with the texts of several people: JSON lines, plain or gzip.

A row is `input` (a text, or a list of turns) and `references` (a list of texts), and may have `id`,
`group`, `original` and `language` (a code such as `de`, the same in every row; English without).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import language_of, multi_reference, read_references
from aleatoric.types import MultiRef


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Inputs and references of a file, read at every iteration."""
    place, row = next(files.read_json_lines(source, encoding), ((source, 0), {}))
    language, name = language_of(row, place), source.name.partition(".")[0]
    read = partial(read_references, source, encoding, language)
    return multi_reference(read, [source], name, "own", "as its owner states", language)
