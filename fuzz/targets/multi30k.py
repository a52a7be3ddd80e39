"""Multi30K captions in the publishers' layout: five files."""

from __future__ import annotations

from aleatoric.data.published_texts import load_multi30k as load
from fuzz.trial import read_all, refusals, written

SEEDS = (b"A dog .\n=====\nA cat .\n=====\na\n=====\nb\n=====\nc\n",)
TOKENS = (
    b"\n=====\n",
    b"\r\n",
)


def trial(data: bytes) -> None:
    """One input."""
    source, *_ = written(
        data,
        "test_2016.1.en",
        "test_2016.2.en",
        "test_2016.3.en",
        "test_2016.4.en",
        "test_2016.5.en",
    )
    with refusals():
        corpus = load(source)
        read_all(corpus.items)
        read_all(corpus.notes)
