"""ASSET in the publishers' layout: three files."""

from __future__ import annotations

from aleatoric.data.published_texts import load_asset as load
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b"A sentence.\nTwo.\n\n=====\nOne.\n2.\n\n=====\nShort.\nTwo!\n",
    b"a\n=====\nb\n=====\nc",
)
TOKENS = (b"\n=====\n", b"\r\n", b"\n\n")


def trial(data: bytes) -> None:
    """One input."""
    paths = written(data, "asset.valid.orig", "asset.valid.simp.0", "asset.valid.simp.1")
    with refusals():
        read_all(load(paths[0].parent).items)
