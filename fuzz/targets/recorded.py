"""A model's recorded words."""

from __future__ import annotations

from aleatoric.models.base import Ask
from aleatoric.models.recorded import load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"id": "1", "samples": {"many": 3}, "failed": 2}\n{"id": "1", "samples": {"two": 1}}\n',
    b'{"id": 2, "texts": [" was a dark", " is"]}\n'
    b'{"passage": 1, "position": 2, "counts": {"a": 1}}\n',
    b'{"id": "3", "logprobs": {"a": -0.5, "b": -2}}\n',
)
TOKENS = (
    b'"id"',
    b'"samples"',
    b'"counts"',
    b'"texts"',
    b'"logprobs"',
    b'"failed"',
    b'"passage"',
    b'"position"',
)


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "m.jsonl")
    with refusals():
        read_all(load(str(path)).draws((), Ask("ancestral", 10, 0)))
