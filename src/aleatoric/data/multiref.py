"""Users' own inputs, each with the texts of several people: JSON lines, plain or gzip.

A row is `input` (a text, or a list of turns) and `references` (a list of texts), and may have `id`,
`group`, `original` and `language` (a code such as `de`, the same in every row; English without).
"""

from __future__ import annotations

from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import language_of, multi_reference, read_references
from aleatoric.types import MultiRef


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Inputs and references of a file, read at every iteration.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.jsonl")
    ...     _ = path.write_text('{"id": 1, "input": "Hi!", "references": ["Hello.", "Hey."]}')
    ...     list(load(path).items)
    [TextItem(id='1', group='1', input=('Hi!',), references=('Hello.', 'Hey.'), original=None)]
    """
    place, row = next(files.read_json_lines(source, encoding), ((source, 0), {}))
    language, name = language_of(row, place), source.name.partition(".")[0]
    return multi_reference(
        lambda: read_references(source, encoding, language),
        [source],
        name,
        "own",
        "as its owner states",
        language,
    )
