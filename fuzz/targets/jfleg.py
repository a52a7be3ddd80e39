"""JFLEG in the publishers' layout: three files."""

from __future__ import annotations

from aleatoric.data.published_texts import load_jfleg as load
from fuzz.trial import read_all, refusals, written

SEEDS = (b"A sentense .\nTwo .\n=====\nA sentence .\n2 .\n=====\nOne .\nTwo !\n",)
TOKENS = (
    b"\n=====\n",
    b"\r\n",
)


def trial(data: bytes) -> None:
    """One input."""
    source, *_ = written(data, "test.src", "test.ref0", "test.ref1")
    with refusals():
        corpus = load(source)
        read_all(corpus.items)
        read_all(corpus.notes)
