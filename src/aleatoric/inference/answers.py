"""A perfect model's first answers: what the floor of a calibration error is made of.

A calibration error exists for many items only. So what is simulated an item is how sure perfect
models are of their first choice, and how often it is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.agreement import (
    FEWEST,
    PARTS,
    agreement,
    equal_size,
    firsts,
    octaves,
    split_agreement,
)
from aleatoric.inference.floor import Asked
from aleatoric.inference.truths import Floats, Rows, chao_rows, drawn_again, stacked

MAJORITIES = {"human": 1, "oracle": 2}
"""Of people, and of a half of them: by how much their number is divided."""
N_CROWDS = 8
"""Crowds whose majorities an answer is held against: a share has less noise than one majority."""


@dataclass(frozen=True)
class Majority:
    """How often perfect models answer as a majority does, and what tells more of it."""

    right: Sequence[float]
    """Under the estimated truth, a replicate."""
    equal: float
    """There, of two crowds of equal size that know as much as the model and the people."""
    gap: float
    """By how much more people agree than crowds of the estimate do, halves and quarters led on."""
    steps: float
    """From halves of the people to these crowds."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Of perfect models on one item, (truths, replicates) under Chao's estimate and its own."""

    confidence: Floats
    original: Floats
    """Whether the first choice was the passage's own word."""
    majorities: Mapping[str, Majority]
    halves: float
    quarters: float
    """How often two halves of the people agree on their first choice, and two quarters."""


def answers(asked: Sequence[Asked], n_replicates: int) -> Iterator[Answers]:
    """What perfect models answer to each item.

    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> found = next(answers([ask], 1))
    >>> found.confidence[:, 0].tolist(), found.majorities["human"].right, found.halves
    ([1.0, 1.0], [1.0], 1.0)
    """
    if not asked:
        return
    first = chao_rows(Rows.of([ask.counts for ask in asked])).split()
    crowds = [
        drawn_again(truth, int(ask.counts.sum()), ask.rng, 1)[0]
        for ask, truth in zip(asked, first, strict=True)
    ]
    again = chao_rows(Rows.of(crowds)).split()
    parted = iter(_parted(asked))
    for ask, truth, second in zip(asked, first, again, strict=True):
        model = _shares(stacked([truth, second]), ask.n_model, ask.rng, n_replicates)
        own = next(parted) if ask.counts.sum() >= FEWEST else None
        yield _answered(ask, stacked([truth, second]), model, own)


def _parted(asked: Sequence[Asked]) -> list[tuple[float, float]]:
    enough = [ask for ask in asked if ask.counts.sum() >= FEWEST]
    return split_agreement([ask.counts for ask in enough], [ask.rng for ask in enough])


def _answered(
    ask: Asked, truths: Floats, model: Floats, parted: tuple[float, float] | None
) -> Answers:
    answer = _first(model, ask.rng)
    of_answer = truths[np.arange(len(truths)), answer]
    original = (ask.rng.random(answer.shape) < of_answer).astype(np.float64)
    majorities = _majorities(ask, truths[0], firsts(model[:, 0]), parted)
    # With too few people to part, the estimate is all there is: nothing leads beyond it.
    halves, quarters = parted or (majorities["human"].equal,) * 2
    return Answers(model.max(axis=-1).T, original.T, majorities, halves, quarters)


def _majorities(
    ask: Asked, truth: Floats, chosen: Floats, parted: tuple[float, float] | None
) -> dict[str, Majority]:
    n_people, n_model = int(ask.counts.sum()), ask.n_model or math.inf
    asked = {name: max(1, ask.n_human // part) for name, part in MAJORITIES.items()}
    equal = {name: equal_size(n, n_model, n_people) for name, n in asked.items()}
    parts = [max(1, n_people // part) for part in PARTS]
    sizes = [*asked.values(), *equal.values(), *parts]
    size = (len(sizes), N_CROWDS)
    crowds = firsts(ask.rng.multinomial(np.array(sizes)[:, None], truth, size=size))
    alike = agreement(crowds[len(asked) :]).tolist()
    found = {}
    for place, name in enumerate(asked):
        steps, gap = 0.0, 0.0
        if parted:
            steps = octaves(n_people, asked[name], n_model)
            near, far = (a - b for a, b in zip(parted, alike[-2:], strict=True))
            gap = near + steps * (near - far)
        right = (crowds[place].mean(axis=0) * chosen).sum(axis=-1).tolist()
        found[name] = Majority(right, alike[place], gap, steps)
    return found


def _shares(
    truths: Floats, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> Floats:
    """(replicates, truths, outcomes); an exact model has the truth's own."""
    if n_model is None:
        return np.broadcast_to(truths, (n_replicates, *truths.shape))
    drawn: Floats = rng.multinomial(n_model, truths, size=(n_replicates, len(truths))) / n_model
    return drawn


def _first(shares: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """The likeliest outcome of each row; of equals, any: the order of outcomes means nothing."""
    shaken: Floats = shares + 1e-9 * rng.random(shares.shape)
    return np.asarray(shaken.argmax(axis=-1), dtype=np.intp)
