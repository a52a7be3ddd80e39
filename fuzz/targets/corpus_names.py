"""What stands after --corpus of the three levels, where it is no file."""

from __future__ import annotations

from aleatoric.data.opening import open_corpus, open_text_corpus, open_token_corpus
from fuzz.trial import refusals, text_of

SEEDS = (b"cloze:x", b"parallel:a,b", b"asset", b"text:x", b"provo", b"wmt14-10ref:x", b"a.csv")
TOKENS = (b":", b",", b"parallel:", b"text:", b"asset:", b"cloze:", b".jsonl", b".gz", b"?", b"..")


def trial(data: bytes) -> None:
    """One input; without a slash, so that it names nothing that is there."""
    name = text_of(data).replace("/", "|")
    for read in (open_corpus, open_text_corpus, open_token_corpus):
        with refusals():
            read(name)
