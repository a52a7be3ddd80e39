"""The rules that cut the first word of a text, and what reads chat models' replies."""

from __future__ import annotations

from aleatoric.models.chat import parse_list, parse_word
from aleatoric.nextword.rules import bare, first_span, first_word, normalise, rule_named
from fuzz.trial import text_of

SEEDS = (
    " it\u2019s late, he said".encode(),
    b"\nsaid\nCome",
    b"1. dog\n2. ice cream\n- cat; and dog",
    "e\u0301\u02bc\u2011猫😀".encode(),
    b"<think>hm</think> dog",
)
TOKENS = (
    "\u2019".encode(),
    "\u02bc".encode(),
    "\u0301".encode(),
    b"-",
    b"<think>",
    b"1. ",
    b"\xed\xa0\x80",
)


def trial(data: bytes) -> None:
    """One input."""
    text = text_of(data)
    for rule in (("paper", "skip"), ("corrected", "skip"), ("corrected", "condition")):
        word = rule_named(*rule)(text)
        assert word is None or (word and normalise(normalise(word)) == normalise(word))
    span, word = first_span(text), first_word(text)
    assert (span is None) == (word is None)
    assert span is None or text[span.start : span.stop] == word
    bare(text)
    parse_word(text)
    words, failed, missing = parse_list(text, 10)
    assert len(words) + failed + missing == 10
