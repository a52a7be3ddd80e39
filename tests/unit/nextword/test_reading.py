"""People's answers and a model's words under one rule."""

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
def test_both_sides_meet_whoever_wrote_it(given: str, word: str) -> None:
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
def test_an_answer_without_a_word_is_none(given: str) -> None:
    [item], notes = read_items(Item("1", "1", "Then", (given, "she")))
    assert item.responses == ("she",)
    assert "1 of 2 answers (1 left out because they hold no word)" in notes[0]
    found = read_one(Draws("1", {given: 2, "she": 1}, failed=1))
    assert (dict(found.counts), found.failed) == ({"she": 1}, 3)
    assert read_one(Draws("1", {}, logprobs={given: -1.0, "she": -2.0})).logprobs == {"she": -2.0}


@pytest.mark.parametrize(
    ("answers", "said"),
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
def test_the_note_names_what_was_shortened(answers: tuple[str, ...], said: str) -> None:
    _, [note] = read_items(Item("1", "1", "Then", answers))
    assert said in note


def test_contexts_that_end_in_a_space_are_noted() -> None:
    items = [Item("a", "1", "Then ", ("she",)), Item("b", "1", "Then", ("she",))]
    [note] = read_items(*items)[1]
    assert note.startswith("1 of 2 contexts end in white space")


@pytest.mark.parametrize("given", ["\uff21\uff22", "\u0130stanbul", "\ufb01n", "\u00df"])
def test_unusual_forms_meet_on_both_sides(given: str) -> None:
    [item], _ = read_items(Item("1", "1", "Then", (given, f"{given}.")))
    model = model_distribution(read_one(Draws("1", {given: 1, f" {given}!": 1})), False)
    assert model is not None
    assert model.support == tuple(human_counts(item.responses))


def test_an_item_without_any_word_is_left_out_with_a_note() -> None:
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
def test_notes_name_five_of_the_items_without_a_word(n: int, told: str) -> None:
    items = [Item(f"no{i}", "1", "Then", ("?",)) for i in range(n)]
    _, notes = read_items(*items, Item("x", "1", "Then", ("she",)))
    assert notes[-1].endswith(f": {told}")


def test_notes_show_three_of_the_answers_that_were_shortened() -> None:
    answers = ("New York", "San Juan", "New York", "Los Angeles", "Las Vegas", "she.", "!")
    _, (note,) = read_items(Item("1", "1", "Then", answers))
    assert "changed 7 of 7 answers (1 without punctuation; 5 shortened" in note
    assert "'Los Angeles' to 'Los'; 1 left out" in note


def test_notes_show_three_of_the_answers_that_became_one_word() -> None:
    answers = ("new york", "new year", "new car", "new dog", "new cat")
    _, (note,) = read_items(Item("1", "1", "Then", answers))
    assert note.endswith("such as 'new york' and 'new year' and 'new car' to 'new'")


def test_notes_remember_ten_thousand_words_that_answers_were_shortened_to() -> None:
    changes, answer = AnswerChanges(), Reading.of(Choices()).answer
    for i in range(10_001):
        changes.read(f"w{i} first", 1, answer)
    for i in (9_999, 10_000):
        changes.read(f"w{i} second", 1, answer)
    assert changes.shortened == 10_003
    assert changes.note("answers").endswith(
        "different answers became one word, such as 'w9999 first' and 'w9999 second' to 'w9999'"
    )


def test_every_form_with_a_probability_is_counted_once_in_the_note() -> None:
    given = {"she.": -1.0, "she": -2.0, "New York": -3.0, "?": -4.0}
    changes = AnswerChanges()
    list(read_draws([Draws("1", {}, logprobs=given)], Reading.of(Choices()), changes))
    assert (changes.total, changes.trimmed, changes.shortened, changes.wordless) == (4, 1, 1, 1)


def test_persons_and_originals_follow_their_answers() -> None:
    item = Item("1", "1", "Then", ("?", "she", "he."), "She,", persons=("ann", "bob", "cy"))
    [found], _ = read_items(item)
    assert (found.responses, found.persons, found.original) == (
        ("she", "he"),
        ("bob", "cy"),
        "She,",
    )


def test_a_corpus_without_any_word_is_refused() -> None:
    with pytest.raises(UsageError, match="no answer of the corpus holds a word"):
        read_items(Item("a", "1", "Then", ("?", "!")))


def test_forms_of_a_word_add_up() -> None:
    found = read_one(Draws("1", {"she.": 2, "she": 1}))
    assert dict(found.counts) == {"she": 3}
    given = {"she.": math.log(0.1), "she": math.log(0.2), '"she"': math.log(0.3)}
    logprobs = read_one(Draws("1", {}, logprobs=given)).logprobs
    assert logprobs is not None
    assert logprobs["she"] == pytest.approx(math.log(0.6))


def test_the_papers_protocol_folds_case_alone() -> None:
    answers = ("She", "she.", "New York", "???")
    [item], notes = read_items(Item("1", "1", "Then", answers), choices=Choices.paper())
    assert item.responses == answers
    assert not notes
    draws = Draws("1", {"she.": 1, "\u00a0": 1})
    assert read_one(draws, Choices.paper()) == draws


def test_folded_answers_stay_as_they_are_but_for_blanks() -> None:
    choices = Choices(answers="folded")
    found = read_one(Draws("1", {"She.": 1, "..": 1, "\u00a0": 1}), choices)
    assert (dict(found.counts), found.failed) == ({"She.": 1, "..": 1}, 1)


def test_reading_again_changes_nothing() -> None:
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
def test_scripts_without_spaces_need_a_segmenter(context: str, answers: tuple[str, ...]) -> None:
    item = Item("7", "1", context, answers)
    for choices in (Choices(), Choices.paper()):
        with pytest.raises(UsageError, match=r"item '7'.*--word-rule module:function"):
            read_items(item, choices=choices)
    assert read_items(item, choices=Choices(rule="characters"))[0]


@pytest.mark.parametrize("answers", [("\u732b", "cat", "dog"), ("\u732b", "\u72d7", "a", "b", "c")])
def test_a_minority_of_foreign_answers_is_no_foreign_corpus(answers: tuple[str, ...]) -> None:
    [item], _ = read_items(Item("7", "1", "Then", answers))
    assert len(item.responses) == len(answers)


def test_numbers_lead_the_examples_of_answers_that_became_one_word() -> None:
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
def test_a_users_own_rule_reads_answers_texts_and_originals(
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
def test_a_users_rule_that_gives_no_word_is_refused(rule: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Reading.of(Choices(rule=rule)).answer("she")


def test_the_lead_is_about_texts_alone() -> None:
    reading = Reading.of(Choices(lead="condition"))
    assert (reading.text(", she"), reading.answer(", she")) == (None, "she")
