"""Files of word vectors: word2vec's text and binary forms, and GloVe's text, plain or gzip."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from aleatoric import files
from aleatoric.errors import DataError
from aleatoric.showing import quoted

Table = dict[str, NDArray[np.float32]]


def read_vectors(path: Path) -> Table:
    """Every word of a file with its vector; of a word given twice the first counts."""
    if not os.path.isfile(path):
        raise DataError.at(path, None, "is no file", "give a word2vec or GloVe file")
    try:
        with files.open_binary(path) as file:
            table = _read_binary(file, path) if _is_binary(path) else _read_text(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError.at(path, None, f"cannot be read ({error})", "get the file again") from None
    if not table:
        raise DataError.at(path, None, "holds no vector", "give a word2vec or GloVe file")
    return table


def _is_binary(path: Path) -> bool:
    return ".bin" in path.suffixes


def _read_text(path: Path) -> Table:
    """A word and its numbers a line; word2vec's first line, a count and a size, is skipped."""
    table: Table = {}
    size: int | None = None
    for (_, line), text in files.read_lines(path):
        parts = text.rstrip("\r\n ").split(" ")
        if line == 1 and len(parts) == 2 and all(_is_count(part) for part in parts):
            size = int(parts[1])
            continue
        if parts == [""]:
            continue
        size = size or len(parts) - 1
        # GloVe's largest files have words with spaces in them: the vector is what ends the line.
        word = " ".join(parts[:-size])
        if not word or len(parts) <= size:
            found = f"has {len(parts) - 1} numbers after its word, not {size}"
            raise DataError.at(path, line, found, "give every word the same number of them")
        table.setdefault(word, _numbers(parts[-size:], path, line))
    return table


def _numbers(parts: list[str], path: Path, line: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what overflows is infinite, and refused below
            vector = np.array(parts, dtype=np.float32)
    except ValueError:
        bad = next(part for part in parts if not _is_number(part))
        problem = f"{quoted(bad, 40)} is no number"
        raise DataError.at(path, line, problem, "write a word and its numbers a line") from None
    if not len(vector) or not np.isfinite(vector).all():
        raise DataError.at(path, line, "holds no finite vector", "leave such a word out")
    return vector


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 12


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_binary(file: IO[bytes], path: Path) -> Table:
    """word2vec's binary form: a line with count and size, then word, space, float32s."""
    header = file.readline(100).split()
    if len(header) != 2 or not all(part.isdigit() for part in header):
        fix = "give word2vec's binary form, or name a text file .txt"
        raise DataError.at(path, 1, "does not begin with a count and a size", fix)
    count, size = (int(part) for part in header)
    if not 0 < size <= 100_000:
        raise DataError.at(path, 1, f"a vector of {size} numbers is not usable", "check the file")
    return dict(_binary_entries(file, path, count, size))


def _binary_entries(
    file: IO[bytes], path: Path, count: int, size: int
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for number in range(1, count + 1):
        word = _binary_word(file)
        raw = file.read(4 * size)
        if word is None or len(raw) < 4 * size:
            problem = f"ends within vector {number} of {count}"
            raise DataError.at(path, None, problem, "get the whole file")
        vector = np.frombuffer(raw, dtype="<f4")
        if np.isfinite(vector).all():
            yield word, vector


def _binary_word(file: IO[bytes]) -> str | None:
    """The bytes up to a space; `None` at the end of the file. A newline may lead."""
    letters = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(letters) > 10_000:
            return None
        letters += byte
    return letters.decode("utf-8", errors="replace").lstrip("\n")
