"""Documents of the token level, plain in all cuts and as JSON lines."""

from __future__ import annotations

from typing import get_args

from aleatoric.data.documents import load
from aleatoric.types import Cut
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"One.\nTwo.\n\nThree.\n",
    b'{"text": "A dog runs.", "id": 3}\n',
    b"\n \n\r\nx",
)
TOKENS = (b'"text"', b'"id"', b"\n\n", b"\r\n")


def trial(data: bytes) -> None:
    """One input."""
    for name in ("c.txt", "c.jsonl"):
        (path,) = written(data, name)
        for cut in get_args(Cut):
            with refusals():
                read_all(load(path, "utf-8", cut).items)
