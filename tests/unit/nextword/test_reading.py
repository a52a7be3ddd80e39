"""Human answers and model words are normalised by one word rule."""

from __future__ import annotations

import math

import pytest

from aleatoric.errors import UsageError
from aleatoric.nextword.answers import (
    AnswerChanges,
    Reading,
    ReadItems,
    cut,
    human_counts,
    model_distribution,
    read_draws,
)
from aleatoric.nextword.rules import first_word
from aleatoric.types import Choices, Draws, Item

FORMS = [
    ("she.", "she"),
    ("She", "she"),
    (' "she" ', "she"),
    ("New York", "new"),
    ("U.S.", "u"),
    ("l\u2019homme", "l'homme"),
    ("L'HOMME!", "l'homme"),
    ("\u00bfQu\u00e9?", "qu\u00e9"),
    ("Stra\u00dfe,", "strasse"),
    ("\u0645\u06cc\u200c\u0631\u0648\u0645", "\u0645\u06cc\u0631\u0648\u0645"),
    ("N/A", "n"),
]
WORDLESS = ["???", "...", "\U0001f600", "\u2014"]


def read_items(*items: Item, choices: Choices | None = None) -> tuple[list[Item], list[str]]:
    read = ReadItems(items, Reading.of(choices or Choices()))
    return list(read), list(read.notes())


def read_one(draws: Draws, choices: Choices | None = None) -> Draws:
    [found] = read_draws([draws], Reading.of(choices or Choices()), AnswerChanges())
    return found


@pytest.mark.parametrize(("given", "word"), FORMS)
def test_human_and_model_words_are_normalised_alike(given: str, word: str) -> None:
    [item], _ = read_items(Item("1", "1", "Then", (given, word)))
    assert human_counts(item.responses) == {word: 2}
    recordings = (
        Draws("1", {given: 1}),
        Draws("1", {}, texts=(given,)),
        Draws("1", {}, logprobs={given: -1.0}),
    )
    for draws in recordings:
        model = model_distribution(cut(read_one(draws), first_word), keep_failed=False)
        assert model is not None
        assert model.support == (word,)


@pytest.mark.parametrize("given", WORDLESS)
def test_answer_without_a_word_is_dropped_and_counted(given: str) -> None:
    [item], notes = read_items(Item("1", "1", "Then", (given, "she")))
    assert item.responses == ("she",)
    assert "1 of 2 answers (1 left out because they hold no word)" in notes[0]
    found = read_one(Draws("1", {given: 2, "she": 1}, failed=1))
    assert (dict(found.counts), found.failed) == ({"she": 1}, 3)
    assert read_one(Draws("1", {}, logprobs={given: -1.0, "she": -2.0})).logprobs == {"she": -2.0}


@pytest.mark.parametrize(
    ("answers", "expected_message"),
    [
        (
            ("3.5", "3.9", "four"),
            "different answers became one word, such as '3.5' and '3.9' to '3'",
        ),
        (("1,000", "a b", "c d", "e f", "10:30"), "'1,000' to '1'"),
        (("a b", "c d", "e f", "1,000"), "'1,000' to '1'"),
        (("lech\u00f3n asado",), "'lech\u00f3n asado' to 'lech\u00f3n'"),
        (("x\u202e y",), r"'x\u202e y' to 'x'"),
        (("x " + "\x1b" * 40 + "y",), "'x " + r"\x1b" * 27 + "\u2026' to 'x'"),
    ],
)
def test_note_shows_shortened_answers(answers: tuple[str, ...], expected_message: str) -> None:
    _, [note] = read_items(Item("1", "1", "Then", answers))
    assert expected_message in note


def test_contexts_that_end_in_a_space_are_noted() -> None:
    items = [Item("a", "1", "Then ", ("she",)), Item("b", "1", "Then", ("she",))]
    [note] = read_items(*items)[1]
    assert note.startswith("1 of 2 contexts end in white space")


@pytest.mark.parametrize("given", ["\uff21\uff22", "\u0130stanbul", "\ufb01n", "\u00df"])
def test_unusual_unicode_forms_are_normalised_alike(given: str) -> None:
    [item], _ = read_items(Item("1", "1", "Then", (given, f"{given}.")))
    model = model_distribution(read_one(Draws("1", {given: 1, f" {given}!": 1})), False)
    assert model is not None
    assert model.support == tuple(human_counts(item.responses))


def test_item_without_any_word_is_excluded_with_note() -> None:
    items = [Item("a", "1", "Then", ("?", "!")), Item("b", "1", "Then", ("she",))]
    found, notes = read_items(*items)
    assert [item.id for item in found] == ["b"]
    assert "no answer holds a word, and the item is left out: 'a'" in notes


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (2, "'no0', 'no1'"),
        (5, "'no0', 'no1', 'no2', 'no3', 'no4'"),
        (7, "'no0', 'no1', 'no2', 'no3', 'no4' and 2 more"),
    ],
)
def test_note_names_at_most_five_items_without_a_word(n: int, told: str) -> None:
    items = [Item(f"no{i}", "1", "Then", ("?",)) for i in range(n)]
    _, notes = read_items(*items, Item("x", "1", "Then", ("she",)))
    assert notes[-1].endswith(f": {told}")


def test_note_shows_at_most_three_shortened_answers() -> None:
    answers = ("New York", "San Juan", "New York", "Los Angeles", "Las Vegas", "she.", "!")
    _, (note,) = read_items(Item("1", "1", "Then", answers))
    assert "changed 7 of 7 answers (1 without punctuation; 5 shortened" in note
    assert "'Los Angeles' to 'Los'; 1 left out" in note


def test_note_shows_at_most_three_merged_answers() -> None:
    answers = ("new york", "new year", "new car", "new dog", "new cat")
    _, (note,) = read_items(Item("1", "1", "Then", answers))
    assert note.endswith("such as 'new york' and 'new year' and 'new car' to 'new'")


def test_notes_track_at_most_10000_shortened_words() -> None:
    changes, answer = AnswerChanges(), Reading.of(Choices()).answer
    for i in range(10_001):
        changes.read(f"w{i} first", 1, answer)
    for i in (9_999, 10_000):
        changes.read(f"w{i} second", 1, answer)
    assert changes.shortened == 10_003
    assert changes.note("answers").endswith(
        "different answers became one word, such as 'w9999 first' and 'w9999 second' to 'w9999'"
    )


def test_note_counts_each_form_with_probability_once() -> None:
    given = {"she.": -1.0, "she": -2.0, "New York": -3.0, "?": -4.0}
    changes = AnswerChanges()
    list(read_draws([Draws("1", {}, logprobs=given)], Reading.of(Choices()), changes))
    assert (changes.total, changes.trimmed, changes.shortened, changes.wordless) == (4, 1, 1, 1)


def test_participants_and_originals_stay_aligned_with_answers() -> None:
    item = Item("1", "1", "Then", ("?", "she", "he."), "She,", persons=("ann", "bob", "cy"))
    [found], _ = read_items(item)
    assert (found.responses, found.persons, found.original) == (
        ("she", "he"),
        ("bob", "cy"),
        "She,",
    )


def test_corpus_without_any_word_is_rejected() -> None:
    with pytest.raises(UsageError, match="no answer of the corpus holds a word"):
        read_items(Item("a", "1", "Then", ("?", "!")))


def test_counts_of_word_forms_are_summed() -> None:
    found = read_one(Draws("1", {"she.": 2, "she": 1}))
    assert dict(found.counts) == {"she": 3}
    given = {"she.": math.log(0.1), "she": math.log(0.2), '"she"': math.log(0.3)}
    logprobs = read_one(Draws("1", {}, logprobs=given)).logprobs
    assert logprobs is not None
    assert logprobs["she"] == pytest.approx(math.log(0.6))


def test_paper_protocol_only_folds_case() -> None:
    answers = ("She", "she.", "New York", "???")
    [item], notes = read_items(Item("1", "1", "Then", answers), choices=Choices.paper())
    assert item.responses == answers
    assert not notes
    draws = Draws("1", {"she.": 1, "\u00a0": 1})
    assert read_one(draws, Choices.paper()) == draws


def test_folded_answers_are_kept_except_blanks() -> None:
    choices = Choices(answers="folded")
    found = read_one(Draws("1", {"She.": 1, "..": 1, "\u00a0": 1}), choices)
    assert (dict(found.counts), found.failed) == ({"She.": 1, "..": 1}, 1)


def test_reading_is_idempotent() -> None:
    items, _ = read_items(Item("1", "1", "Then", tuple(given for given, _ in FORMS)))
    again, notes = read_items(*items)
    assert again == items
    assert not notes


@pytest.mark.parametrize(
    ("context", "answers"),
    [
        ("\u6211\u559c\u6b22", ("cat",)),
        ("Then", ("\u732b", "\u72d7", "cat")),
        ("\u0e09\u0e31\u0e19", ("x",)),
    ],
)
def test_scripts_without_spaces_require_segmenter(context: str, answers: tuple[str, ...]) -> None:
    item = Item("7", "1", context, answers)
    for choices in (Choices(), Choices.paper()):
        with pytest.raises(UsageError, match=r"item '7'.*--word-rule module:function"):
            read_items(item, choices=choices)
    assert read_items(item, choices=Choices(rule="characters"))[0]


@pytest.mark.parametrize("answers", [("\u732b", "cat", "dog"), ("\u732b", "\u72d7", "a", "b", "c")])
def test_few_answers_in_other_script_do_not_require_segmenter(answers: tuple[str, ...]) -> None:
    [item], _ = read_items(Item("7", "1", "Then", answers))
    assert len(item.responses) == len(answers)


def test_numbers_come_first_in_examples_of_merged_answers() -> None:
    answers = ("new york", "new year", "3.5", "3.9")
    _, (note,) = read_items(Item("1", "1", "Then", answers))
    assert "such as '3.5' and '3.9' to '3', 'new york' and 'new year' to 'new'" in note


@pytest.mark.parametrize(
    ("rule", "given", "word"),
    [
        ("string:capwords", "new york", "New York"),
        ("builtins:str", " she ", "she"),
        ("builtins:str", "  ", None),
        ("os:getenv", "NO_SUCH_VARIABLE", None),
    ],
)
def test_user_defined_rule_reads_answers_texts_and_originals(
    rule: str, given: str, word: str | None
) -> None:
    choices = Choices(rule=rule)
    reading = Reading.of(choices)
    assert reading.text(given) == reading.answer(given) == word
    if word is not None:
        [item], _ = read_items(Item("1", "1", "Then", (given,), given), choices=choices)
        assert (item.responses, item.original) == ((word,), word)
        found = read_one(Draws("1", {}, texts=(given, given)), choices)
        assert dict(found.counts) == {word: 2}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("builtins:len", "returned int for"),
        ("builtins:int", "failed on"),
        ("math:pi", "no function"),
    ],
)
def test_user_defined_rule_without_words_is_rejected(rule: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Reading.of(Choices(rule=rule)).answer("she")


def test_lead_option_applies_only_to_texts() -> None:
    reading = Reading.of(Choices(lead="condition"))
    assert (reading.text(", she"), reading.answer(", she")) == (None, "she")
