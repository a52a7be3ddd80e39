"""Both word rules on difficult texts. The paper's defects are reproduced on purpose and listed."""

from __future__ import annotations

import time
import unicodedata

import pytest

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.nextword import rules
from aleatoric.nextword.rules import (
    Span,
    first_span,
    first_word,
    first_word_at_once,
    first_word_paper,
)

AWKWARD = [
    # text, corrected, paper
    ("", None, None),
    (" ", None, None),
    ("\n", None, None),
    ("...", None, None),
    ("\u2014 \u201c\u2026\u201d ?!", None, None),
    ("word", "word", "word"),
    (" word", "word", "word"),
    ("word.", "word", "word"),
    ("Word word", "Word", "Word"),
    # newlines and other white space
    ("said\nCome", "said", "saidCome"),
    ("\nsaid\nCome", "said", "saidCome"),
    ("\n\n", None, None),
    ("said\r\nCome", "said", "said\rCome"),
    ("one\ttwo", "one", "one\ttwo"),
    ("\tone", "one", "\tone"),
    ("one\u00a0two", "one", "one\u00a0two"),
    ("one\u2003two", "one", "one\u2003two"),
    ("one\u2028two", "one", "one\u2028two"),
    ("one\x0btwo", "one", "one\x0btwo"),
    # apostrophes
    ("it's late", "it's", "its"),
    ("it\u2019s late", "it\u2019s", "its"),
    ("it\u02bcs late", "it\u02bcs", "it\u02bcs"),  # a letter to Unicode, so to \w too
    ("dogs\u02bc tails", "dogs", "dogs\u02bc"),
    ("\u02bctis", "tis", "\u02bctis"),
    ("'tis", "tis", "tis"),
    ("'Tis the", "Tis", "Tis"),
    ("dogs' tails", "dogs", "dogs"),
    ("rock 'n' roll", "rock", "rock"),
    ("'n' roll", "n", "n"),
    ("o'clock", "o'clock", "oclock"),
    ("fo'c's'le", "fo'c's'le", "focsle"),
    ("don''t", "don", "dont"),
    ("'", None, None),
    # hyphens and dashes
    ("well-known, then", "well-known", "wellknown"),
    ("well\u2011known", "well\u2011known", "wellknown"),
    ("-known", "known", "known"),
    ("well- known", "well", "well"),
    ("well--known", "well", "wellknown"),
    ("well\u2014known", "well", "wellknown"),
    ("well\u2013known", "well", "wellknown"),
    ("well-'known", "well", "wellknown"),
    ("mother-in-law's", "mother-in-law's", "motherinlaws"),
    # numbers
    ("3.14 is", "3", "314"),
    ("1,000 men", "1", "1000"),
    ("5th", "5th", "5th"),
    ("$5 bill", "5", "5"),
    ("-5 degrees", "5", "5"),
    ("20-30", "20-30", "2030"),
    ("1990s", "1990s", "1990s"),
    ("x\u00b2", "x\u00b2", "x\u00b2"),
    # quotes, brackets, markup
    ('"Hello," he', "Hello", "Hello"),
    ("\u201cHello\u201d", "Hello", "Hello"),
    ("\u00abBonjour\u00bb", "Bonjour", "Bonjour"),
    ("(see below)", "see", "see"),
    ("<b>bold</b>", "b", "bboldb"),
    ("and/or", "and", "andor"),
    ("e.g. this", "e", "eg"),
    ("user@example.org", "user", "userexampleorg"),
    ("snake_case", "snake_case", "snake_case"),
    ("_emphasis_", "emphasis", "_emphasis_"),
    # scripts
    ("caf\u00e9 au", "caf\u00e9", "caf\u00e9"),
    ("cafe\u0301 au", "cafe\u0301", "cafe"),  # \w knows no combining marks
    ("\u0301accent", "accent", "accent"),
    ("na\u00efve", "na\u00efve", "na\u00efve"),
    ("猫が好き。犬", "猫が好き", "猫が好き犬"),
    ("\u300c\u732b\u300d", "\u732b", "\u732b"),
    ("مرحبا،", "مرحبا", "مرحبا"),
    ("שָׁלוֹם", "שָׁלוֹם", "שלום"),
    ("नमस्ते जी", "नमस्ते", "नमसत"),
    ("Αθήνα·", "Αθήνα", "Αθήνα"),
    # emoji and characters without width
    ("\U0001f600", None, None),
    ("\U0001f600 hi", "hi", "hi"),
    ("hi\U0001f600there", "hi", "hithere"),
    ("\U0001f468\u200d\U0001f469\u200d\U0001f467", None, None),
    ("zero\u200bwidth", "zero", "zerowidth"),
    ("soft\u00adhyphen", "soft\u00adhyphen", "softhyphen"),
    ("soft\u00ad hyphen", "soft", "soft"),
    ("\u0645\u06cc\u200c\u0631 \u0645\u0646", "\u0645\u06cc\u200c\u0631", "\u0645\u06cc\u0631"),
    ("\u0915\u094d\u200d\u0937 \u0939\u0948", "\u0915\u094d\u200d\u0937", "\u0915\u0937"),
    ("name_ is", "name", "name_"),
    ("a__b", "a", "a__b"),
    ("\ufeffmark", "mark", "mark"),
    ("\u202eright", "right", "right"),
    ("nul\x00byte", "nul", "nulbyte"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "corrected", "paper"), AWKWARD, ids=[ascii(a[0]) for a in AWKWARD]
)
def test_first_word_of_difficult_texts(text: str, corrected: str | None, paper: str | None) -> None:
    assert first_word(text) == corrected
    assert first_word_paper(text) == paper


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (" said", "said"),
        ("\n\tsaid he", "said"),
        ("said", "said"),
        (", said", None),
        ("'tis", None),
        ("\u201cYes", None),
        ("\u200bsaid", None),
        ("", None),
    ],
)
def test_first_word_at_once_rejects_leading_punctuation(text: str, word: str | None) -> None:
    assert first_word_at_once(text) == word


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("word", Span(0, 4, False)),
        ("word ", Span(0, 4, True)),
        ("word\n", Span(0, 4, True)),
        ("word'", Span(0, 4, False)),
        ("word' ", Span(0, 4, True)),
        ("word--", Span(0, 4, True)),
        ("it's", Span(0, 4, False)),
        (" it's.", Span(1, 5, True)),
        ("e\u0301", Span(0, 2, False)),
        ("a-\u0301", Span(0, 1, True)),
        ("?", None),
    ],
)
def test_word_ends_only_when_following_character_ends_it(text: str, span: Span | None) -> None:
    assert first_span(text) == span


@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, "!" * 1_000_000 + "a", "a-" * 500_000, "\u0301" * 1_000_000, " " * 1_000_000],
    ids=["letters", "punctuation", "hyphens", "marks", "spaces"],
)
@pytest.mark.parametrize("rule", [first_word, first_word_at_once, first_word_paper])
def test_megabyte_of_text_is_fast(rule: rules.WordRule, text: str) -> None:
    start = time.perf_counter()
    rule(text)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don\u2019t", "don't"),
        ("CAF\u00c9", "cafe\u0301"),
        ("Stra\u00dfe", "STRASSE"),
        ("well\u2011known", "Well-known"),
        ("\u212aelvin", "kelvin"),
        ("soft\u00adhyphen", "softhyphen"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645",
        ),
    ],
)
def test_equivalent_word_forms_compare_equal(one: str, other: str) -> None:
    assert rules.normalise(one) == rules.normalise(other)


@pytest.mark.parametrize(
    ("word", "shown"), [('light"', "light"), ("You're,", "youre"), ("\u2014", "")]
)
def test_punctuation_is_stripped_from_corpus_words(word: str, shown: str) -> None:
    assert rules.bare(word) == shown


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("\u6211\u559c\u6b22\u732b", "\u6211"),
        (" \u300c\u6211\u300d", "\u6211"),
        ("T\u6064", "T"),
        ("a-\u6064", "a"),
        ("a cat", "a"),
        ("\u0e19\u0e49\u0e33", "\u0e19\u0e49"),  # a Thai consonant keeps its tone mark
        ("?!", None),
    ],
)
def test_first_character_of_script_without_spaces(text: str, word: str | None) -> None:
    assert rules.first_character(text) == word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u6211\u559c\u6b22", True),
        ("\u732b\u304c\u597d\u304d", True),
        ("\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", True),
        ("\u0eaa\u0eb0\u0e9a\u0eb2\u0e8d\u0e94\u0eb5", True),
        ("\u179f\u17bd\u179f\u17d2\u178f\u17b8", True),
        ("\u1019\u1004\u103a\u1039\u1002\u101c\u102c\u1015\u102b", True),
        ("\uc548\ub155\ud558\uc138\uc694 \uc5ec\ub7ec\ubd84", False),  # Korean has spaces
        ("\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", False),
        ("the character \u732b means cat", False),
        ("abc\u732b\u732b", False),  # two of five
        ("ab\u732b\u732b", False),  # half is not most
        ("ab\u732b\u732b\u732b", True),
        ("\U0001f600", False),
        ("", False),
    ],
)
def test_scripts_without_spaces_are_detected(text: str, expected: bool) -> None:
    assert rules.is_spaceless(text) is expected


def test_rules_are_found_by_name() -> None:
    assert rules.rule_named("characters") is rules.first_character
    assert rules.rule_named("corrected") is first_word
    assert rules.rule_named("corrected", "condition") is first_word_at_once
    assert rules.rule_named("paper") is first_word_paper


def test_unknown_rule_is_rejected() -> None:
    for name in ("correct", "mine:cut"):
        with pytest.raises(UsageError, match=f"unknown word rule '{name}'; use .*corrected"):
            rules.rule_named(name)


def test_composed_and_decomposed_words_are_read_alike() -> None:
    text = "\u00e9t\u00e9, \u00c5ngstr\u00f6m"
    assert unicodedata.normalize("NFC", first_word(unicodedata.normalize("NFD", text)) or "") == (
        first_word(text)
    )


def test_installed_rule_is_found_without_scanning_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scoring looks the rule up for every item; listing packages takes 20 ms."""
    monkeypatch.setattr(registry, "entry_points", lambda **_: pytest.fail("packages were listed"))
    assert rules.rule_named("corrected") is rules.first_word


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["\u043f\u0440\u0438\u0432\u0435\u0442", "Hi"], False),
        (["\u0645\u0631\u062d\u0628\u0627"], False),
        (
            ["\uc548\ub155", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u05e9\u05dc\u05d5\u05dd"],
            False,
        ),
        (["\u0394\u03b5\u03bd", "not"], True),  # half of the letters
        (["e\u0301te\u0301", "\u0141\u00f3d\u017a", "Vi\u1ec7t", "stra\u00dfe"], True),
        (["12 + 3 = ?", "\u2026", ""], True),
        ([], True),
    ],
)
def test_latin_texts_are_detected(texts: list[str], expected: bool) -> None:
    assert rules.is_latin(texts) is expected


def test_english_is_known_by_its_frequent_words() -> None:
    assert rules.share_of_english(["The cat and THE dog", "of it"] * 40) == pytest.approx(3 / 5)
    assert rules.share_of_english(["Die Katze und der Hund"] * 40) == 0
    assert rules.share_of_english(["Die Katze und der Hund"] * 39) is None  # 195 words
    assert rules.share_of_english(["the", "of it"] * 400) is None
