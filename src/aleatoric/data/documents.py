"""Documents: JSON lines with `text` (and perhaps `id`), or plain text cut as the user chooses.

A table is read as one where `--columns` names its columns; else as plain text. Parallel text is
two files, plain or gzip, one sentence per line; line N translates line N.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.columns import named_rows
from aleatoric.data.files import MAX_TEXT_CHARS, Place, Rows
from aleatoric.data.items import json_rows, new_id, require_items
from aleatoric.errors import DataError
from aleatoric.types import Cut, Document, LazyItems, ParallelText, SentencePair, TextCorpus

DOCUMENT_NAMES = {"text": "text", "id": "id"}
"""Names that `--columns` may use -> what the column holds."""


def load(
    source: Path, encoding: str = "utf-8", cut: Cut = "blank-lines", columns: str | None = None
) -> TextCorpus:
    """Documents of a file, read at every iteration; in plain text, ids number their first lines."""
    items = LazyItems(lambda: require_items(_read(source, encoding, cut, columns), source))
    name, sha256 = source.name.partition(".")[0], files.sha256_of(source)
    return TextCorpus(name, "own", sha256, "as its owner states", items)


def _read(source: Path, encoding: str, cut: Cut, columns: str | None) -> Iterator[Document]:
    if files.is_json_lines(source):
        return _read_rows(json_rows(source, encoding, columns, DOCUMENT_NAMES))
    if columns is not None:
        return _read_rows(named_rows(source, encoding, columns, DOCUMENT_NAMES))
    return _read_plain(source, encoding, cut)


def _read_rows(rows: Rows) -> Iterator[Document]:
    lines: dict[str, int] = {}
    for place, row in rows:
        text = files.text_of(files.required(row, "text", place), "text", place)
        if not text.strip():
            raise DataError.at(*place, "the text is empty", "give it or leave the document out")
        yield Document(new_id(lines, row.get("id", place[1]), place), text)


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


def load_parallel(source: Path, target: Path, encoding: str = "utf-8") -> ParallelText:
    """Sentences with their translations, read at every iteration; ids are numbers of lines."""
    items = LazyItems(lambda: require_items(_read_pairs([source, target], encoding), source))
    name, sha256 = source.name.partition(".")[0], files.sha256_of_all([source, target])
    return ParallelText(name, "own", sha256, "as its owner states", items)


def _read_pairs(paths: list[Path], encoding: str) -> Iterator[SentencePair]:
    for left, right in files.read_aligned(paths, encoding):
        yield SentencePair(str(left[0][1]), _sentence(*left), _sentence(*right))


def _sentence(place: Place, line: str) -> str:
    sentence = files.text_of(line.strip(), "the sentence", place)
    if not sentence:
        raise DataError.at(*place, "the line is empty", "give its text, or drop it from both files")
    return sentence
