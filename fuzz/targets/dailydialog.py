"""DailyDialog++ in both forms."""

from __future__ import annotations

from aleatoric.data.references import load_dailydialog as load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"context": ["Hi.", "You?"], "positive_responses": ["a", "b"], '
    b'"adversarial_negative_responses": []}\n',
    b'{"input": ["Hi."], "references": ["a", "b"]}\n',
)
TOKENS = (b'"context"', b'"positive_responses"', b'"input"', b'"references"')


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "dailydialogpp-dev.json")
    with refusals():
        corpus = load(path)
        read_all(corpus.items)
        read_all(corpus.notes)
