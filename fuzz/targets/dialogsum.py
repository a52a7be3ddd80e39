"""DialogSum in the publishers' layout."""

from __future__ import annotations

from aleatoric.data.published_texts import load_dialogsum as load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"fname": "test_0", "dialogue": "Hi.", "summary1": "a", "summary2": "b", "topic1": "c"}\n',
)
TOKENS = (
    b'"summary1"',
    b'"dialogue"',
    b'"fname"',
)


def trial(data: bytes) -> None:
    """One input."""
    (source,) = written(data, "dialogsum.test.jsonl")
    with refusals():
        corpus = load(source)
        read_all(corpus.items)
        read_all(corpus.notes)
