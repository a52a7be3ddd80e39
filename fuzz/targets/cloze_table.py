"""Next-word answers as a table."""

from __future__ import annotations

from aleatoric.data.cloze import load
from aleatoric.data.selection import TableOptions
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"context,response,count,id,group,original\na,b,3,1,g,o\n",
    b'context\tresponse\n"a ""b"" c"\tx\n',
    b'context,response\r\n"a\nb",c\r\n',
    b"sep=;\r\na;P1;P2;\r\nx;y;z;\r\n",
    b'a,P1,P2\nId,x,y\n"{""ImportId"":1}","{""ImportId"":2}"\n1,b,c\n',
    "a|P1|P2\nx|y|z\n".encode("utf-16"),
)
TOKENS = (b"context", b"response", b"count", b"id", b'"', b"1_0", b"nan", b"sep=;", b"\xff\xfe")
LAYOUTS = (
    None,
    "context=a,response=P*",
    "context=a,response=P1:P2,person=",
    "context=@header,response=P*",
    "context=@header2,response=P*,person=a",
    "group=,id=a",
)


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "c.csv")
    with refusals():
        options = TableOptions(LAYOUTS[len(data) % len(LAYOUTS)], "NA")
        read_all(load(path, "utf-8", options).items)
