"""Inputs with several people's texts."""

from __future__ import annotations

from aleatoric.data.references import load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"id": 1, "input": "Hi?", "references": ["Hello.", "Hi."], "language": "de"}\n',
    b'{"input": ["Hi.", "You?"], "references": ["a", ""], "group": 3, "original": "b"}\n',
)
TOKENS = (b'"input"', b'"references"', b'"language"', b'"original_reference"', b'"id"', b'"group"')


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "c.jsonl")
    with refusals():
        corpus = load(path)
        read_all(corpus.items)
        read_all(corpus.notes)
