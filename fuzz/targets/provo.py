"""Provo's norms as JSON lines."""

from __future__ import annotations

from aleatoric.data.provo import load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"passage": 1, "position": 2, "context": "There are", "original": "now", '
    b'"human": {"many": 3}}\n',
    b'{"passage": "18", "position": 3, "context": "a", "human": {"x": 82}}\n',
)
TOKENS = (b'"passage"', b'"position"', b'"context"', b'"human"', b'"original"')


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "c.jsonl")
    with refusals():
        read_all(load(path).items)
