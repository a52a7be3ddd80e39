"""Anybody's own inputs with several people's texts: JSON lines, plain or gzip.

A row is `input` (a text, or a list of turns) and `references` (a list of texts), and may have `id`,
`group`, `original` and `language` (a code such as `de`, the same in every row; English without).
"""

from __future__ import annotations

from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import Gaps, checked, language_of, read_json_lines
from aleatoric.types import MultiRef


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Inputs and references of a file, read at every walk.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.jsonl")
    ...     _ = path.write_text('{"id": 1, "input": "Hi!", "references": ["Hello.", "Hey."]}')
    ...     list(load(path).items)
    [TextItem(id='1', group='1', input=('Hi!',), references=('Hello.', 'Hey.'), original=None)]
    """
    gaps, language = Gaps(), _language(source, encoding)
    items = checked(lambda: read_json_lines(source, encoding, language=language), gaps, source)
    name, sha256 = source.name.partition(".")[0], files.sha256_of(source)
    return MultiRef(name, "own", sha256, "as its owner states", items, gaps, language)


def _language(source: Path, encoding: str) -> str:
    place, row = next(files.read_json_lines(source, encoding), ((source, 0), {}))
    return language_of(row, place)
