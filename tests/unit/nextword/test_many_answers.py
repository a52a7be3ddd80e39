"""Contexts with thousands of distinct answers: memory is linear in their number."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.inference.control import shared_orders
from aleatoric.levels.word_classes import by_cluster, by_tag
from aleatoric.levels.word_scoring import Settings, score_items
from aleatoric.nextword.answers import human_counts
from aleatoric.studies import distinguish, sample_size
from aleatoric.types import Case, Categorical, Choices, Draws, Item, Pair

N = 10_000
ITEM = Item("1:2", "1", "They saw the", tuple(f"w{i}" for i in range(N)))
DRAWS = Draws("1:2", {f"w{i}": 1 for i in range(N // 2, N + N // 2)})


def case() -> Case:
    human = Categorical.from_counts(human_counts(ITEM.responses))
    return Case(ITEM, Pair("1:2", "1", human, Categorical.from_counts(DRAWS.counts)))


def tagged() -> None:
    by_word = by_tag(lambda context, words: list(words))
    list(score_items([(ITEM, {"m": [DRAWS]})], Settings(Choices(), {}, {"tvd_syn": by_word})))


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """Fail if the block allocates more memory."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "work",
    [
        lambda: sample_size.measure([case()], seed=0),
        lambda: distinguish.distinguish([case()], seed=0),
        tagged,
    ],
    ids=["learning-curve", "distinguish", "tags"],
)
def test_memory_is_bounded_for_many_distinct_answers(work: Callable[[], object]) -> None:
    with at_most(300):
        work()


def test_exact_search_memory_is_bounded_for_many_words() -> None:
    """1000 words with shared prefixes: a full entry-by-word table would take over 700 MiB."""
    pytest.importorskip("transformers")
    from lms import tiny

    from aleatoric.nextword.exact import Question, Search, exact

    lm, n = tiny("gpt2"), 1000
    question = Question("There are", ITEM.responses[:n], (1 / n,) * n)
    with at_most(150):
        [found] = exact(lm, [question], search=Search(every_word=True))
    assert min(found.low) > 0


def test_paper_protocol_halves_of_many_answers_are_complete() -> None:
    orders = shared_orders(100_000, 2, 0)
    assert (np.sort(orders, axis=1) == np.arange(100_000)).all()


def test_too_many_words_to_cluster_are_rejected() -> None:
    classes = by_cluster(lambda words: {word: np.zeros(2) for word in words}, seed=0)
    with pytest.raises(UsageError, match="item '1:2': 10,000 different words are too many"):
        classes(ITEM, ITEM.responses)
