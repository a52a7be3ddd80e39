"""Scoring a batch of items: each as if scored alone, matching per-item formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.inference import control
from aleatoric.levels.word_scoring import Scored, Settings, score_items
from aleatoric.metrics.agreement import sq_distance
from aleatoric.metrics.distances import js, tvd
from aleatoric.types import Categorical, Choices, Draws, Item, Pair

WORDS = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=15)
PAGES = st.lists(WORDS, min_size=1, max_size=6)
SPLITS = 3


def items_of(answers: list[list[str]]) -> list[Item]:
    return [Item(f"{i}", "g", "", tuple(words), "a") for i, words in enumerate(answers)]


def scored(items: list[Item], splits: str = "independent", seed: int = 0) -> list[list[Scored]]:
    choices = Choices(splits=splits)
    draws = {"toy": [Draws("", {"a": 2, "c": 1})]}
    asked = Settings(choices, {"tvd": tvd}, n_splits=SPLITS, seed=seed)
    return list(score_items([(item, draws) for item in items], asked))


def naive_half(answers: list[str]) -> tuple[Categorical, str]:
    """Shares of a half and its most frequent answer; ties go to the one complete first."""
    counts = {word: answers.count(word) for word in answers}
    ends = {word: place for place, word in enumerate(answers)}
    best = max(counts, key=lambda word: (counts[word], -ends[word]))
    return Categorical.from_counts(counts), best


@settings(max_examples=50, deadline=None)
@given(PAGES, st.sampled_from([0, 7]))
def test_batched_halves_match_per_item_halves(page, seed):
    items = items_of([words for words in page if len(words) > 1])
    for item, (_, oracle, _) in zip(items, scored(items, seed=seed), strict=True):
        words = list(dict.fromkeys(item.responses))
        ordered = sorted(item.responses, key=words.index)
        orders = control.independent_orders(len(ordered), SPLITS, seed, item.id)
        for split, order in enumerate(orders):
            drawn = [ordered[i] for i in order]
            (left, goal), (right, answer) = (
                naive_half(half) for half in (drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :])
            )
            pair = Pair("", "", left, right)
            found = {name: own[split] for name, own in oracle.splits.items()}
            assert math.isclose(found["tvd"], tvd(pair), abs_tol=1e-12)
            assert math.isclose(found["js"], js(pair), abs_tol=1e-12)
            squared = sq_distance(pair)
            assert (
                np.isnan(found["sq_distance"])
                if squared is None
                else math.isclose(found["sq_distance"], squared, abs_tol=1e-12)
            )
            assert found["confidence"] == max(right.probs)
            assert found["correct_oracle"] == (answer == goal)
            assert found["correct_original"] == (answer == "a")


@settings(max_examples=50, deadline=None)
@given(PAGES, st.sampled_from(["independent", "shared"]))
def test_scores_do_not_depend_on_other_items_in_batch(page, splits):
    """Bitwise."""
    items = items_of(page)
    for item, together in zip(items, scored(items, splits), strict=True):
        for one, alone in zip(together, scored([item], splits)[0], strict=True):
            assert one.values == alone.values
            assert one.splits.keys() == alone.splits.keys()
            for name, own in one.splits.items():
                np.testing.assert_array_equal(own, alone.splits[name])


@pytest.mark.parametrize("splits", ["independent", "shared"])
def test_splits_depend_on_seed(splits):
    items = items_of([list("aaabbcdefgh")])
    found = [scored(items, splits, seed)[0][1].splits["tvd"].tolist() for seed in (0, 0, 50)]
    assert found[0] == found[1] != found[2]
