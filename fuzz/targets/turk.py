"""TURK in the publishers' layout: three files."""

from __future__ import annotations

from aleatoric.data.published_texts import load_turk as load
from fuzz.trial import read_all, refusals, written

SEEDS = (b"A sentence .\nTwo .\n=====\nOne .\n2 .\n=====\nShort .\nTwo !\n",)
TOKENS = (
    b"\n=====\n",
    b"\r\n",
)


def trial(data: bytes) -> None:
    """One input."""
    source, *_ = written(
        data, "test.8turkers.tok.norm", "test.8turkers.tok.turk.0", "test.8turkers.tok.turk.1"
    )
    with refusals():
        corpus = load(source)
        read_all(corpus.items)
        read_all(corpus.notes)
