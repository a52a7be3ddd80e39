"""Word vectors in word2vec's binary form."""

from __future__ import annotations

from aleatoric.levels.word_classes import read_vectors
from fuzz.trial import refusals, written

SEEDS = (
    b"2 1\ndog \0\0\x80?\ncat \0\0\0@",
    b"1 2\na \0\0\x80?\0\0\xc0\x7f",
)
TOKENS = (b"99999999999 ", b"100000\n", b"0 0\n", b"1 1\n")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "v.bin")
    with refusals():
        read_vectors(path)
