"""Joining the probabilities of human answers with the model's most likely words."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from aleatoric.nextword.beginnings import beginnings
from aleatoric.nextword.bounds import TopWords, WordProbabilities
from aleatoric.nextword.head import Head
from aleatoric.nextword.live import _joined
from aleatoric.nextword.tree import TokenPassage, packs_of
from aleatoric.types import FAILED, Categorical

PEOPLE = Categorical(("a", "b"), (0.5, 0.5), 0.0, 4)


def found(*values: float, failed: float = 0.0) -> WordProbabilities:
    return WordProbabilities(("a", "b"), values, values, values, 0.0, failed, 1)


def top(word: str, p: float, failed: float = 0.0) -> Head:
    tops = TopWords((word,), (p,), (p,), 1 - p)
    return Head(Categorical((word,), (p,), 1 - p, None), tops, True, failed, 1)


def test_zero_total_probability_gives_no_distribution():
    assert _joined(PEOPLE, found(0.0, 0.0, failed=1.0), top("a", 0.0, 1.0), False) is None


def test_texts_without_a_word_are_an_outcome_if_kept():
    joined = _joined(PEOPLE, found(0.2, 0.1, failed=0.5), top("c", 0.4, 0.5), True)
    assert joined is not None
    assert joined.words.as_dict() == pytest.approx({"a": 0.2, "b": 0.1, "c": 0.2, FAILED: 0.5})
    dropped = _joined(PEOPLE, found(0.4, 0.2, failed=0.5), top("c", 0.4, 0.5), False)
    assert dropped is not None
    assert dropped.words.as_dict() == pytest.approx({"a": 0.4, "b": 0.2, "c": 0.4})


def test_texts_without_a_word_that_only_one_search_found_are_counted():
    low = replace(found(0.2, 0.1, failed=0.3), open=0.4)
    head = replace(top("c", 0.1, 0.4), open_words=({None: 0.5, "c": 0.5}, {None: 0.5, "d": 0.5}))
    kept = _joined(PEOPLE, low, head, True)
    assert kept is not None
    assert kept.failed == pytest.approx(0.4 + 0.6 * 0.5)
    assert kept.words.as_dict()[FAILED] == pytest.approx(0.4)
    dropped = _joined(PEOPLE, replace(low, high=(1.0, 1.0)), head, False)
    assert dropped is not None
    assert dropped.failed == kept.failed
    # Values are conditional on a word, whose probability is 0.3 instead of 0.7.
    assert dropped.words.as_dict()["a"] == pytest.approx(0.2 * 0.7 / 0.3)


def test_long_passages_are_not_batched_together():
    passages = [TokenPassage((1,) * 300, ((i, 300),)) for i in range(5)]
    assert [len(pack) for pack in packs_of(passages, 48, 700)] == [2, 2, 1]


def test_many_combining_marks_are_fast():
    assert len(list(beginnings("a" + "\u0301" * 40))) < 100
