"""A perfect model's first answers: what the floor of a calibration error is made of.

A calibration error exists for many items only. So what is simulated an item is how sure perfect
models are of their first choice, and how often it is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.inference.agreement import (
    FEWEST,
    PARTS,
    Counts,
    Leaders,
    Parts,
    Votes,
    equal_size,
    octaves,
    split_agreement,
)
from aleatoric.inference.floor import Asked
from aleatoric.inference.truths import Floats, Rows, chao_rows, drawn_again, tables

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
    steps: float
    """From halves of the people to these crowds."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Of perfect models on one item, (truths, replicates) under Chao's estimate and its own."""

    confidence: Floats
    original: Floats
    """Whether the first choice was the passage's own word."""
    majorities: Mapping[str, Majority]
    parts: Parts


def answers(asked: Sequence[Asked], n_replicates: int) -> Iterator[Answers]:
    """What perfect models answer to each item.

    >>> ask = Asked(np.array([40]), 40, 40, np.random.default_rng(0))
    >>> found = next(answers([ask], 1))
    >>> found.confidence[:, 0].tolist(), found.majorities["human"].right, found.parts.halves
    ([1.0, 1.0], [1.0], 1.0)
    """
    if not asked:
        return
    truths, parted = _truths(asked), _parted(asked)  # in this order: both draw
    drawn = [_Drawn.of(*each, n_replicates) for each in zip(asked, truths, strict=True)]
    confidence, original = _first_choices(drawn)
    alike, right = _majorities(drawn)
    for i, ask in enumerate(asked):
        own, estimated = alike[i].tolist(), alike[i, -len(PARTS) :].tolist()
        majorities = _told(ask, own, right[i].tolist(), parted[i] is not None)
        # With too few people to part, the estimate is all there is: nothing leads beyond it.
        halves = parted[i] or estimated
        yield Answers(confidence[i], original[i], majorities, Parts(*halves, *estimated))


def _parted(asked: Sequence[Asked]) -> list[tuple[float, float] | None]:
    """How often halves and quarters of each item's people agree, where these are enough."""
    places = [i for i, ask in enumerate(asked) if ask.counts.sum() >= FEWEST]
    own = split_agreement([asked[i].counts for i in places], [asked[i].rng for i in places])
    known = dict(zip(places, own, strict=True))
    return [known.get(i) for i in range(len(asked))]


def _truths(asked: Sequence[Asked]) -> list[Floats]:
    """Of each item Chao's estimate, and that of people drawn anew from it."""
    first = chao_rows(Rows.of([ask.counts for ask in asked]))
    crowds = [
        drawn_again(truth, int(ask.counts.sum()), ask.rng, 1)[0]
        for ask, truth in zip(asked, first.split(), strict=True)
    ]
    return tables([first, chao_rows(Rows.of(crowds))])


@dataclass(frozen=True, eq=False)
class _Drawn:
    """All random numbers of one item, (replicates, truths, outcomes) and (sizes, crowds, ...)."""

    truths: Floats
    model: Floats
    shaken: Floats
    """The same, no two outcomes equal: of these, any is the first choice."""
    chances: Floats
    crowds: Counts

    @classmethod
    def of(cls, ask: Asked, truths: Floats, n_replicates: int) -> _Drawn:
        model = _shares(truths, ask.n_model, ask.rng, n_replicates)
        shaken = model + 1e-9 * ask.rng.random(model.shape)
        chances = ask.rng.random(model.shape[:2])
        sizes = np.array(_sizes(ask))[:, None]
        crowds = ask.rng.multinomial(sizes, truths[0], size=(len(sizes), N_CROWDS))
        return cls(truths, model, shaken, chances, crowds)


def _sizes(ask: Asked) -> list[int]:
    """Of the crowds: those asked for, as knowing ones of equal size, and parts of the people."""
    n_people, n_model = int(ask.counts.sum()), ask.n_model or math.inf
    asked = [max(1, ask.n_human // part) for part in MAJORITIES.values()]
    equal = [equal_size(n, n_model, n_people) for n in asked]
    return [*asked, *equal, *(max(1, n_people // part) for part in PARTS)]


def _first_choices(drawn: Sequence[_Drawn]) -> tuple[Floats, Floats]:
    """Of each item (truths, replicates): how sure models are, and whether they are right."""
    shape = len(drawn), *drawn[0].chances.shape
    leaders = Leaders.of(Rows.of_tables([own.shaken for own in drawn]))
    # Should two shaken shares be equal after all, the first of them.
    outcome = leaders.outcome[np.searchsorted(leaders.row, np.arange(math.prod(shape)))]
    truths = Rows.of_tables([own.truths for own in drawn])
    starts = truths.starts[:-1].reshape(len(drawn), 1, -1)
    of_answer = truths.values[starts + outcome.reshape(shape)]
    original = np.stack([own.chances for own in drawn]) < of_answer
    confidence = Rows.of_tables([own.model for own in drawn]).tops().reshape(shape)
    return confidence.transpose(0, 2, 1), original.astype(np.float64).transpose(0, 2, 1)


def _majorities(drawn: Sequence[_Drawn]) -> tuple[Floats, Floats]:
    """Of each item how often crowds of each size agree, and (majorities, replicates) models."""
    votes = Votes.of(Rows.of_tables([own.crowds for own in drawn]), N_CROWDS)
    leaders = Leaders.of(Rows.of_tables([own.model[:, 0] for own in drawn]))
    n_replicates, n_sizes = len(drawn[0].model), len(drawn[0].crowds)
    starts = votes.given.starts[:-1].reshape(-1, n_sizes)[leaders.row // n_replicates]
    right = [
        np.bincount(leaders.row, leaders.share * votes.given.values[own + leaders.outcome])
        for own in starts.T[: len(MAJORITIES)]
    ]
    shares = np.stack(right).reshape(len(right), -1, n_replicates) / N_CROWDS
    return votes.agreement.reshape(-1, n_sizes), shares.transpose(1, 0, 2)


def _told(
    ask: Asked, alike: Sequence[float], right: Sequence[Sequence[float]], parted: bool
) -> dict[str, Majority]:
    n_people, n_model = int(ask.counts.sum()), ask.n_model or math.inf
    found = {}
    for place, (name, part) in enumerate(MAJORITIES.items()):
        equal, steps = alike[-len(PARTS)], 0.0
        if parted:
            equal = alike[len(MAJORITIES) + place]
            steps = octaves(n_people, max(1, ask.n_human // part), n_model)
        found[name] = Majority(right[place], equal, steps)
    return found


def _shares(
    truths: Floats, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> Floats:
    """(replicates, truths, outcomes); an exact model has the truth's own."""
    if n_model is None:
        return np.broadcast_to(truths, (n_replicates, *truths.shape))
    drawn: Floats = rng.multinomial(n_model, truths, size=(n_replicates, len(truths))) / n_model
    return drawn
