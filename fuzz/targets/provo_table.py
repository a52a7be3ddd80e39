"""Provo's norms as the published table."""

from __future__ import annotations

from aleatoric.data.provo import load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"Text_ID,Text,Word_Number,Word,Response,Response_Count\n1,There are now,2,are,is,3\n"
    b"1,There are now,3,now,many,2\n",
    b"Text_ID,Text,Word_Number,Word,Response,Response_Count\n1,a - b c d,2,b,is,3\n"
    b"1,a - b c d,5,d,NA,2\n",
)
TOKENS = (b"Text_ID", b"Word_Number", b"Response_Count", b"NA", b"1e3", b"0x1", b"-")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "c.csv")
    with refusals():
        read_all(load(path, "mac-roman").items)
