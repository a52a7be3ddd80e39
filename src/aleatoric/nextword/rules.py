"""The first word of a text: the corrected rule, the paper's, and one character at a time.

All return `None` where a text holds no word. The corrected rule: skip leading white space and
punctuation, then take the maximal run of letters, digits and inner joiners (apostrophes, hyphens,
underscores, and the invisible joiners of Persian, Hindi and hyphenated text). A newline or any
other character ends a word, and nothing is glued.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from aleatoric import registry
from aleatoric.errors import UsageError

APOSTROPHES = "'\u2019\u02bc\uff07"
HYPHENS = "-\u2010\u2011"
INVISIBLE = "\u00ad\u200c\u200d"
"""Soft hyphen, zero-width non-joiner, zero-width joiner: part of a word, ignored in comparisons."""
JOINERS = APOSTROPHES + HYPHENS + "_" + INVISIBLE
STRAIGHT = str.maketrans(
    dict.fromkeys(APOSTROPHES, "'") | dict.fromkeys(HYPHENS, "-") | dict.fromkeys(INVISIBLE, "")
)
"""How joiners are written for comparison."""
_NEITHER_WORD_NOR_SPACE = re.compile(r"[^\w\s]")
_SPACELESS = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese kana
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "]"
)

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
    if text.isascii() and text.isalnum():
        return text  # the common case, and fast
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


def first_character(text: str) -> str | None:
    """The first character of a script without spaces; of other scripts the first word.

    >>> first_character("\u732b\u304c\u597d\u304d"), first_character("a cat"), first_character("?!")
    ('猫', 'a', None)
    """
    word = first_word(text)
    found = _SPACELESS.search(word) if word else None
    if word is None or found is None:
        return word
    if found.start():
        return first_word(word[: found.start()])
    marks = next(
        (i for i, c in enumerate(word[1:]) if not unicodedata.category(c).startswith("M")),
        len(word) - 1,
    )
    return word[: 1 + marks]


def is_spaceless(text: str) -> bool:
    """Whether most letters of a text are of a script that is written without spaces.

    >>> is_spaceless("\u732b\u304c\u597d\u304d"), is_spaceless("The sign said \u732b")
    (True, False)
    """
    if text.isascii() or not (found := _SPACELESS.findall(text)):
        return False
    return 2 * len(found) > sum(map(is_word_character, text))


def normalise(word: str) -> str:
    """The form in which two words are compared: case-folded, composed, with straight marks.

    >>> normalise("Don\\u2019t") == normalise("don't")
    True
    """
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFD", word).casefold()  # in this order, as Unicode asks
    return unicodedata.normalize("NFC", folded.translate(STRAIGHT))


def bare(word: str) -> str:
    """A corpus word without its punctuation, as answers are written: `"You're,"` -> `youre`.

    Comparable with words cut by the paper's rule, which deletes punctuation too.

    >>> bare('light"'), bare("You're")
    ('light', 'youre')
    """
    return _NEITHER_WORD_NOR_SPACE.sub("", word).casefold()


def is_code(rule: str) -> bool:
    """Whether a rule is a user's own function, named as `module:function`.

    >>> is_code("corrected"), is_code("mine:first_word")
    (False, True)
    """
    return ":" in rule


def rule_named(rule: str, lead: str = "skip") -> WordRule:
    """An installed word rule by its name; a user's own function is never loaded here.

    >>> rule_named("paper").__name__, rule_named("corrected", "condition").__name__
    ('first_word_paper', 'first_word_at_once')
    """
    if rule == "corrected" and lead == "condition":
        return first_word_at_once
    check_known(rule)
    found: WordRule = registry.find("word_rules", rule)
    return found


def check_known(rule: str) -> None:
    """Refuse a name that no installed rule has.

    >>> check_known("characters")
    """
    # To look for other packages' rules takes long, and scoring asks for the rule of every item.
    if rule in registry.PLUGINS["word_rules"]:
        return
    if rule not in (known := registry.names("word_rules")):
        raise UsageError(
            f"there is no word rule {rule!r}; use {', '.join(known)} or module:function."
        )
