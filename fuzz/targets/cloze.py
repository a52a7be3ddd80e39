"""Next-word answers as JSON lines, plain or gzip."""

from __future__ import annotations

import gzip

from aleatoric.data.cloze import load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"id": "1", "group": "g", "context": "There are", "original": "now", '
    b'"responses": {"many": 3}}\n',
    b'{"context": "a", "responses": ["x", "y "]}\n{"context": "b", "responses": ["z"]}\n',
    gzip.compress(b'{"context": "a", "responses": ["x"]}\n'),
    b"\r".join([b'{"context": "a", "responses": ["x"]}'] * 2),
)
TOKENS = (
    b'"id"',
    b'"group"',
    b'"context"',
    b'"responses"',
    b'"original"',
    b"null",
    b"-1",
    b"1e9",
    b"\\ud800",
)


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "c.jsonl")
    with refusals():
        read_all(load(path).items)
