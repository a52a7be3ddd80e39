"""WritingPrompts in the publishers' layout: two files."""

from __future__ import annotations

from aleatoric.data.references import load_writingprompts as load
from fuzz.trial import read_all, refusals, written

SEEDS = (b"[ WP ] A dog .\n[ WP ] A dog .\n=====\nOnce <newline> it ran .\nTwice .\n",)
TOKENS = (b"\n=====\n", b"<newline>", b"[ WP ]", b"\r")


def trial(data: bytes) -> None:
    """One input."""
    source, _ = written(data, "valid.wp_source", "valid.wp_target")
    with refusals():
        read_all(load(source).items)
