"""Per-item statistics at the word level: people, their control, and each system on one item."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference import control
from aleatoric.inference.floor import Asked
from aleatoric.metrics import splits as by_split
from aleatoric.metrics.debiased import leave_pair_out
from aleatoric.metrics.overlap import mode
from aleatoric.metrics.tvd import tvd
from aleatoric.streams import stream
from aleatoric.types import Categorical, Choices, Draws, Item, Pair
from aleatoric.words.distributions import cut, human_counts, model_distribution, pool, regroup
from aleatoric.words.floors import calibration_floors, distance_floors
from aleatoric.words.rules import WordRule, bare, rule_named

HUMAN, ORACLE = "human", "oracle"
CONTROLS = (HUMAN, ORACLE)
TARGETS = ("original", "human", "oracle")

Floats = NDArray[np.float64]
Metric = Callable[[Pair], float | None]
Abstraction = Callable[[Item, Sequence[str]], Mapping[str, str]]
"""Words of an item's context -> their classes: parts of speech, clusters of meaning, ..."""


@dataclass(frozen=True)
class Settings:
    """What scoring needs to know: the protocol, the metrics, the splits and the seed."""

    choices: Choices
    metrics: Mapping[str, Metric]
    abstractions: Mapping[str, Abstraction] = field(default_factory=dict)
    n_splits: int = 20
    seed: int = 0

    @property
    def rule(self) -> WordRule:
        """The word rule of the protocol."""
        return rule_named(self.choices.rule, self.choices.lead)


@dataclass(frozen=True)
class Scored:
    """One system's statistics on one item: scalars, and what differs by random split."""

    system: str
    item_id: str
    group: str
    row: int
    values: Mapping[str, float | None]
    splits: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class People:
    """An item's answers, counted, with their random halves."""

    item: Item
    counts: NDArray[np.int64]
    distribution: Categorical
    majority: str
    halves: control.Halves | None


Answered = tuple[Item, Mapping[str, Sequence[Draws]]]
"""An item with the draws of every system that answered it."""


@dataclass(frozen=True)
class Draft:
    """Statistics of a system on an item that still lack its floors."""

    scored: Scored
    distances: Asked | None = None
    calibration: Asked | None = None


def score_items(answered: Sequence[Answered], settings: Settings) -> Iterator[list[Scored]]:
    """For each item the statistics of the two controls and of every system that answered it.

    The floors of all items are worked out side by side, which takes a fraction of the time; an
    item's numbers do not depend on its company.
    """
    drafts = [list(_drafts(item, systems, settings)) for item, systems in answered]
    every = [draft for own in drafts for draft in own]
    distances = iter(distance_floors([d.distances for d in every if d.distances]))
    calibration = iter(calibration_floors([d.calibration for d in every if d.calibration]))
    for own in drafts:
        yield [
            replace(
                draft.scored,
                values={
                    **draft.scored.values,
                    **(next(distances) if draft.distances else {}),
                    **(next(calibration) if draft.calibration else {}),
                },
            )
            for draft in own
        ]


def _drafts(
    item: Item, systems: Mapping[str, Sequence[Draws]], settings: Settings
) -> Iterator[Draft]:
    people = read_people(item, settings)
    yield Draft(_score_human(people, settings))
    yield _score_oracle(people, settings)
    for system, rows in systems.items():
        for draws in _prepared(rows, settings):
            yield _score_model(people, system, draws, settings)


def pair_of(item: Item, rows: Sequence[Draws], choices: Choices) -> Iterator[Pair]:
    """People and one system on one item; several pairs where repeated rows stay separate.

    >>> item = Item("1:2", "1", "There", ("are", "is"))
    >>> [p.model.n for p in pair_of(item, [Draws("1:2", {"are": 3})], Choices())]
    [3]
    """
    human = Categorical.from_counts(human_counts(item.responses))
    for draws in _prepared(rows, Settings(choices, {})):
        model = model_distribution(draws, choices.failed == "outcome")
        if model is not None:
            yield Pair(item.id, item.group, human, model)


def read_people(item: Item, settings: Settings) -> People:
    """Count an item's answers and split them into random halves."""
    counts = human_counts(item.responses)
    distribution = Categorical.from_counts(counts)
    numbers = np.array(list(counts.values()))
    halves = _halves(item, numbers, settings)
    return People(item, numbers, distribution, mode(distribution), halves)


def _prepared(rows: Sequence[Draws], settings: Settings) -> Iterable[Draws]:
    done = [cut(row, settings.rule) for row in rows]
    return done if settings.choices.repeats == "separate" else [pool(done)]


def _halves(item: Item, counts: NDArray[np.int64], settings: Settings) -> control.Halves | None:
    n = int(counts.sum())
    if n < 2:
        return None
    codes = np.repeat(np.arange(len(counts)), counts)
    if settings.choices.splits == "shared":
        orders = _shared_orders(n, settings.n_splits, settings.seed)
    else:
        orders = control.independent_orders(n, settings.n_splits, settings.seed, item.id)
    return control.split_halves(codes, orders)


_shared_orders = lru_cache(maxsize=256)(control.shared_orders)


def _score_model(people: People, system: str, draws: Draws, settings: Settings) -> Draft:
    item = people.item
    model = model_distribution(draws, settings.choices.failed == "outcome")
    values: dict[str, float | None] = {"failed": draws.failed, "n_human": people.distribution.n}
    if model is None:
        return Draft(Scored(system, item.id, item.group, draws.row, values))
    pair = Pair(item.id, item.group, people.distribution, model)
    values |= {name: metric(pair) for name, metric in settings.metrics.items()}
    values |= {name: _abstract_tvd(item, pair, f) for name, f in settings.abstractions.items()}
    values["n_model"] = model.n
    answer, confidence = mode(model), max(model.probs)
    values |= _correctness(people, answer, confidence, settings.choices)
    oracle = _agreement(answer, people, settings)
    values["correct_oracle"] = _mean(oracle)
    values |= _exact_bounds(draws)
    scored = Scored(system, item.id, item.group, draws.row, values, {"correct_oracle": oracle})
    sizes = people.distribution.n or 1, model.n
    return Draft(
        scored,
        _asked(people, "floor", *sizes, settings),
        _asked(people, "ece floor", *sizes, settings),
    )


def _exact_bounds(draws: Draws) -> dict[str, float | None]:
    if draws.exact is None:
        return {}
    exact = draws.exact
    return {
        "tvd_low": exact.tvd_low,
        "tvd_high": exact.tvd_high,
        "mode_certified": float(exact.certified),
    }


def _score_human(people: People, settings: Settings) -> Scored:
    item, own = people.item, people.distribution
    values: dict[str, float | None] = {"n_human": own.n, "n_model": own.n}
    values |= _correctness(people, people.majority, max(own.probs), settings.choices)
    oracle = _agreement(people.majority, people, settings)
    values["correct_oracle"] = _mean(oracle)
    return Scored(HUMAN, item.id, item.group, 0, values, {"correct_oracle": oracle})


def _score_oracle(people: People, settings: Settings) -> Draft:
    """One half plays the model, the other is the target, for every split."""
    item, halves = people.item, people.halves
    if halves is None:
        return Draft(Scored(ORACLE, item.id, item.group, 0, {"n_human": people.distribution.n}))
    target, player = halves.target, halves.player
    found = {
        "tvd": by_split.tvd(target.counts, player.counts),
        "tvd_debiased": leave_pair_out(target.counts, player.counts),
        "sq_distance": by_split.sq_distance(target.counts, player.counts),
        "js": by_split.js(target.counts, player.counts),
        "confidence": player.counts.max(axis=1) / player.n,
    }
    found |= {
        name: _abstract_oracle_tvd(people, halves, f) for name, f in settings.abstractions.items()
    }
    found |= _oracle_correctness(people, halves, settings.choices)
    means = np.stack(list(found.values())).mean(axis=1).tolist()
    values = {name: _or_none(mean) for name, mean in zip(found, means, strict=True)}
    values |= {"n_human": target.n, "n_model": player.n}
    scored = Scored(ORACLE, item.id, item.group, 0, values, found)
    return Draft(scored, _asked(people, "floor", target.n, player.n, settings))


def _correctness(
    people: People, answer: str, confidence: float, choices: Choices
) -> dict[str, float | None]:
    return {
        "confidence": confidence,
        "correct_original": _matches_original(answer, people.item.original, choices),
        "correct_human": float(answer == people.majority),
    }


def _oracle_correctness(
    people: People, halves: control.Halves, choices: Choices
) -> dict[str, Floats]:
    words, original = people.distribution.support, people.item.original
    answers, targets = halves.player.majority, halves.target.majority
    # A few different words are all splits' majorities: each is compared once.
    matches = {i: _matches_original(words[i], original, choices) for i in set(answers.tolist())}
    return {
        "correct_original": np.array([_or_nan(matches[i]) for i in answers.tolist()]),
        "correct_human": (answers == words.index(people.majority)).astype(np.float64),
        "correct_oracle": (answers == targets).astype(np.float64),
    }


def _matches_original(answer: str, original: str | None, choices: Choices) -> float | None:
    if original is None:
        return None
    if choices.original == "raw":
        return float(answer == original)
    # Both sides bare, so that "you're" matches where either side lost its apostrophe.
    target = bare(original)
    return float(bare(answer) == target) if target else None


def _agreement(answer: str, people: People, settings: Settings) -> Floats:
    """Whether an answer is the majority of the target half, by split."""
    if people.halves is None:
        return np.full(settings.n_splits, np.nan)
    words = people.distribution.support
    index = words.index(answer) if answer in people.distribution.as_dict() else -1
    agrees: Floats = (people.halves.target.majority == index).astype(np.float64)
    return agrees


def _asked(
    people: People, what: str, n_human: int, n_model: int | None, settings: Settings
) -> Asked:
    """A floor is asked for: what a perfect model would score at these sizes."""
    rng = stream(settings.seed, what, people.item.id, n_human, n_model or 0)
    return Asked(people.counts, n_human, n_model, rng)


def _abstract_tvd(item: Item, pair: Pair, abstraction: Abstraction) -> float:
    words = list(dict.fromkeys((*pair.human.support, *pair.model.support)))
    classes = abstraction(item, words)
    human, model = regroup(pair.human, classes), regroup(pair.model, classes)
    return tvd(Pair(pair.item_id, pair.group, human, model))


def _abstract_oracle_tvd(
    people: People, halves: control.Halves, abstraction: Abstraction
) -> Floats:
    words = people.distribution.support
    classes = abstraction(people.item, words)
    names = list(dict.fromkeys(classes[word] for word in words))
    member = np.array([[classes[word] == name for name in names] for word in words], dtype=np.int64)
    return by_split.tvd(halves.target.counts @ member, halves.player.counts @ member)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _mean(splits: Floats) -> float | None:
    """The mean over splits; none of an item's splits is defined, or all are."""
    return _or_none(float(splits.sum()) / len(splits))
