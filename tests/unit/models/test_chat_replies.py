"""Parsing of chat replies, and which words in them are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.models.chat import list_prompt, parse_list, parse_word, word_prompt

ONE_WORD = [
    ("dog", "dog"),
    (" Dog\n", "Dog"),
    ('"dog"', "dog"),
    ("“dog.”", "dog"),
    ("**dog**", "dog"),
    ("`dog`", "dog"),
    ("```\ndog\n```", "dog"),
    ("... dog", "dog"),
    ("dog :)", "dog"),
    ("- dog", "dog"),
    ("1. dog", "dog"),
    ("1) dog", "dog"),
    ("don't", "don't"),
    ("don’t!", "don’t"),
    ("well-known", "well-known"),
    ("20-year-old", "20-year-old"),
    ("cafe\u0301", "cafe\u0301"),
    ("हिन्दी", "हिन्दी"),
    ("3,000", "3,000"),
    ("3.5", "3.5"),
    ("10:30", "10:30"),
    ("1990.", "1990"),
    ("<think>dog or cat? dog</think>\n\ndog", "dog"),
    ("dog or cat? dog</think>dog", "dog"),
]
NO_WORD = [
    "",
    "  \n ",
    "...",
    "🐕",
    "___",
    "ice cream",
    "dog\ncat",
    "dog, cat",
    "and/or",
    "U.S.",
    "The word is dog.",
    "Word: dog",
    "Sure! dog",
    "dog (a pet)",
    "I'm sorry, but I can't help with that.",
    "<think>dog or cat",
    "\0failed outcome",
]


@pytest.mark.parametrize(("reply", "word"), ONE_WORD)
def test_parse_word_accepts_single_word_replies(reply: str, word: str) -> None:
    assert parse_word(reply) == word


@pytest.mark.parametrize("reply", NO_WORD)
def test_reply_without_a_word_counts_as_failed(reply: str) -> None:
    assert parse_word(reply) is None


PETS = ("dog", "cat", "mouse")
LISTS = [
    "1. dog\n2. cat\n3. mouse",
    "1) dog\n2) cat\n3) mouse",
    "1: dog\n2: cat\n3: mouse",
    "(1) dog\n(2) cat\n(3) mouse",
    "1.dog\n2.cat\n3.mouse",
    "1. dog 2. cat 3. mouse",
    "1. **dog**\n2. **cat**\n3. **mouse**",
    "- dog\n- cat\n- mouse",
    "* dog\n* cat\n* mouse",
    "• dog\n• cat\n• mouse",
    "dog • cat • mouse",
    "dog\ncat\nmouse",
    "dog\n\ncat\n\nmouse\n",
    "dog,\ncat,\nmouse,",
    "dog, cat, mouse",
    "dog, cat, mouse.",
    "dog, cat, and mouse",
    "dog; cat; mouse",
    "dog | cat | mouse",
    "dog、cat、mouse",
    "dog cat mouse",
    '["dog", "cat", "mouse"]',
    "```\ndog\ncat\nmouse\n```",
    "<think>which?</think>dog, cat, mouse",
]
TALKED = [
    '{"words": ["dog", "cat", "mouse"]}',
    "Sure, here are 3 words: dog, cat, mouse",
    "Sure, here are 3 words:\n1. dog\n2. cat\n3. mouse",
    "Sure, here are 3 words:\n\ndog\ncat\nmouse",
    "**Here are 3 words:**\ndog, cat, mouse",
    "Sure!\ndog\ncat\nmouse",
    "Words: dog, cat, mouse",
    "dog, cat, mouse\n\nLet me know if you want more!",
    "1. dog\n2. cat\n3. mouse\n\nI hope this helps.",
    "Okay: 1. dog 2. cat 3. mouse",
]


@pytest.mark.parametrize("reply", [*LISTS, *TALKED])
def test_parse_list_accepts_common_list_formats(reply: str) -> None:
    assert parse_list(reply, 3) == (PETS, 0, 0)


REFUSALS = [
    "",
    "I'm sorry, but I can't help with that.",
    "I cannot provide a list of words.",
    "As an AI language model, I do not have preferences, and I cannot guess.",
    "<think>dog, cat",
    "🐕, 🐈",
]


@pytest.mark.parametrize("reply", REFUSALS)
def test_reply_without_a_list_counts_all_words_as_failed(reply: str) -> None:
    assert parse_list(reply, 40) == ((), 40, 0)


@pytest.mark.parametrize(
    ("reply", "asked", "expected"),
    [
        ("1. dog\n2. ice cream\n3. cat", 3, (("dog", "cat"), 1, 0)),
        ("1. dog\n2.\n3. cat", 3, (("dog", "cat"), 1, 0)),
        ("1. dog - a pet\n2. cat", 2, (("cat",), 1, 0)),
        ("dog, cat", 5, (("dog", "cat"), 0, 3)),
        ("dog, cat, mouse", 2, (("dog", "cat"), 0, 0)),
        ("dog, ice cream, cat, mouse", 2, (("dog", "cat"), 0, 0)),
        ("dog, dog, cat", 3, (("dog", "dog", "cat"), 0, 0)),
        ("1. 20\n2. 3,000", 2, (("20", "3,000"), 0, 0)),
    ],
)
def test_words_failures_and_missing_are_counted(
    reply: str, asked: int, expected: tuple[object, ...]
) -> None:
    assert parse_list(reply, asked) == expected


def test_last_entry_of_truncated_list_is_dropped() -> None:
    assert parse_list("1. dog\n2. cat\n3. mou", 4, is_cut=True) == (("dog", "cat"), 1, 1)


@given(st.text(alphabet=st.sampled_from("ab1 .,:;-*\n'\"`<think>/!"), max_size=60), st.booleans())
def test_counts_of_any_reply_sum_to_requested_number(reply: str, is_cut: bool) -> None:
    words, failed, missing = parse_list(reply, 5, is_cut)
    assert len(words) + failed + missing == 5
    assert all(parse_word(word) == word for word in words)
    assert min(failed, missing) >= 0


def test_prompts_contain_context_verbatim() -> None:
    # Predict the Next Word, App. C.2.
    assert word_prompt("He said <CONTEXT> 40") == (
        "You are ChatGPT, a large language model trained by OpenAI. I want you to answer which "
        "word is a plausible continuation to the context He said <CONTEXT> 40. I have no specific "
        "intent, I just want your guess. Return only the word and nothing else."
    )
    assert list_prompt("There are") == (
        "You are ChatGPT, a large language model trained by OpenAI. I want you to answer which 40 "
        "words are plausible continuations to the context There are. I have no specific intent, I "
        "just want your guess. Return only the words and nothing else."
    )


def test_parse_word_of_single_modifier_letter() -> None:
    assert parse_word(" ʼ") == "ʼ"  # a letter for Unicode, and also a joiner
