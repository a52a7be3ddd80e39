"""Documents: JSON lines with `text` (and perhaps `id`), or plain text cut as the user chooses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import MAX_TEXT_CHARS, Place
from aleatoric.data.items import LazyItems, add_id
from aleatoric.errors import DataError
from aleatoric.types import Cut, Document, TextCorpus


def load(source: Path, encoding: str = "utf-8", cut: Cut = "blank-lines") -> TextCorpus:
    """Documents of a file, plain or gzip, read at every iteration; JSON lines by the file's name.

    In plain text a document's id is the number of its first line.
    """

    def read() -> Iterator[Document]:
        if files.is_json_lines(source):
            return _read_json_lines(source, encoding)
        return _read_plain(source, encoding, cut)

    name, items = source.name.partition(".")[0], LazyItems(read, source)
    return TextCorpus(name, "own", files.sha256_of(source), "as its owner states", items)


def _read_json_lines(source: Path, encoding: str) -> Iterator[Document]:
    lines: dict[str, int] = {}
    for place, row in files.read_json_lines(source, encoding):
        text = files.text_of(files.required(row, "text", place), "text", place)
        if not text.strip():
            raise DataError.at(*place, "the text is empty", "give it or leave the document out")
        document_id = files.key_of(row.get("id", place[1]), "id", place)
        add_id(lines, document_id, place)
        yield Document(document_id, text)


def _read_plain(source: Path, encoding: str, cut: Cut) -> Iterator[Document]:
    lines: list[str] = []
    first, length = (source, 0), 0
    for place, line in files.read_lines(source, encoding):
        if lines and (cut == "lines" or (cut == "blank-lines" and not line.strip())):
            yield _document(lines, first)
            lines, length = [], 0
        if not lines and not line.strip():  # blank lines before a document are no part of it
            continue
        first = first if lines else place
        length += len(line)
        if length > MAX_TEXT_CHARS:
            problem = f"the document has over {MAX_TEXT_CHARS} characters"
            raise DataError.at(*first, problem, "cut it into several with blank lines")
        lines.append(line)
    if lines:
        yield _document(lines, first)


def _document(lines: list[str], first: Place) -> Document:
    return Document(str(first[1]), "".join(lines).strip("\r\n"))
