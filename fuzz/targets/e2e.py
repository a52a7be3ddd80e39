"""E2E in the publishers' layout: a table."""

from __future__ import annotations

from aleatoric.data.published_texts import load_e2e as load
from fuzz.trial import read_all, refusals, written

SEEDS = (b'mr,ref\n"name[A], area[x]","A is, in x."\n"name[A], area[x]",In x: A\n',)
TOKENS = (
    b"mr",
    b"ref",
    b'"',
    b",",
)


def trial(data: bytes) -> None:
    """One input."""
    (source,) = written(data, "testset_w_refs.csv")
    with refusals():
        corpus = load(source)
        read_all(corpus.items)
        read_all(corpus.notes)
