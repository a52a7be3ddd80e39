"""Word rules: find the first word of a text, at once or token by token; `None` if it has none.

The corrected rule skips leading white space and punctuation, then takes the longest run of letters,
digits and inner joiners (apostrophes, hyphens, underscores, and the invisible joiners of Persian,
Hindi and hyphenated text). A newline or any other character ends the word.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, NamedTuple, cast

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
"""How joiners are written when words are compared."""
JOINS = ("", "'", "-", "_")
"""Joiners that can follow a folded word, by number; invisible joiners fold to nothing."""
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
_LATIN = re.compile(
    "[A-Za-z\u00aa\u00ba\u00c0-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff"
    "\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a]"
)
_LETTERS = re.compile(r"[^\W\d_]+")
_FREQUENT_ENGLISH = (
    "about and are been but by can could for from had has have her his if into it its my not of "
    "one she some than that the their them there they this to were what when which who will with "
    "would you your"
)
"""Frequent words of English that are not frequent in other languages (as *in* and *was* are)."""
LEAST_IN_TEXT, LEAST_WORDS = 3, 200
"""Words of a text, and of all of them, from which it can be said whether texts are English."""
_SEGMENTED = ("zh", "ja", "th", "lo", "my", "km")
"""Languages whose tokenizers need no spaces between words."""

MOST_NEW_TOKENS = 64
"""The tokens of a sampled text: a word that is longer is cut there, and a text that has not begun
one by then has none."""
PAPER_TOKENS, OTHER_TOKENS = 5, 16
"""Tokens of a text for the paper's rule, and for rules that do not say when a word has ended."""

WordRule = Callable[[str], str | None]
Lead = Literal["skip", "condition"]
"""Text before the word is skipped, or anything but white space there means that there is none."""


def is_alphanumeric(character: str) -> bool:
    """Whether a character is a letter or a digit (and no apostrophe)."""
    # U+02BC is an apostrophe that Unicode counts among the letters.
    return character.isalnum() and character not in JOINERS


def is_word_character(character: str) -> bool:
    """Whether a character is a letter, a digit or a combining mark."""
    return is_alphanumeric(character) or unicodedata.category(character).startswith("M")


@dataclass(frozen=True, slots=True)
class Span:
    """Position of the first word of a text, and whether something after the word ends it."""

    start: int
    stop: int
    ended: bool


def first_span(text: str) -> Span | None:
    """Return the position of the first word under the corrected rule."""
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
            return Span(start, stop, ended=False)  # the next character decides
        elif is_alphanumeric(text[stop + 1]):
            stop += 2
        else:
            return Span(start, stop, ended=True)
    return Span(start, stop, ended=False)


def first_word(text: str) -> str | None:
    """Return the first word under the corrected rule.

    >>> first_word("\\nsaid\\nCome"), first_word("'tis it's"), first_word("well-known, then")
    ('said', 'tis', 'well-known')
    """
    if text.isascii() and text.isalnum():
        return text  # the common case, and fast
    span = first_span(text)
    return text[span.start : span.stop] if span else None


def first_word_at_once(text: str) -> str | None:
    """Return the first word if only white space precedes it (`lead=condition`)."""
    span = first_span(text)
    return None if span is None or text[: span.start].strip() else text[span.start : span.stop]


def first_word_paper(text: str) -> str | None:
    """Return the first word as the paper cut it, with its defects: words are glued and cut."""
    cleaned = _NEITHER_WORD_NOR_SPACE.sub("", text.replace("\n", ""))
    return next((piece for piece in cleaned.split(" ") if piece), None)


def first_character(text: str) -> str | None:
    """Return the first character in scripts without spaces, the first word in other scripts.

    >>> first_character("\u732b\u304c\u597d\u304d"), first_character("a cat"), first_character("?!")
    ('猫', 'a', None)
    """
    word = first_word(text)
    match = _SPACELESS.search(word) if word else None
    if word is None or match is None:
        return word
    if match.start():
        return first_word(word[: match.start()])
    marks = takewhile(lambda c: unicodedata.category(c).startswith("M"), word[1:])
    return word[0] + "".join(marks)


def is_spaceless(text: str) -> bool:
    """Whether most letters of a text belong to a script written without spaces."""
    if text.isascii() or not (letters := _SPACELESS.findall(text)):
        return False
    return 2 * len(letters) > sum(map(is_word_character, text))


def lacks_spaces(texts: Sequence[str], language: str) -> bool:
    """Whether most texts are written without spaces and the language's tokenizer needs them."""
    return language not in _SEGMENTED and 2 * sum(map(is_spaceless, texts)) > len(texts)


def is_latin(texts: Iterable[str]) -> bool:
    """Whether at least half of the letters of some texts are Latin, or there are none.

    >>> is_latin(["Größe: 1 m"]), is_latin(["μῆνιν ἄειδε θεά (Homer)"]), is_latin(["123"])
    (True, False, True)
    """
    letters = latin = 0
    for text in texts:
        own = [character for character in text if character.isalpha()]
        letters += len(own)
        latin += len(own) if text.isascii() else len(_LATIN.findall("".join(own)))
    return 2 * latin >= letters


def share_of_english(texts: Iterable[str]) -> float | None:
    """Return the share of frequent English words among all words, from 0 to 1.

    Texts of one or two words, which rarely contain any, are left out; `None` if there are too few
    words. It is above .1 for English texts of people, and below .01 for German ones.
    """
    texts_of_words = (_LETTERS.findall(text.lower()) for text in texts)
    words = [word for found in texts_of_words if len(found) >= LEAST_IN_TEXT for word in found]
    if len(words) < LEAST_WORDS:
        return None
    frequent = frozenset(_FREQUENT_ENGLISH.split())
    return sum(word in frequent for word in words) / len(words)


def normalise(word: str) -> str:
    """Return the form in which words are compared: case-folded, composed, straight apostrophes."""
    return word.lower() if word.isascii() else compose(fold(word))


def fold(text: str) -> str:
    """Like `normalise`, but decomposed: a part of a word folds to a part of the folded word."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", text).casefold()  # in this order, as Unicode asks
    return unicodedata.normalize("NFD", folded.translate(STRAIGHT))


def compose(folded: str) -> str:
    """Turn a folded word into the form of `normalise`."""
    return unicodedata.normalize("NFC", folded)


def bare(word: str) -> str:
    """Return a corpus word case-folded, without punctuation, comparable with `first_word_paper`."""
    return _NEITHER_WORD_NOR_SPACE.sub("", word).casefold()


def is_code(rule: str) -> bool:
    """Whether a rule is a user-defined function, written `module:function`."""
    return ":" in rule


def rule_named(rule: str, lead: Lead = "skip") -> WordRule:
    """Return an installed word rule by name; user-defined functions are never loaded here."""
    if rule == "corrected" and lead == "condition":
        return first_word_at_once
    check_known(rule)
    return cast(WordRule, registry.find("word_rules", rule))


class TextRule(NamedTuple):
    """A word rule for texts that are sampled token by token.

    `cut` returns the word of a text, `is_settled` whether more text cannot change it. A text has
    at most `tokens` tokens; a word that is cut off there is kept.
    """

    cut: WordRule
    is_settled: Callable[[str], bool]
    tokens: int


def text_rule(rule: str, lead: Lead = "skip") -> TextRule:
    """Return a rule for sampled texts; for a user-defined one `cut` returns the whole text."""
    if rule == "corrected":
        return TextRule(rule_named(rule, lead), _is_ended, MOST_NEW_TOKENS + 1)
    if rule == "paper":
        return TextRule(first_word_paper, _is_settled_paper, PAPER_TOKENS)
    return TextRule(str if is_code(rule) else rule_named(rule), lambda text: False, OTHER_TOKENS)


def _is_ended(text: str) -> bool:
    span = first_span(text)
    return span is not None and span.ended


def _is_settled_paper(text: str) -> bool:
    cleaned = _NEITHER_WORD_NOR_SPACE.sub("", text.replace("\n", ""))
    return " " in cleaned.lstrip(" ")


def check_rule_of(estimator: str, rule: str) -> None:
    """Raise `UsageError` if an estimator of a live model cannot follow a word rule."""
    if estimator == "exact" and rule != "corrected":
        fix = "add --estimator mc, or --word-rule corrected"
        raise UsageError(
            f"exact probabilities follow the corrected word rule, and this run asks for {rule}; "
            f"{fix}."
        )
    if estimator == "biased" and is_code(rule):
        fix = "use corrected, paper or characters"
        raise UsageError(f"--estimator biased cannot use the word rule {rule}; {fix}.")


def check_known(rule: str) -> None:
    """Raise `UsageError` unless a rule of this name is installed."""
    # Listing other packages' rules is slow, and scoring looks up the rule for every item.
    if rule in registry.PLUGINS["word_rules"]:
        return
    if rule not in (names := registry.names("word_rules")):
        raise UsageError(f"unknown word rule {rule!r}; use {', '.join(names)} or module:function.")


LEAD, WORD, JOIN, DONE, WORDLESS = range(5)
"""Modes of a text: before the word, in it, after an undecided joiner, word ended, no word."""


@dataclass(frozen=True, slots=True)
class WordState:
    """What is known of the first word after some bytes of text.

    `word` is the word so far, `joiner` an apostrophe, hyphen or the like that belongs to the word
    only if a letter or digit follows, `pending` the first bytes of an incomplete character.
    """

    mode: int = LEAD
    word: str = ""
    joiner: str = ""
    pending: bytes = b""


def advance(state: WordState, piece: bytes | None, lead: Lead = "skip") -> WordState:
    """Return the state after one more token; `piece=None` ends the text."""
    if state.mode >= DONE:
        return state
    if piece is None:
        return WordState(WORDLESS) if state.mode == LEAD else WordState(DONE, state.word)
    text, pending = decode(state.pending + piece)
    if state.pending and text:
        state = WordState(state.mode, state.word, state.joiner)
    for character in text:
        state = _step(state, character, lead)
        if state.mode >= DONE:
            return state
    return replace(state, pending=pending) if pending else state


def _step(state: WordState, character: str, lead: Lead) -> WordState:
    if state.mode == LEAD:
        if is_alphanumeric(character):
            return WordState(WORD, character)
        fails = lead == "condition" and not character.isspace()
        return WordState(WORDLESS) if fails else state
    if state.mode == JOIN:
        if is_alphanumeric(character):
            return WordState(WORD, state.word + state.joiner + character)
        return WordState(DONE, state.word)
    if is_word_character(character):
        return WordState(WORD, state.word + character)
    if character in JOINERS:
        return WordState(JOIN, state.word, character)
    return WordState(DONE, state.word)


def decode(data: bytes) -> tuple[str, bytes]:
    """Return the complete characters of UTF-8 `data` and the bytes of an incomplete last one."""
    text, length = codecs.utf_8_decode(data, "replace")
    return text, data[length:]
