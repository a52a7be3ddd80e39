"""Word vectors as text, word2vec's and GloVe's."""

from __future__ import annotations

import gzip

from aleatoric.levels.word_classes import read_vectors
from fuzz.trial import refusals, written

SEEDS = (
    b"2 3\ndog 1 2 3\ncat 0.5 -1 1e-3\n",
    b"dog 1 2\nnew york 3 4\n",
    gzip.compress(b"dog 1 2\n"),
)
TOKENS = (b"nan", b"inf", b"1e999", b" ", b"0 0\n", b"2 3\n", b"1_0")


def trial(data: bytes) -> None:
    """One input."""
    name = "v.txt.gz" if data[:2] == b"\x1f\x8b" else "v.txt"
    (path,) = written(data, name)
    with refusals():
        read_vectors(path)
