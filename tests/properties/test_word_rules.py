"""Properties of the word rules that hold for every text."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from aleatoric.nextword.rules import (
    JOINERS,
    first_span,
    first_word,
    first_word_at_once,
    first_word_paper,
    is_word_character,
    normalise,
)

AWKWARD = (
    "aB7 é\u0301\n\r\t'\u2019\u02bc-\u2011.,_!\u00a0\u200b\u200c\u200d\u00ad😀猫\u0915\u094d\u05d0"
)
texts = st.one_of(st.text(), st.text(alphabet=AWKWARD, max_size=12))
fillers = st.text(alphabet=" \n\t.,!?\u2014'\"-_😀\u00a0", max_size=6)
words = st.from_regex(r"[a-zé0-9]+(['\u2019-][a-zé0-9]+){0,2}", fullmatch=True)


@given(texts)
def test_words_consist_of_letters_digits_and_inner_punctuation(text: str) -> None:
    word = first_word(text)
    if word is not None:
        assert all(is_word_character(c) or c in JOINERS for c in word)
        assert not any(c.isspace() for c in word)
        assert word[0].isalnum()
        assert word[-1] not in JOINERS
        assert word in text


@given(texts)
def test_word_exists_iff_text_has_letter_or_digit(text: str) -> None:
    letters = [c for c in text if c.isalnum() and c not in JOINERS]
    assert (first_word(text) is None) == (not letters)


@given(texts)
def test_rules_are_idempotent(text: str) -> None:
    for rule in (first_word, first_word_at_once, first_word_paper):
        word = rule(text)
        if word is not None:
            assert rule(word) == word


@given(fillers, words, texts)
def test_leading_non_word_characters_are_ignored(before: str, word: str, after: str) -> None:
    assert first_word(before + word + after) == first_word(word + after)


@given(words, st.sampled_from(" \n.,!?\u2014\u00a0😀"), texts)
def test_text_after_word_end_is_ignored(word: str, end: str, after: str) -> None:
    assert first_word(word + end + after) == word


@given(words, words)
def test_words_are_not_joined_across_newlines(one: str, other: str) -> None:
    assert first_word(f"{one}\n{other}") == one
    assert first_word(f"\n{one}\n{other}") == one
    assert first_word_paper(f"{one}\n{other}") == first_word_paper(one + other)


@given(texts, texts)
def test_ended_word_never_changes(text: str, more: str) -> None:
    span = first_span(text)
    if span is not None and span.ended:
        assert first_span(text + more) == span


@given(texts)
def test_unfinished_word_can_still_grow(text: str) -> None:
    span = first_span(text)
    if span is not None and not span.ended:
        assert first_word(text + "x") != first_word(text)
        assert first_word(text + " ") == first_word(text)


@given(texts)
def test_conditioning_only_rejects_words(text: str) -> None:
    word = first_word_at_once(text)
    assert word in (None, first_word(text))
    assert (word is None) == (first_word(text.lstrip()[:1]) is None)


@given(texts)
def test_paper_rule_removes_spaces_newlines_and_punctuation(text: str) -> None:
    word = first_word_paper(text)
    if word is not None:
        assert word
        assert not set(word) & set(" \n.,!?'-")


@given(texts)
def test_normal_forms_are_idempotent_and_ignore_case_and_composition(word: str) -> None:
    normal = normalise(word)
    assert normalise(normal) == normal
    assert normalise(unicodedata.normalize("NFC", word)) == normal
    assert normalise(unicodedata.normalize("NFD", word)) == normal


@given(words)
def test_normal_forms_ignore_case(word: str) -> None:
    assert normalise(word.upper()) == normalise(word)
