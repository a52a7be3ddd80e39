"""Reading other people's files: JSON lines and tables, plain or gzip, with errors that name a line.

Nothing here guesses: a byte that is not in the declared encoding, a line longer than the limit or a
JSON value that is not an object is refused with its place and the fix.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from aleatoric.errors import DataError, UsageError, quoted

MAX_LINE_BYTES = 4 * 2**20
MAX_TEXT_CHARS = 1_000_000
MAX_RESPONSES = 1_000_000
MAX_GZIP_RATIO = 200
"""Texts shrink to a fifth, tables of numbers to a twentieth: what unpacks to more is a bomb."""
_PIECE = 1 << 16
MIN_GZIP_LIMIT = 4 * 2**20
"""Up to so many unpacked bytes nobody asks how small they were."""

Place = tuple[Path, int]


class Inflater:
    """Undo the Content-Encoding of a reply in pieces of bounded size; the caller counts them.

    >>> b"".join(Inflater("gzip").pieces(gzip.compress(b"words")))
    b'words'
    """

    def __init__(self, encoding: str) -> None:
        names = [name.strip().lower() for name in encoding.split(",")]
        packed = [name for name in names if name not in ("", "identity")]
        # Each further layer would multiply how much a small reply unpacks to.
        if packed not in ([], ["gzip"], ["x-gzip"]):
            raise ValueError(f"Content-Encoding {quoted(encoding)} is not supported; send gzip")
        self.is_packed = bool(packed)
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What the next bytes of a reply unpack to; `zlib.error` where they are damaged."""
        if not self.is_packed:
            yield data
            return
        while data:
            if self._unpacker.eof:
                self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            yield self._unpacker.decompress(data, _PIECE)
            data = self._unpacker.unconsumed_tail or self._unpacker.unused_data

    def check_end(self) -> None:
        """Refuse a packed reply that was cut off."""
        if self.is_packed and not self._unpacker.eof:
            raise zlib.error("the packed data are cut off")


def read_json_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[Place, dict[str, Any]]]:
    """Each object of a JSON-lines file (gzip by its first bytes) with its place."""
    for place, text in read_lines(path, encoding):
        if text.strip():
            yield place, _parse_object(text, place)


def read_table(path: Path, encoding: str = "utf-8") -> Iterator[tuple[Place, dict[str, str]]]:
    """Each row of a CSV or TSV file with a header line, as column -> text, with its place."""
    lines = _NumberedLines(path, encoding)
    head = next((line for line in lines if line.strip()), None)
    if head is None:
        raise DataError.at(path, None, "the file is empty", "it needs a header line and rows")
    delimiter = "\t" if head.count("\t") > head.count(",") else ","
    # Strict: a quote that is never closed must not swallow the rows after it.
    rows = csv.reader(chain([head], lines), delimiter=delimiter, strict=True)
    columns = _columns(_next_row(rows, lines) or [], (path, lines.number))
    place = (path, lines.number + 1)
    while (row := _next_row(rows, lines)) is not None:
        if any(cell.strip() for cell in row):
            yield place, _named_cells(columns, row, place)
        place = (path, lines.number + 1)


def _next_row(rows: Iterator[list[str]], lines: _NumberedLines) -> list[str] | None:
    try:
        return next(rows, None)
    except csv.Error as error:
        problem = f"not CSV ({str(error).partition(' - ')[0]})"
        fix = "close the quotes of the field and double those inside it"
        if "field limit" in problem:
            fix += f", and keep it to {csv.field_size_limit()} characters"
        raise DataError.at(lines.path, lines.number, problem, fix) from None


def _columns(head: list[str], place: Place) -> list[str]:
    columns = [name.strip() for name in head]
    twice = _first_twice(columns)
    if twice is not None:
        problem = f"the column name {quoted(twice, 40)} stands twice"
        raise DataError.at(*place, problem, "give every column its own name")
    return columns


def _named_cells(columns: list[str], row: list[str], place: Place) -> dict[str, str]:
    if len(row) != len(columns):
        problem = f"{len(row)} fields where the header has {len(columns)}"
        raise DataError.at(*place, problem, "quote fields that hold the delimiter")
    return dict(zip(columns, row, strict=True))


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[Place, str]]:
    """Each line of a text file with its place, decoded strictly and bounded in length."""
    _check_encoding(path, encoding)
    with _open_lines(path) as file:
        number = 0
        while True:
            number += 1
            place = (path, number)
            raw = _read_line(file, place)
            if not raw:
                return
            yield place, _decode(raw, encoding, place)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place to write a file that takes the name `path` when it is whole, or goes.

    A link keeps its place, and the file that it names is replaced; pipes and devices are refused.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not a regular file; choose another name.")
    unfinished = path.with_name(path.name + ".part")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        with suppress(OSError):  # a name that no file can have
            unfinished.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, as lower-case hex."""
    with _open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_table(path: Path) -> bool:
    """Whether a file's name says CSV or TSV, gzip or not.

    >>> is_table(Path("norms.csv")), is_table(Path("norms.jsonl.gz"))
    (True, False)
    """
    name = path.name.lower().removesuffix(".gz")
    return name.endswith((".csv", ".tsv", ".txt"))


def required(row: Mapping[str, Any], key: str, place: Place) -> Any:
    """`row[key]`, or an error that lists what is there."""
    if key not in row:
        found = ", ".join(sorted(map(quoted, row))[:12]) or "nothing"
        raise DataError.at(*place, f"{key!r} is missing (found {found})", f"add {key!r}")
    return row[key]


def text_of(value: Any, name: str, place: Place) -> str:
    """A text of bounded length."""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise DataError.at(*place, f"{name} is {kind}, not text", f"write {name} as a string")
    if len(value) > MAX_TEXT_CHARS:
        problem = f"{name} has {len(value)} characters"
        raise DataError.at(*place, problem, f"shorten it to at most {MAX_TEXT_CHARS}")
    if "\0" in value:
        raise DataError.at(*place, f"{name} holds a NUL character", "remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        problem = f"{name} holds half a surrogate pair, which is no character"
        raise DataError.at(*place, problem, "export the text again as UTF-8") from None
    return value


def key_of(value: Any, name: str, place: Place) -> str:
    """An identifier: a non-empty text or a whole number, as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return text_of(value, name, place)
    fix = "use a non-empty text or a whole number"
    raise DataError.at(*place, f"{name} {quoted(value, 40)} is no identifier", fix)


def count_of(value: Any, name: str, place: Place, least: int = 1) -> int:
    """A whole number from `least` up; a float counts only if it is whole."""
    fix = f"use a whole number from {least} up"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError.at(*place, f"{name} {quoted(value, 40)} is no number", fix)
    if not math.isfinite(value) or value != int(value):
        raise DataError.at(*place, f"{name} {quoted(value, 40)} is not whole", fix)
    if value < least:
        raise DataError.at(*place, f"{name} {quoted(value, 40)} is too small", fix)
    if value > MAX_RESPONSES:
        raise DataError.at(
            *place, f"{name} {quoted(value, 40)} is over {MAX_RESPONSES}", "check it"
        )
    return int(value)


def counts_of(value: Any, name: str, place: Place) -> dict[str, int]:
    """A mapping of words to counts; a count of 0 says nothing and is left out."""
    if not isinstance(value, dict):
        fix = f'write {name} as an object such as {{"word": 3}}'
        raise DataError.at(*place, f"{name} is no object of counts", fix)
    text_of("".join(value), name, place)
    for word, count in value.items():
        # The plain case is tested here: a file may hold millions of counts.
        if type(count) is not int or not 0 < count <= MAX_RESPONSES:
            count_of(count, f"the count of {quoted(word, 40)}", place, least=0)
    return {word: int(count) for word, count in value.items() if count}


def texts_of(value: Any, name: str, place: Place) -> list[str]:
    """A list of texts of bounded number."""
    if not isinstance(value, list):
        raise DataError.at(*place, f"{name} is no list", f"write {name} as a list of texts")
    if len(value) > MAX_RESPONSES:
        raise DataError.at(*place, f"{name} has over {MAX_RESPONSES} entries", "split the item")
    return [text_of(entry, f"an entry of {name}", place) for entry in value]


def _first_twice(names: list[str]) -> str | None:
    """The first name that stands again: one look at each, for a line may hold 100,000 of them."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _parse_object(text: str, place: Place) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise DataError.at(*place, f"{constant} is no JSON number", "leave the value out")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = _first_twice([name for name, _ in pairs])
            raise DataError.at(*place, f"{quoted(twice, 40)} stands twice", "merge the two")
        return found

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        problem = f"not JSON ({error.msg} at column {error.colno})"
        raise DataError.at(*place, problem, "write one JSON object a line") from None
    except (RecursionError, ValueError):  # nesting, or an integer of thousands of digits
        problem = "this JSON is nested too deeply or holds a number too long"
        raise DataError.at(*place, problem, "write one flat JSON object a line") from None
    if not isinstance(value, dict):
        problem = f"a JSON {type(value).__name__}, not an object"
        raise DataError.at(*place, problem, 'write one object a line, such as {"context": ...}')
    return value


def _read_line(file: BinaryIO, place: Place) -> bytes:
    with _reading(place):
        raw = file.readline(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        problem = f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB"
        raise DataError.at(*place, problem, "put one item on a line")
    return raw


@contextmanager
def _reading(place: Place) -> Iterator[None]:
    """What goes wrong while bytes are read, as an error with its place."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error):
        problem = "the gzip data are cut off or damaged"
        raise DataError.at(*place, problem, "copy or download the file again") from None
    except OSError as error:
        raise DataError.at(*place, f"cannot be read ({error.strerror})", "check it") from None


def _check_encoding(path: Path, encoding: str) -> None:
    """Lines are cut before they are decoded, so a line end must be one byte."""
    try:
        cuts = b"a\n".decode(encoding) == "a\n"
    except UnicodeError:
        cuts = False
    except (LookupError, ValueError):  # ValueError: the name holds a NUL
        problem = f"there is no encoding {quoted(encoding, 40)}"
        raise DataError.at(path, None, problem, "try --encoding utf-8") from None
    if not cuts:
        problem = f"a file in {encoding} cannot be read line by line"
        raise DataError.at(path, None, problem, "save it as UTF-8")


def _decode(raw: bytes, encoding: str, place: Place) -> str:
    # A byte order mark may open a file that Windows wrote; it is no part of the text.
    raw = raw.removeprefix(b"\xef\xbb\xbf") if place[1] == 1 else raw
    fix = "save the file as UTF-8, or name its encoding with --encoding"
    try:
        text = raw.decode(encoding)
    except UnicodeError as error:
        column = getattr(error, "start", 0)
        problem = f"byte 0x{raw[column]:02x} at column {column + 1} is not {encoding}"
        raise DataError.at(*place, problem, fix) from None
    if "\0" in text:
        raise DataError.at(*place, f"a NUL byte stands at column {text.index(chr(0)) + 1}", fix)
    return text


@contextmanager
def open_binary(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a regular file, unpacked where it is gzip, and not out of all proportion."""
    with _open_plain(path) as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield io.BufferedReader(_Unpacked(unpacked, path))
        else:
            yield file


@contextmanager
def _open_lines(path: Path) -> Iterator[BinaryIO]:
    with open_binary(path) as file:
        yield _with_newlines(file, path)


def _with_newlines(file: io.BufferedReader, path: Path) -> io.BufferedReader:
    """The file itself, or with newlines for carriage returns where it has only those."""
    with _reading((path, 1)):
        head = file.peek(1)
    if b"\r" not in head[:-1] or b"\n" in head:
        return file
    return io.BufferedReader(_CarriageReturns(file))


class _Unpacked(io.RawIOBase):
    """What gzip unpacks, refused where it grows out of all proportion to the file."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self._file, self._path = file, path
        self._left = max(MIN_GZIP_LIMIT, MAX_GZIP_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            problem = f"the gzip data unpack to over {MAX_GZIP_RATIO} times their size"
            fix = "unpack them with gunzip and name that file, if they are what you expect"
            raise DataError.at(self._path, None, problem, fix)
        buffer[: len(data)] = data
        return len(data)


class _CarriageReturns(io.RawIOBase):
    """A file whose lines end as on old Macs, as spreadsheets there still write them."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(data)] = data
        return len(data)


def _open_plain(path: Path) -> io.BufferedReader:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            return open(path, "rb")
    except FileNotFoundError:
        raise DataError.at(path, None, "there is no such file", "check the path") from None
    except OSError as error:
        raise DataError.at(path, None, f"cannot be read ({error.strerror})", "check it") from None
    except ValueError:
        raise DataError.at(ascii(path), None, "is no path (it holds NUL)", "check it") from None
    if stat.S_ISDIR(mode):
        raise DataError.at(path, None, "this is a folder", "name a file in it")
    # A file is read more than once, which a pipe does not allow.
    raise DataError.at(path, None, "is no regular file", "save it to a file first")


class _NumberedLines(Iterator[str]):
    """Lines of a file for csv.reader, remembering the number of the last one given."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.path = path
        self._lines = read_lines(path, encoding)
        self.number = 0

    def __next__(self) -> str:
        (_, self.number), text = next(self._lines)
        return text


def cache_dir() -> Path:
    """The folder for downloads: `$ALEATORIC_CACHE`, or `aleatoric` in the user's cache."""
    chosen = os.environ.get("ALEATORIC_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aleatoric"
