"""The first word of a text: the corrected rule and the paper's.

Both return `None` where a text holds no word. `METHOD` of the corrected rule: skip leading white
space and punctuation, then take the maximal run of letters, digits and inner apostrophes or
hyphens. A newline or any other character ends a word, and nothing is glued.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

APOSTROPHES = "'\u2019\u02bc\uff07"
HYPHENS = "-\u2010\u2011"
JOINERS = APOSTROPHES + HYPHENS
_STRAIGHT = str.maketrans(dict.fromkeys(APOSTROPHES, "'") | dict.fromkeys(HYPHENS, "-"))
_NEITHER_WORD_NOR_SPACE = re.compile(r"[^\w\s]")

WordRule = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Span:
    """Where the first word of a text stands, and whether something after it ends it.

    An unended word could still grow: a sampler extends it, a recorded text may count it as cut.
    """

    start: int
    stop: int
    ended: bool


def is_word_character(character: str) -> bool:
    """A letter, a digit or a mark that combines with one (so that "e\\u0301" holds together).

    >>> [is_word_character(c) for c in "aé7_-"]
    [True, True, True, False, False]
    """
    return is_alphanumeric(character) or unicodedata.category(character).startswith("M")


def is_alphanumeric(character: str) -> bool:
    """A letter or a digit; no apostrophe.

    >>> is_alphanumeric("a"), is_alphanumeric("\\u02bc")
    (True, False)
    """
    # U+02BC is an apostrophe that Unicode counts among the letters.
    return character.isalnum() and character not in JOINERS


def first_span(text: str) -> Span | None:
    """The first word's place under the corrected rule.

    >>> first_span(' "it\\'s late')
    Span(start=2, stop=6, ended=True)
    >>> first_span("well-")
    Span(start=0, stop=4, ended=False)
    >>> first_span("... !") is None
    True
    """
    start = next((i for i, c in enumerate(text) if is_alphanumeric(c)), None)
    if start is None:
        return None
    stop = start
    while stop < len(text):
        if is_word_character(text[stop]):
            stop += 1
        elif text[stop] not in JOINERS:
            return Span(start, stop, ended=True)
        elif stop + 1 == len(text):
            return Span(start, stop, ended=False)  # inner or not: the next character decides
        elif is_alphanumeric(text[stop + 1]):
            stop += 2
        else:
            return Span(start, stop, ended=True)
    return Span(start, stop, ended=False)


def first_word(text: str) -> str | None:
    """The first word under the corrected rule; leading white space and punctuation are skipped.

    >>> first_word("\\nsaid\\nCome"), first_word("'tis it's"), first_word("well-known, then")
    ('said', 'tis', 'well-known')
    """
    span = first_span(text)
    return text[span.start : span.stop] if span else None


def first_word_at_once(text: str) -> str | None:
    """The first word if nothing but white space stands before it (`lead=condition`).

    >>> first_word_at_once(" said he"), first_word_at_once(', said he')
    ('said', None)
    """
    span = first_span(text)
    if span is None or text[: span.start].strip():
        return None
    return text[span.start : span.stop]


def first_word_paper(text: str) -> str | None:
    """The first word as the paper cut it, with its defects: words are glued and cut.

    >>> first_word_paper("said\\nCome"), first_word_paper(" it's"), first_word_paper(" ... ")
    ('saidCome', 'its', None)
    """
    kept = _NEITHER_WORD_NOR_SPACE.sub("", text.replace("\n", ""))
    return next((piece for piece in kept.split(" ") if piece), None)


def normalise(word: str) -> str:
    """The form in which two words are compared: case-folded, composed, with straight marks.

    >>> normalise("Don\\u2019t") == normalise("don't")
    True
    """
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFD", word).casefold()  # in this order, as Unicode asks
    return unicodedata.normalize("NFC", folded).translate(_STRAIGHT)


def bare(word: str) -> str:
    """A corpus word without its punctuation, as answers are written: `"You're,"` -> `youre`.

    Comparable with words cut by the paper's rule, which deletes punctuation too.

    >>> bare('light"'), bare("You're")
    ('light', 'youre')
    """
    return _NEITHER_WORD_NOR_SPACE.sub("", word).casefold()


def rule_named(rule: str, lead: str = "skip") -> WordRule:
    """The word rule of a protocol.

    >>> rule_named("paper").__name__, rule_named("corrected", "condition").__name__
    ('first_word_paper', 'first_word_at_once')
    """
    if rule == "paper":
        return first_word_paper
    return first_word_at_once if lead == "condition" else first_word
