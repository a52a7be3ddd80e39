"""Agreement of crowds: equal to counting pair by pair, and unbiased for crowds of half the size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.inference.agreement import (
    N_SHUFFLES,
    Parts,
    Votes,
    led_on,
    split_agreement,
)
from aleatoric.inference.truths import Rows


def naive_alike(one: np.ndarray, other: np.ndarray) -> float:
    """The chance that two crowds name the same word, each any of its likeliest."""
    mine, theirs = ({*np.flatnonzero(crowd == crowd.max())} for crowd in (one, other))
    return len(mine & theirs) / (len(mine) * len(theirs))


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=6))
def test_agreement_is_that_of_all_pairs(rows):
    crowds = np.array(rows)
    wanted = np.mean([naive_alike(a, b) for a, b in combinations(crowds, 2)])
    assert Votes.of(Rows.of([*crowds]), len(crowds)).agreement == pytest.approx([wanted])


@given(st.lists(st.lists(st.integers(1, 6), min_size=4, max_size=7), min_size=1, max_size=5))
def test_parts_are_those_of_shuffled_people(rows):
    counts = [np.array(row) for row in rows]
    found = split_agreement(counts, [np.random.default_rng(i) for i in range(len(rows))])
    for i, own in enumerate(counts):
        words, n = np.repeat(np.arange(len(own)), own), int(own.sum())
        orders = np.random.default_rng(i).random((N_SHUFFLES, n)).argsort(axis=-1)
        for parts, value in zip((2, 4), found[i], strict=True):
            wanted = []
            for order in orders:
                cut = words[order][: n // parts * parts].reshape(parts, -1)
                crowds = [np.bincount(part, minlength=len(own)) for part in cut]
                wanted += [naive_alike(a, b) for a, b in combinations(crowds, 2)]
            assert value == pytest.approx(np.mean(wanted))


def test_halves_agree_as_often_as_crowds_of_half_the_size():
    rng, truth, n = np.random.default_rng(0), np.array([0.4, 0.3, 0.2, 0.1]), 20
    people = rng.multinomial(n, truth, size=4000)
    halves = np.mean([half for half, _ in split_agreement([*people], [rng] * len(people))])
    pairs = rng.multinomial(n // 2, truth, size=(20_000, 2))
    wanted = np.mean([naive_alike(one, other) for one, other in pairs])
    assert halves == pytest.approx(wanted, abs=0.015)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2), st.floats(-1, 1), st.integers(1, 10**6))
def test_an_estimate_that_agrees_like_people_is_left_alone(shares, steps, n):
    halves, quarters = shares
    same = Parts(halves, quarters, halves, quarters)
    on = led_on(same, steps, 0.5, 0.5, n)
    assert led_on(same, steps, 0.6, 0.6, n) == pytest.approx([on[0], 0.6, on[2], 0.6])
    assert all(0 <= share <= 1 for share in on)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_or_none_leads_to_no_infinite_odds(share):
    parts = Parts(share, share, 0.4, 0.3)
    assert all(np.isfinite(led_on(parts, 1.0, 0.5, 0.6, 10)))
