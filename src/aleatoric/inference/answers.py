"""A perfect model's first answers: what the floor of a calibration error is made of.

A calibration error exists for many items only. So what is simulated an item is how sure perfect
models are of their first choice, and how often it is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.floor import Asked
from aleatoric.inference.truths import Floats, Rows, chao_rows, drawn_again, stacked

KINDS = ("confidence", "original", "human", "oracle")
"""How sure a model is; whether it is right by the passage's own word, people's majority, and the
majority of a half of them."""
N_CROWDS = 8
"""Crowds whose majorities an answer is held against: a share has less noise than one majority."""


def answers(asked: Sequence[Asked], n_replicates: int) -> Iterator[Floats]:
    """Of each item (kinds, truths, replicates), under Chao's estimate and under its own estimate.

    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> next(answers([ask], 1))[:, 0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if not asked:
        return
    first = chao_rows(Rows.of([ask.counts for ask in asked])).split()
    crowds = [
        drawn_again(truth, int(ask.counts.sum()), ask.rng, 1)[0]
        for ask, truth in zip(asked, first, strict=True)
    ]
    again = chao_rows(Rows.of(crowds)).split()
    for ask, truth, second in zip(asked, first, again, strict=True):
        yield answered(stacked([truth, second]), ask.n_human, ask.n_model, ask.rng, n_replicates)


def answered(
    truths: Floats, n_human: int, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> Floats:
    """(kinds, truths, replicates) of perfect models under each of (truths, outcomes).

    >>> answered(np.array([[1.0]]), 40, None, np.random.default_rng(0), 2)[2].tolist()
    [[1.0, 1.0]]
    """
    model = _shares(truths, n_model, rng, n_replicates)
    answer = _first(model, rng)
    each = np.arange(len(truths))
    original = rng.random(answer.shape) < truths[each, answer]
    people, half = (
        _first(rng.multinomial(n, truths, size=(N_CROWDS, len(truths))), rng)
        for n in (n_human, max(1, n_human // 2))
    )
    by_crowd = [(own[:, None] == answer).mean(axis=0) for own in (people, half)]
    found = np.stack([model.max(axis=-1), original, *by_crowd])
    return found.transpose(0, 2, 1)


def _shares(
    truths: Floats, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> Floats:
    """(replicates, truths, outcomes); an exact model has the truth's own."""
    if n_model is None:
        return np.broadcast_to(truths, (n_replicates, *truths.shape))
    drawn: Floats = rng.multinomial(n_model, truths, size=(n_replicates, len(truths))) / n_model
    return drawn


def _first(shares: Floats | NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.intp]:
    """The likeliest outcome of each row; of equals, any: the order of outcomes means nothing."""
    shaken: Floats = shares + 1e-9 * rng.random(shares.shape)
    return np.asarray(shaken.argmax(axis=-1), dtype=np.intp)
