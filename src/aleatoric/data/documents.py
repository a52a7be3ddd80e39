"""Documents: JSON lines with `text` (and perhaps `id`), or plain text cut as the user says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from aleatoric.data import files
from aleatoric.data.files import MAX_TEXT_CHARS, Place
from aleatoric.data.items import LazyItems, UniqueIds
from aleatoric.errors import DataError
from aleatoric.types import Document, TextCorpus

Cut = Literal["blank-lines", "lines", "file"]
"""What a document is in plain text: what stands between blank lines, a line, or the whole file."""


def load(source: Path, encoding: str = "utf-8", cut: Cut = "blank-lines") -> TextCorpus:
    """Documents of a file, plain or gzip, read at every walk; JSON lines by the file's name.

    In plain text a document's id is the number of its first line.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.txt")
    ...     _ = path.write_text("One.\\nTwo.\\n\\nThree.\\n")
    ...     [(one.id, one.text) for one in load(path).items]
    [('1', 'One.\\nTwo.'), ('4', 'Three.')]
    """
    walk = _walk(source, encoding, cut)
    name = source.name.partition(".")[0]
    items = LazyItems(walk, source)
    return TextCorpus(name, "own", files.sha256_of(source), "as its owner states", items)


def _walk(source: Path, encoding: str, cut: Cut) -> Callable[[], Iterator[Document]]:
    if source.name.lower().removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson")):
        return lambda: _read_json_lines(source, encoding)
    return lambda: _read_plain(source, encoding, cut)


def _read_json_lines(source: Path, encoding: str) -> Iterator[Document]:
    ids = UniqueIds()
    for place, row in files.read_json_lines(source, encoding):
        text = files.text_of(files.required(row, "text", place), "text", place)
        if not text.strip():
            raise DataError.at(*place, "the text is empty", "give it or leave the document out")
        document_id = files.key_of(row.get("id", place[1]), "id", place)
        ids.add(document_id, place)
        yield Document(document_id, text)


def _read_plain(source: Path, encoding: str, cut: Cut) -> Iterator[Document]:
    gathered = _Gathered()
    for place, line in files.read_lines(source, encoding):
        if cut == "lines" or (cut == "blank-lines" and not line.strip()):
            yield from gathered.close()
        gathered.add(line, place)
    yield from gathered.close()


class _Gathered:
    """The lines of the document that is being read."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._first: Place | None = None
        self._length = 0

    def add(self, line: str, place: Place) -> None:
        """One more line; blank ones before the first are no part of the document."""
        if self._first is None and not line.strip():
            return
        self._first = self._first or place
        self._length += len(line)
        if self._length > MAX_TEXT_CHARS:
            problem = f"the document has over {MAX_TEXT_CHARS} characters"
            raise DataError.at(*self._first, problem, "cut it into several with blank lines")
        self._lines.append(line)

    def close(self) -> Iterator[Document]:
        """The document, where there is one, and a fresh start."""
        if self._first is not None:
            yield Document(str(self._first[1]), "".join(self._lines).strip("\r\n"))
        self._lines, self._first, self._length = [], None, 0
