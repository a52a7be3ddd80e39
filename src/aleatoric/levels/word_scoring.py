"""Per-item statistics at the word level: people, their control, and each system on one item."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference import control
from aleatoric.inference.noise import perfect_tvd
from aleatoric.inference.persons import changes_without_each
from aleatoric.metrics.agreement import (
    Agreement,
    agreements_of_counts,
    cross_agreement,
    mode,
    self_agreement,
)
from aleatoric.metrics.distances import js_of_counts, leave_pair_out, tvd, tvd_of_counts
from aleatoric.metrics.entropy import log_loss
from aleatoric.nextword.answers import cut, human_counts, model_distribution, pool, regroup
from aleatoric.nextword.rules import WordRule, bare, is_code, normalise, rule_named
from aleatoric.types import Categorical, Choices, Draws, Floats, Ints, Item, Pair

HUMAN, ORACLE = "human", "oracle"
CONTROLS = (HUMAN, ORACLE)
CELLS_AT_ONCE = 500_000
"""Of the table of random halves: a page of items has a tenth of it, unless answers are many."""

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
    """An item's answers, counted."""

    item: Item
    counts: Ints
    distribution: Categorical
    majority: str

    @property
    def n(self) -> int:
        """How many people answered."""
        return len(self.item.responses)


Answered = tuple[Item, Mapping[str, Sequence[Draws]]]
"""An item with the draws of every system that answered it."""


@dataclass(frozen=True)
class Control:
    """People against people on one item: their statistics, and what the target halves gave."""

    scored: Scored
    majorities: NDArray[np.int64] | None = None
    """The majority of the target half per split, as a number of a word; none for one answer."""
    half: Categorical | None = None
    """The target half of the first split."""


def score_items(answered: Sequence[Answered], settings: Settings) -> Iterator[list[Scored]]:
    """For each item the statistics of the two controls and of every system that answered it.

    Halves of all items are scored together, which takes a fraction of the time; an item's numbers
    do not depend on the other items.
    """
    everybody = [read_people(item) for item, _ in answered]
    controls = _score_oracles(everybody, settings)
    for people, own, (_, systems) in zip(everybody, controls, answered, strict=True):
        yield [
            _score_human(people, own, settings),
            own.scored,
            *(
                _score_model(people, own, system, draws, settings)
                for system, rows in systems.items()
                for draws in _prepared(rows, settings)
            ),
        ]


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


def person_changes(answered: Answered, choices: Choices) -> Iterator[tuple[str, Floats]]:
    """For each system of an item: its statistics' changes if one person had not answered.

    >>> item = Item("1:2", "1", "There", ("are", "is", "are"), persons=("p1", "p2", "p3"))
    >>> [(system, found.shape) for system, found in person_changes((item, {}), Choices())]
    [('human', (3, 4))]
    """
    item, systems = answered
    words = [normalise(response) for response in item.responses]
    yield HUMAN, changes_without_each(words, None)
    for system, rows in systems.items():
        for pair in pair_of(item, rows, choices):
            is_known = pair.model.n is None or pair.model.n > 1
            yield system, changes_without_each(words, pair.model.as_dict(), is_known)


def read_people(item: Item) -> People:
    """Count an item's answers."""
    counts = human_counts(item.responses)
    distribution = Categorical.from_counts(counts)
    return People(item, np.array(list(counts.values())), distribution, mode(distribution))


def _prepared(rows: Sequence[Draws], settings: Settings) -> Iterable[Draws]:
    # Runs of older versions hold raw texts; others hold words.
    done = [cut(row, settings.rule) if row.texts else row for row in rows]
    return done if settings.choices.repeats == "separate" else [pool(done)]


_shared_orders = lru_cache(maxsize=256)(control.shared_orders)


def _score_model(
    people: People, own: Control, system: str, draws: Draws, settings: Settings
) -> Scored:
    item = people.item
    model = model_distribution(draws, settings.choices.failed == "outcome")
    values: dict[str, float | None] = {"failed": draws.failed, "n_human": people.distribution.n}
    if model is None:
        return Scored(system, item.id, item.group, draws.row, values)
    pair = Pair(item.id, item.group, people.distribution, model)
    values |= {name: metric(pair) for name, metric in settings.metrics.items()}
    values |= {name: _abstract_tvd(item, pair, f) for name, f in settings.abstractions.items()}
    values |= _agreements(pair, own, draws) | _perfect(people, people.n, model.n)
    values["n_model"] = model.n
    answer, confidence = mode(model), max(model.probs)
    values |= _correctness(people, answer, confidence, settings.choices)
    oracle = _matches_majority(answer, people, own, settings)
    values["correct_oracle"] = _mean(oracle)
    return Scored(system, item.id, item.group, draws.row, values, {"correct_oracle": oracle})


def _agreements(pair: Pair, own: Control, draws: Draws) -> dict[str, float | None]:
    """H, M, C and what follows from them; for exact probabilities the log loss and all bounds."""
    found = Agreement.of(pair)
    values = found.columns() if found else {}
    half = cross_agreement(own.half, pair.model) if found and own.half else None
    values["agreement_C_half"] = half
    if draws.exact is None:
        return values
    values |= _log_losses(pair, own.half)
    values["mode_certified"] = float(draws.exact.certified)
    for name, (low, high) in draws.exact.bounds.items():
        values |= {f"{name}_low": low, f"{name}_high": high}
    return values


def _log_losses(pair: Pair, half: Categorical | None) -> dict[str, float | None]:
    """People's log loss under the model, and that of half of them."""
    return {
        "log_loss": log_loss(pair.human, pair.model),
        "log_loss_half": log_loss(half, pair.model) if half else None,
    }


def _perfect(people: People, n_human: int, n_model: int | None) -> dict[str, float | None]:
    """The expected TVD of a perfect model at these sample sizes."""
    found = perfect_tvd(people.counts, n_human, n_model)
    return {"perfect_low": found[0], "perfect_high": found[1]} if found else {}


def _score_human(people: People, own: Control, settings: Settings) -> Scored:
    item, n = people.item, people.n
    values: dict[str, float | None] = {"n_human": n, "n_model": n}
    values["agreement_H"] = self_agreement(people.distribution)
    confidence = max(people.distribution.probs)
    values |= _correctness(people, people.majority, confidence, settings.choices)
    oracle = _matches_majority(people.majority, people, own, settings)
    values["correct_oracle"] = _mean(oracle)
    return Scored(HUMAN, item.id, item.group, 0, values, {"correct_oracle": oracle})


def _score_oracles(everybody: Sequence[People], settings: Settings) -> list[Control]:
    """People against people on every item; one answer cannot be split."""
    found = [Control(_oracle(people, {"n_human": people.n})) for people in everybody]
    split = [place for place, people in enumerate(everybody) if people.n > 1]
    widths = [len(everybody[place].counts) * settings.n_splits for place in split]
    for batch in control.batches(widths, CELLS_AT_ONCE):
        places = [split[i] for i in batch]
        together = _score_halves([everybody[place] for place in places], settings)
        for place, own in zip(places, together, strict=True):
            found[place] = own
    return found


def _score_halves(everybody: Sequence[People], settings: Settings) -> Iterator[Control]:
    """One half plays the model, the other is the target, for every split."""
    codes = [np.repeat(np.arange(len(people.counts)), people.counts) for people in everybody]
    halves = control.split_all(codes, [_orders(people, settings) for people in everybody])
    shape = len(everybody), settings.n_splits
    scores = {name: own.reshape(shape) for name, own in _distances(halves).items()}
    scores |= _abstract_oracle_tvds(everybody, halves, settings)
    scores |= _oracle_correctness(everybody, halves, shape, settings.choices)
    means = np.stack(list(scores.values())).mean(axis=2).T.tolist()
    majorities = halves.target.majority.reshape(shape)
    for row, people in enumerate(everybody):
        sizes = people.n // 2, people.n - people.n // 2
        values = {name: _or_none(mean) for name, mean in zip(scores, means[row], strict=True)}
        values |= {"n_human": sizes[0], "n_model": sizes[1]} | _perfect(people, *sizes)
        scored = _oracle(people, values, {name: own[row] for name, own in scores.items()})
        first = halves.target.counts[row * settings.n_splits, : len(people.counts)]
        yield Control(scored, majorities[row], _half(people, first))


def _half(people: People, counts: Ints) -> Categorical:
    """The target half of one split as a distribution over the words that it gave."""
    words = people.distribution.support
    given = {words[i]: int(counts[i]) for i in np.flatnonzero(counts)}
    return Categorical.from_counts(given)


def _oracle(
    people: People, values: Mapping[str, float | None], splits: Mapping[str, Floats] | None = None
) -> Scored:
    return Scored(ORACLE, people.item.id, people.item.group, 0, values, splits or {})


def _orders(people: People, settings: Settings) -> Ints:
    """Of each split the order of an item's answers: the first half is the target."""
    if settings.choices.splits == "shared":
        return _shared_orders(people.n, settings.n_splits, settings.seed)
    return control.independent_orders(people.n, settings.n_splits, settings.seed, people.item.id)


def _distances(halves: control.Halves) -> dict[str, Floats]:
    target, player = halves.target.counts, halves.player.counts
    return {
        "tvd": tvd_of_counts(target, player),
        "tvd_debiased": leave_pair_out(target, player),
        **agreements_of_counts(target, player),
        "js": js_of_counts(target, player),
        "confidence": player.max(axis=1) / player.sum(axis=1),
    }


def _correctness(
    people: People, answer: str, confidence: float, choices: Choices
) -> dict[str, float | None]:
    return {
        "confidence": confidence,
        "correct_original": _matches_original(answer, people.item.original, choices),
        "correct_human": float(answer == people.majority),
    }


def _oracle_correctness(
    everybody: Sequence[People], halves: control.Halves, shape: tuple[int, int], choices: Choices
) -> dict[str, Floats]:
    answers, targets = (own.majority.reshape(shape) for own in (halves.player, halves.target))
    majorities = np.array([[p.distribution.support.index(p.majority)] for p in everybody])
    pairs = zip(everybody, answers.tolist(), strict=True)
    return {
        "correct_original": np.array([_match_originals(p, own, choices) for p, own in pairs]),
        "correct_human": (answers == majorities).astype(np.float64),
        "correct_oracle": (answers == targets).astype(np.float64),
    }


def _match_originals(people: People, answers: Sequence[int], choices: Choices) -> list[float]:
    """Whether words, told by their numbers, are the passage's own; NaN where that is not known."""
    words, original = people.distribution.support, people.item.original
    # A few different words are all splits' majorities: each is compared once.
    matches = {i: _or_nan(_matches_original(words[i], original, choices)) for i in set(answers)}
    return [matches[i] for i in answers]


def _matches_original(answer: str, original: str | None, choices: Choices) -> float | None:
    if original is None:
        return None
    if choices.original == "raw":
        return float(answer == original)
    # Both sides bare, so that "you're" matches where either side lost its apostrophe.
    target = bare(_first_word_of(original, choices))
    return float(bare(answer) == target) if target else None


def _first_word_of(original: str, choices: Choices) -> str:
    """The passage's word, cut as answers are; one under a user's own rule was cut when read."""
    if choices.answers != "rule" or is_code(choices.rule):
        return original
    return rule_named(choices.rule)(original) or ""


def _matches_majority(answer: str, people: People, own: Control, settings: Settings) -> Floats:
    """Whether an answer is the majority of the target half, per split."""
    if own.majorities is None:
        return np.full(settings.n_splits, np.nan)
    words = people.distribution.support
    index = words.index(answer) if answer in people.distribution.as_dict() else -1
    agrees: Floats = (own.majorities == index).astype(np.float64)
    return agrees


def _abstract_tvd(item: Item, pair: Pair, abstraction: Abstraction) -> float:
    words = list(dict.fromkeys((*pair.human.support, *pair.model.support)))
    classes = abstraction(item, words)
    human, model = regroup(pair.human, classes), regroup(pair.model, classes)
    return tvd(Pair(pair.item_id, pair.group, human, model))


def _abstract_oracle_tvds(
    everybody: Sequence[People], halves: control.Halves, settings: Settings
) -> dict[str, Floats]:
    """TVD of classes of words, by item and split."""
    n = settings.n_splits
    rows = [slice(start, start + n) for start in range(0, n * len(everybody), n)]
    return {
        name: np.array(
            [
                _abstract_oracle_tvd(
                    people, halves.target.counts[own], halves.player.counts[own], abstraction
                )
                for people, own in zip(everybody, rows, strict=True)
            ]
        )
        for name, abstraction in settings.abstractions.items()
    }


def _abstract_oracle_tvd(
    people: People, target: Ints, player: Ints, abstraction: Abstraction
) -> Floats:
    words = people.distribution.support
    classes = abstraction(people.item, words)
    of_word, starts = _class_order([classes[word] for word in words])
    return tvd_of_counts(
        *(np.add.reduceat(half[:, of_word], starts, axis=1) for half in (target, player))
    )


def _class_order(classes: Sequence[str]) -> tuple[Ints, Ints]:
    """Places of the words sorted by class, and where each class starts among them."""
    _, code = np.unique(classes, return_inverse=True)
    order = np.argsort(code, kind="stable")
    return order, np.flatnonzero(np.diff(code[order], prepend=-1))


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _mean(splits: Floats) -> float | None:
    """The mean over splits; none of an item's splits is defined, or all are."""
    return _or_none(float(splits.sum()) / len(splits))
