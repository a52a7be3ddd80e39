"""Next-word answers as a table."""

from __future__ import annotations

from aleatoric.data.cloze import load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"context,response,count,id,group,original\na,b,3,1,g,o\n",
    b'context\tresponse\n"a ""b"" c"\tx\n',
    b'context,response\r\n"a\nb",c\r\n',
)
TOKENS = (b"context", b"response", b"count", b"id", b'"', b"1_0", b"nan")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "c.csv")
    with refusals():
        read_all(load(path).items)
