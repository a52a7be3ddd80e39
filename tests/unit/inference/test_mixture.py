"""Kinds of truth learnt from crowds: simulated crowds against a slow count, mixtures recovered."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.inference import perfect
from aleatoric.inference.crowds import N_SPLITS, Crowds, crowd_of, simulated
from aleatoric.inference.mixture import N_CROWDS, likeliest, mixtures
from aleatoric.inference.shapes import Shape, shapes
from aleatoric.inference.sizes import Sizes
from aleatoric.metrics.calibration import Bins, ece, equal_width_edges

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=12).map(np.array)


@given(COUNTS.filter(lambda counts: counts.sum() > 1), st.integers(0, 99))
def test_a_crowd_is_told_by_its_two_first_words_and_their_number(counts, seed):
    first, second, kinds, agreed = crowd_of(counts, np.random.default_rng(seed))
    ordered = [n for _, n in Counter(dict(enumerate(counts.tolist()))).most_common()]
    assert (first, second, kinds) == (ordered[0], [*ordered, 0][1], len(ordered))
    assert agreed * N_SPLITS in range(N_SPLITS + 1)
    if kinds == 1:
        assert agreed == 1
    if first == 1 and kinds > 1:
        assert agreed == 0  # no word was said twice


@pytest.mark.parametrize("words", [3, 400])
def test_simulated_crowds_are_those_of_their_truth(words):
    """Few words, and so many that they are renamed: what crowds drawn one by one show."""
    truth = np.arange(1.0, words + 1) ** -1.0
    shape = Shape(0.0, (truth / truth.sum())[None])
    rng, sizes = np.random.default_rng(0), np.tile([9, 20], 3000)
    fast = simulated(shape, sizes, rng)
    slow = []
    for n in sizes.tolist():
        counts = rng.multinomial(n, shape.truths[0])
        slow.append((n, *crowd_of(counts[counts > 0], rng)))
    naive = Crowds(*np.array(slow).T)
    for name in ("first", "second", "kinds", "agreed"):
        one, other = getattr(fast, name), getattr(naive, name)
        for n in (9, 20):
            error = (one[sizes == n].var() / 3000 + other[sizes == n].var() / 3000) ** 0.5
            gap = abs(one[sizes == n].mean() - other[sizes == n].mean())
            assert gap < 4 * error, (name, n)


def test_kinds_that_made_the_crowds_are_found():
    rng, sizes = np.random.default_rng(1), np.full(1000, 40)
    # Everybody agrees in three of ten contexts, and hardly anybody in the others.
    one, flat = shapes()[0], next(s for s in shapes() if s.truths.shape == (1, 200))
    seen = simulated(one, sizes[:300], rng).tally() + simulated(flat, sizes[:700], rng).tally()
    found = mixtures(Sizes.of({40: 1000}), seen)
    assert found.shares[0, 0] == pytest.approx(0.3, abs=0.001)
    assert found.shares.sum(axis=1) == pytest.approx(1)
    long = [shape.truths.shape[1] >= 80 for shape in shapes()]
    assert found.shares[0, long].sum() == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("kind", [5, 30, 90, 200])
def test_people_who_agree_as_their_kinds_do_shift_nothing_and_others_do(kind):
    rng, sizes = np.random.default_rng(4), np.full(4000, 40)
    seen = simulated(shapes()[kind], sizes, rng).tally()
    agreeing = seen[:, 1].sum() / 4000
    shift = mixtures(Sizes.of({40: 4000}), seen).shifts[0]
    error = (agreeing * (1 - agreeing) / N_CROWDS) ** 0.5  # chances are known from so many crowds
    assert shift * agreeing * (1 - agreeing) == pytest.approx(0, abs=3 * error)
    # The same crowds, but for halves that never agree.
    seen = np.stack([seen.sum(axis=1), np.zeros(len(seen))], axis=1)
    assert (mixtures(Sizes.of({40: 4000}), seen).shifts < -0.5).all()


def test_likelihood_never_falls():
    rng = np.random.default_rng(2)
    chances, counted = rng.dirichlet(np.ones(20), 6), rng.integers(1, 9, 20).astype(float)
    best = likeliest(chances, counted)
    value = counted @ np.log(best @ chances)
    for other in rng.dirichlet(np.ones(6), 500):
        assert counted @ np.log(other @ chances) <= value + 1e-6


@pytest.mark.parametrize("draws", [0, 30])
def test_the_floor_of_one_kind_is_the_mean_error_of_perfect_models(draws, monkeypatch):
    """Item by item: draw a model and people from one truth, answer, and reckon ECE."""
    kind = next(i for i, s in enumerate(shapes()) if s.truths.shape == (1, 16) and i > 27)
    truth, n, rng = shapes()[kind].truths[0], 20, np.random.default_rng(3)
    edges, errors = equal_width_edges(), []
    for _ in range(40):
        confidence, right = np.zeros(200), np.zeros(200)
        for i in range(200):
            model = rng.multinomial(draws, truth) / draws if draws else truth
            answer = rng.choice(np.flatnonzero(model == model.max()))
            people = rng.multinomial(n, truth)
            majority = rng.choice(np.flatnonzero(people == people.max()))
            confidence[i], right[i] = model.max(), answer == majority
        errors.append(ece(confidence, right, edges))
    monkeypatch.setattr(perfect, "N_MODELS", 20_000)
    told = perfect.answers(kind, Sizes.of({(n, draws): 1}), Bins(edges))
    found = perfect.expected_error(told, "human", 200, rng)
    assert found == pytest.approx(np.mean(errors), abs=4 * np.std(errors) / 40**0.5)
