"""Strict readers of users' files: lines and JSON lines, plain or gzip; errors name the line."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import itertools
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NoReturn

from aleatoric.errors import DataError, UsageError, did_you_mean, quoted

MAX_LINE_BYTES = 4 * 2**20
MAX_TEXT_CHARS = 1_000_000
MAX_RESPONSES = 1_000_000
MAX_GZIP_RATIO = 200
"""Texts shrink to a fifth, tables of numbers to a twentieth: more is a decompression bomb."""
MIN_GZIP_LIMIT = 4 * 2**20
"""Unpacked data up to this size are accepted at any ratio."""
_PIECE = 1 << 16
_ENDINGS = re.compile(r"(\.(jsonl|ndjson|json|csv|tsv|parquet|gz))+$", re.IGNORECASE)
UTF_16 = ("utf-16", "utf-16-le", "utf-16-be")
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Place = tuple[Path, int]
"""A file and the number of a line in it, counted from 1."""
Rows = Iterator[tuple[Place, dict[str, Any]]]
"""Rows of a file, each with its place: name -> value."""


class Inflater:
    """Decode the Content-Encoding of a reply in pieces of bounded size; the caller counts them."""

    def __init__(self, encoding: str) -> None:
        names = [name.strip().lower() for name in encoding.split(",")]
        packed = [name for name in names if name not in ("", "identity")]
        # Each further layer would multiply how much a small reply unpacks to.
        if packed not in ([], ["gzip"], ["x-gzip"]):
            raise ValueError(f"Content-Encoding {quoted(encoding)} is not supported; send gzip")
        self.is_packed = bool(packed)
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes of a reply unpack to; damaged data raise `zlib.error`."""
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


def read_json_lines(path: Path, encoding: str = "utf-8") -> Rows:
    """Yield each object of a JSON-lines file with its place; gzip is detected by content."""
    for place, text in read_lines(path, encoding):
        if text.strip():
            yield place, _parse_object(text, place)


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[Place, str]]:
    """Yield each line of a text file with its place, decoded strictly and bounded in length."""
    with open_binary(path) as file:
        with _reading((path, 1)):
            head = file.peek(4)
        if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
            problem = "this is a spreadsheet (or another binary file), not text"
            raise DataError.at(path, None, problem, "save it as CSV and name that file")
        encoding = _checked_encoding(path, encoding, head)
        if encoding in UTF_16:
            # As UTF-8, lines can be cut before they are decoded.
            converted = _Converted(file, _to_utf8(encoding, path))
            file, encoding = io.BufferedReader(converted), "utf-8"
            with _reading((path, 1)):
                head = file.peek(1)
        if b"\r" in head[:-1] and b"\n" not in head:  # only carriage returns, as old Macs wrote
            file = io.BufferedReader(_Converted(file, lambda data: data.replace(b"\r", b"\n")))
        for number in itertools.count(1):
            with _reading((path, number)):
                raw = file.readline(MAX_LINE_BYTES + 1)
            if not raw:
                return
            if len(raw) > MAX_LINE_BYTES:
                problem = f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB"
                raise DataError.at(path, number, problem, "put one item on a line")
            yield (path, number), _decode(raw, encoding, (path, number))


def read_aligned(
    paths: list[Path], encoding: str, fix: str = "give all files the same number of lines"
) -> Iterator[list[tuple[Place, str]]]:
    """Yield line n of every file together; files of different lengths are refused with `fix`."""
    columns = [read_lines(path, encoding) for path in paths]
    for number, lines in enumerate(itertools.zip_longest(*columns), start=1):
        present = [line for line in lines if line is not None]
        if len(present) < len(lines):
            problem = f"the file has no such line, but {present[0][0][0].name} has"
            raise DataError.at(paths[lines.index(None)], number, problem, fix)
        yield present


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?%?")


def csv_text(text: str) -> str:
    """Return a text with ' before it if a spreadsheet would take it for a formula.

    >>> csv_text("=1+1"), csv_text("-5"), csv_text("a")
    ("'=1+1", '-5', 'a')
    """
    is_formula = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Write to the path given here: it becomes `path` on success, and is removed on failure.

    The target of a symbolic link is replaced, not the link; pipes and devices are refused.
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


def sha256_of_all(paths: list[Path]) -> str:
    """The SHA-256 of one file, or of the concatenated hex digests of several."""
    digests = [sha256_of(path) for path in paths]
    return digests[0] if len(paths) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def is_table(path: Path) -> bool:
    """Whether a file's name says CSV or TSV, gzip or not."""
    return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".txt"))


def is_json_lines(path: Path) -> bool:
    """Whether a file's name says JSON lines, gzip or not."""
    return path.name.lower().removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson"))


def stem(path: PurePath) -> str:
    """Return a file's name without its known endings.

    >>> stem(PurePath("turk.wrong.jsonl.gz"))
    'turk.wrong'
    """
    return _ENDINGS.sub("", path.name) or path.name


def required(row: Mapping[str, Any], key: str, place: Place) -> Any:
    """Return `row[key]`, or raise an error that lists the keys of the row."""
    if key not in row:
        keys = ", ".join(sorted(map(quoted, row))[:12]) or "nothing"
        raise DataError.at(*place, f"{key!r} is missing (found {keys})", f"add {key!r}")
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
    raise DataError.at(*place, f"{name} {quoted(value, 40)} is not an identifier", fix)


def count_of(value: Any, name: str, place: Place, least: int = 1) -> int:
    """A whole number from `least` up; a float counts only if it is whole."""
    fix = f"use a whole number from {least} up"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError.at(*place, f"{name} {quoted(value, 40)} is not a number", fix)
    if not math.isfinite(value) or value != int(value):
        raise DataError.at(*place, f"{name} {quoted(value, 40)} is not whole", fix)
    if value < least:
        raise DataError.at(*place, f"{name} {quoted(value, 40)} is too small", fix)
    if value > MAX_RESPONSES:
        problem = f"{name} {quoted(value, 40)} is over {MAX_RESPONSES}"
        raise DataError.at(*place, problem, "check it")
    return int(value)


def counts_of(value: Any, name: str, place: Place) -> dict[str, int]:
    """A mapping of words to counts; words with a count of 0 are left out."""
    if not isinstance(value, dict):
        fix = f'write {name} as an object such as {{"word": 3}}'
        raise DataError.at(*place, f"{name} is not an object of counts", fix)
    text_of("".join(value), name, place)
    for word, count in value.items():
        # The plain case is tested here: a file may hold millions of counts.
        if type(count) is not int or not 0 < count <= MAX_RESPONSES:
            count_of(count, f"the count of {quoted(word, 40)}", place, least=0)
    return {word: int(count) for word, count in value.items() if count}


def texts_of(value: Any, name: str, place: Place) -> list[str]:
    """A list of texts of bounded number."""
    if not isinstance(value, list):
        raise DataError.at(*place, f"{name} is not a list", f"write {name} as a list of texts")
    if len(value) > MAX_RESPONSES:
        raise DataError.at(*place, f"{name} has over {MAX_RESPONSES} entries", "split the item")
    return [text_of(entry, f"an entry of {name}", place) for entry in value]


def first_twice(names: list[str]) -> str | None:
    """The first repeated name, in one pass: a line may hold 100,000 names."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _parse_object(text: str, place: Place) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise DataError.at(*place, f"{constant} is not a JSON number", "leave the value out")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(result := dict(pairs)) < len(pairs):
            twice = first_twice([name for name, _ in pairs])
            raise DataError.at(*place, f"{quoted(twice, 40)} occurs twice", "merge the two")
        return result

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        problem = f"not JSON ({error.msg.removesuffix(' at')} at column {error.colno})"
        raise DataError.at(*place, problem, _json_fix(*place)) from None
    except (RecursionError, ValueError):  # nesting, or an integer of thousands of digits
        problem = "this JSON is nested too deeply or holds a number too long"
        raise DataError.at(*place, problem, "write one flat JSON object per line") from None
    if not isinstance(value, dict):
        problem = f"a JSON {type(value).__name__}, not an object"
        raise DataError.at(*place, problem, 'write one object per line, such as {"context": ...}')
    return value


def _json_fix(path: Path, line: int) -> str:
    """How to mend a line that is not JSON; the first line may be that of a table."""
    fix = "write one JSON object per line"
    if line > 1 or is_json_lines(path):
        return fix
    if is_table(path):
        return f"{fix}, because tables are not read here"
    return f"{fix} (only a corpus named .csv, .tsv or .txt is read as a table)"


@contextmanager
def _reading(place: Place) -> Iterator[None]:
    """Turn errors of reading bytes into a `DataError` with the place."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error):
        problem = "the gzip data are cut off or damaged"
        raise DataError.at(*place, problem, "copy or download the file again") from None
    except OSError as error:
        raise DataError.at(*place, f"cannot be read ({error.strerror})", "check it") from None


def _checked_encoding(path: Path, encoding: str, head: bytes) -> str:
    """Return the encoding to read a file with, which its byte order mark may name.

    Lines are cut before they are decoded, so other encodings need a line end of one byte.
    """
    try:
        name = codecs.lookup(encoding).name
        cuts = b"a\n".decode(encoding) == "a\n"
    except UnicodeError:
        cuts = False
    except (LookupError, ValueError):  # ValueError: the name holds a NUL
        problem = f"there is no encoding {quoted(encoding, 40)}"
        raise DataError.at(path, None, problem, "try --encoding utf-8") from None
    if name in ("utf-8", "utf-8-sig", "utf-16") and head.startswith(_UTF_16_MARKS):
        return "utf-16"
    if name in UTF_16[1:]:
        return name
    if not cuts:
        problem = f"a file in {encoding} without a byte order mark cannot be read line by line"
        raise DataError.at(path, None, problem, "save it as UTF-8")
    return encoding


def _decode(raw: bytes, encoding: str, place: Place) -> str:
    # Files from Windows may start with a byte order mark, which is not part of the text.
    raw = raw.removeprefix(b"\xef\xbb\xbf") if place[1] == 1 else raw
    fix = "save the file as UTF-8, or name its encoding with --encoding"
    try:
        text = raw.decode(encoding)
    except UnicodeError as error:
        column = getattr(error, "start", 0)
        problem = f"byte 0x{raw[column]:02x} at column {column + 1} is not {encoding}"
        raise DataError.at(*place, problem, fix) from None
    if "\0" in text:
        raise DataError.at(*place, f"there is a NUL byte at column {text.index(chr(0)) + 1}", fix)
    return text


@contextmanager
def open_binary(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading bytes, unpacked if it is gzip, up to `MAX_GZIP_RATIO`."""
    with _open_plain(path) as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield io.BufferedReader(_Converted(unpacked, _bounded(path)))
        else:
            yield file


def names_beside(path: Path) -> list[str]:
    """The names of other files in a folder, or none if there are very many."""
    with suppress(OSError, ValueError):
        names = [name for name in os.listdir(path.parent) if name != path.name]
        return names if len(names) <= 1000 else []
    return []


class _Converted(io.RawIOBase):
    """A file whose bytes go through `convert` as they are read."""

    def __init__(self, file: BinaryIO | gzip.GzipFile, convert: Callable[[bytes], bytes]) -> None:
        self._file, self._convert, self._pending = file, convert, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._pending:
            data = self._file.read(len(buffer))
            self._pending = self._convert(data)
            if not data:
                break
        part, self._pending = self._pending[: len(buffer)], self._pending[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _to_utf8(encoding: str, path: Path) -> Callable[[bytes], bytes]:
    """Convert UTF-16 to UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()

    def convert(data: bytes) -> bytes:
        try:
            return decoder.decode(data, final=not data).encode()
        except UnicodeError:
            problem = "the UTF-16 data are cut off or damaged"
            raise DataError.at(path, None, problem, "save the file as UTF-8") from None

    return convert


def _bounded(path: Path) -> Callable[[bytes], bytes]:
    """Pass on what gzip unpacks, up to a limit in proportion to the file."""
    remaining = max(MIN_GZIP_LIMIT, MAX_GZIP_RATIO * path.stat().st_size)

    def check(data: bytes) -> bytes:
        nonlocal remaining
        remaining -= len(data)
        if remaining < 0:
            problem = f"the gzip data unpack to over {MAX_GZIP_RATIO} times their size"
            fix = "unpack them with gunzip and name that file, if they are what you expect"
            raise DataError.at(path, None, problem, fix)
        return data

    return check


def _open_plain(path: Path) -> io.BufferedReader:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            return open(path, "rb")
    except FileNotFoundError:
        fix = f"check the path{did_you_mean(path.name, names_beside(path))}"
        raise DataError.at(path, None, "there is no such file", fix) from None
    except OSError as error:
        raise DataError.at(path, None, f"cannot be read ({error.strerror})", "check it") from None
    except ValueError:
        raise DataError.at(ascii(path), None, "is no path (it holds NUL)", "check it") from None
    if stat.S_ISDIR(mode):
        raise DataError.at(path, None, "this is a folder", "name a file in it")
    # A file is read more than once, which a pipe does not allow.
    raise DataError.at(path, None, "is no regular file", "save it to a file first")


def cache_dir() -> Path:
    """The folder for downloads: `$ALEATORIC_CACHE`, or `aleatoric` in the user's cache."""
    if chosen := os.environ.get("ALEATORIC_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aleatoric"
