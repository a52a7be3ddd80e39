"""Parallel text and documents: reading, and errors for malformed files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from aleatoric.data import documents
from aleatoric.errors import DataError
from aleatoric.types import Document, SentencePair


def two(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    paths = folder / "mine.de", folder / "mine.en"
    for path, data in zip(paths, (source, target), strict=True):
        path.write_bytes(data)
    return paths


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_are_paired_by_number(tmp_path: Path, packed: bool, end: bytes) -> None:
    sides = [end.join([b"Ein Hund.", " Straße ".encode()]), end.join([b"A dog.", b"Street", b""])]
    paths = two(tmp_path, *(gzip.compress(s) if packed else s for s in sides))
    found = documents.load_parallel(*paths)
    expected = [SentencePair("1", "Ein Hund.", "A dog."), SentencePair("2", "Straße", "Street")]
    assert list(found.items) == list(found.items) == expected
    assert len(found.items) == 2
    assert (found.name, len(found.sha256)) == ("mine", 64)


def test_digest_depends_on_both_sides_and_their_order(tmp_path: Path) -> None:
    a, b = two(tmp_path, b"x\n", b"y\n")
    digests = {documents.load_parallel(*pair).sha256 for pair in ((a, b), (b, a), (a, a))}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\n", b"a\n", r"mine\.en, line 2: .*no such line, but mine\.de has; give all"),
        (b"a\n", b"a\nb\n", r"mine\.de, line 2: .*no such line, but mine\.en has; give all"),
        (b"a\n\nc\n", b"a\nb\nc\n", r"mine\.de, line 2: the line is empty; give"),
        (b"a\nb\n", b"a\n \t\n", r"mine\.en, line 2: the line is empty; give"),
        (b"a\n\xff\n", b"a\nb\n", r"mine\.de, line 2: byte 0xff at column 1 is not utf-8; save"),
        (b"a\n", b"a\0\n", r"mine\.en, line 1: there is a NUL byte at column 2; save"),
        (b"", b"", r"mine\.de: holds no item; give"),
        (b"\x1f\x8bnot gzip", b"a\n", r"mine\.de, line 1: "),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, source: bytes, target: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        list(documents.load_parallel(*two(tmp_path, source, target)).items)
    assert re.search(r"; .*\.$", str(error.value))


def test_missing_file_is_named(tmp_path: Path) -> None:
    source, _ = two(tmp_path, b"a\n", b"a\n")
    with pytest.raises(DataError, match=r"none\.en: there is no such file; check the path\."):
        documents.load_parallel(source, tmp_path / "none.en")


def test_other_encodings_must_be_explicit(tmp_path: Path) -> None:
    paths = two(tmp_path, "Straße\n".encode("latin-1"), b"street\n")
    assert next(iter(documents.load_parallel(*paths, "latin-1").items)).source == "Straße"


PLAIN = b"\nOne\n two\n\n\n \nThree\n"


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ("blank-lines", [Document("2", "One\n two"), Document("7", "Three")]),
        ("lines", [Document("2", "One"), Document("3", " two"), Document("7", "Three")]),
        ("file", [Document("2", "One\n two\n\n\n \nThree")]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_plain_text_is_split_into_documents_as_requested(
    tmp_path: Path, cut: documents.Cut, expected: list[Document], packed: bool
) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(gzip.compress(PLAIN) if packed else PLAIN)
    found = documents.load(path, cut=cut)
    assert list(found.items) == list(found.items) == expected
    assert found.name == "mine"


def test_json_lines_keep_their_ids_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "a", "text": " One\\n\\ntwo "}\n\n{"text": "Three"}\n')
    assert list(documents.load(path).items) == [
        Document("a", " One\n\ntwo "),
        Document("3", "Three"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"id": 1}\n', r"a\.jsonl, line 1: 'text' is missing"),
        ("a.jsonl", b'{"text": 3}\n', "line 1: text is int, not text"),
        ("a.jsonl", b'{"text": " "}\n', "line 1: the text is empty; give it"),
        (
            "a.jsonl",
            b'{"text": "a", "id": 1}\n{"text": "b", "id": 1}\n',
            "line 2: id '1' is already",
        ),
        ("a.jsonl", b"[1]\n", "line 1: "),
        ("a.txt", b"a\n\xff\n", r"a\.txt, line 2: byte 0xff at column 1 is not utf-8"),
        ("a.txt", b"\n\n", r"a\.txt: holds no item"),
        ("a.txt", b"", r"a\.txt: holds no item"),
        ("a.txt", b"\n" + b"long words\n" * 100_000, r"a\.txt, line 2: .* over 1000000 characters"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_documents_are_reported_with_line(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(documents.load(tmp_path / name).items)
