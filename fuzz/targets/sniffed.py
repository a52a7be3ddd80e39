"""Any file after --corpus of `aleatoric word`: which loader it is, and the loader."""

from __future__ import annotations

from aleatoric.data.opening import open_corpus
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'\0{"passage": 1, "position": 2, "context": "a", "human": {"many": 3}}\n',
    b'\0{"context": "a", "responses": ["x"]}\n',
    b"\1context,response\na,b\n",
)
TOKENS = (b"human", b"Text_ID", b"Word_Number", b"context", b"responses")


def trial(data: bytes) -> None:
    """One input."""
    name = "c.csv" if data[:1] == b"\1" else "c.jsonl"
    (path,) = written(data[1:], name)
    with refusals():
        read_all(open_corpus(str(path)).items)
