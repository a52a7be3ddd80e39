"""Ten more translations of WMT'14 sentences."""

from __future__ import annotations

from aleatoric.data.references import load_wmt14 as load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"S-1\tA dog.\nT-1\tEin Hund.\nR1-1\tDer Hund.\nR2-1\tHund.\n",
    b"S-0\ta\nR10-0\tb\nR9-0\tc\nS-7\tx\n",
)
TOKENS = (b"S-", b"T-", b"R1-", b"\t", b"R9999-", b"999999999")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "wmt14-en-de.extra_refs")
    with refusals():
        corpus = load(path)
        read_all(corpus.items)
        read_all(corpus.notes)
