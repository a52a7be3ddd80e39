"""SQuALITY in the publishers' layout."""

from __future__ import annotations

from aleatoric.data.published_texts import load_squality as load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"metadata": {"passage_id": "1"}, "document": "A story.", "questions": [{"question_text": '
    b'"Who?", "question_number": 1, "responses": [{"worker_id": "1", "response_text": "a"}, '
    b'{"worker_id": "2", "response_text": "b"}]}]}\n',
)
TOKENS = (
    b'"questions"',
    b'"responses"',
    b'"worker_id"',
    b'"passage_id"',
)


def trial(data: bytes) -> None:
    """One input."""
    (source,) = written(data, "dev.jsonl")
    with refusals():
        corpus = load(source)
        read_all(corpus.items)
        read_all(corpus.notes)
