"""Parallel text: two files."""

from __future__ import annotations

from aleatoric.data.documents import load_parallel as load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"Ein Hund.\nBrot.\n\n=====\nA dog.\nBread.\n",
    b"a\n=====\nb",
)
TOKENS = (b"\n=====\n", b"\r\n", b"\n\n")


def trial(data: bytes) -> None:
    """One input."""
    source, target = written(data, "c.de", "c.en")
    with refusals():
        read_all(load(source, target).items)
