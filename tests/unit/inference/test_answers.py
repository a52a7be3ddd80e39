"""Perfect models' answers to a page of items: those of each item worked out by itself."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.inference.agreement import equal_size, octaves, split_agreement
from aleatoric.inference.answers import N_CROWDS, answers
from aleatoric.inference.floor import Asked
from aleatoric.inference.truths import chao

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=12).map(np.array)
SIZES = [(20, None), (40, 1000), (9, 10), (1, 1)]


def ask_of(place: int, counts: np.ndarray) -> Asked:
    return Asked(counts, *SIZES[place % len(SIZES)], np.random.default_rng(place))


def firsts(counts: np.ndarray) -> np.ndarray:
    """The likeliest outcome of each row as weights; those that tie share it."""
    leads = counts == counts.max(axis=-1, keepdims=True)
    return leads / leads.sum(axis=-1, keepdims=True)


def agreement(chosen: np.ndarray) -> np.ndarray:
    """Of (..., crowds, outcomes) the share of pairs of crowds with the same first choice."""
    n = chosen.shape[-2]
    met = chosen @ np.swapaxes(chosen, -1, -2)
    return (met.sum(axis=(-2, -1)) - np.trace(met, axis1=-2, axis2=-1)) / (n * (n - 1))


def naive(ask: Asked, n_replicates: int) -> list[float]:
    """One item, in the order in which its random numbers are drawn."""
    n, rng = int(ask.counts.sum()), ask.rng
    n_model = ask.n_model or math.inf
    truth = chao(ask.counts)
    crowd = rng.multinomial(n, truth, size=1)[0]
    again = chao(crowd[crowd > 0])
    truths = np.zeros((2, max(len(truth), len(again))))
    truths[0, : len(truth)], truths[1, : len(again)] = truth, again
    parted = split_agreement([ask.counts], [rng])[0] if n >= 4 else None
    model = np.stack([truths] * n_replicates)
    if ask.n_model:
        model = rng.multinomial(ask.n_model, truths, size=model.shape[:2]) / ask.n_model
    answer = (model + 1e-9 * rng.random(model.shape)).argmax(axis=-1)
    original = rng.random(answer.shape) < truths[np.arange(2), answer]
    asked = [max(1, ask.n_human // part) for part in (1, 2)]
    equal = [equal_size(size, n_model, n) for size in asked]
    sizes = np.array([*asked, *equal, *(max(1, n // part) for part in (2, 4))])
    crowds = firsts(rng.multinomial(sizes[:, None], truths[0], size=(len(sizes), N_CROWDS)))
    alike = agreement(crowds)
    found = [*model.max(axis=-1).T.ravel(), *original.T.ravel()]
    for place, size in enumerate(asked):
        steps = octaves(n, size, n_model) if parted else 0.0
        found += [*(crowds[place].mean(axis=0) * firsts(model[:, 0])).sum(axis=-1)]
        found += [alike[2 + place] if parted else alike[-2], steps]
    return [*found, *(parted or alike[-2:]), *alike[-2:]]


@settings(max_examples=40)
@given(st.lists(COUNTS.filter(lambda counts: counts.sum() > 1), min_size=1, max_size=6))
def test_a_page_has_the_answers_of_its_items(rows):
    found = answers([ask_of(i, row) for i, row in enumerate(rows)], 2)
    for i, own in enumerate(found):
        values = [*own.confidence.ravel(), *own.original.ravel()]
        for majority in own.majorities.values():
            values += [*majority.right, majority.equal, majority.steps]
        values += astuple(own.parts)
        np.testing.assert_allclose(values, naive(ask_of(i, rows[i]), 2), atol=1e-12)
