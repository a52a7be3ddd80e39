"""Per-item statistics at the word level: people, the human control, and each model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from aleatoric.inference import control
from aleatoric.inference.control import CONTROLS as CONTROLS
from aleatoric.inference.control import HUMAN as HUMAN
from aleatoric.inference.control import ORACLE as ORACLE
from aleatoric.inference.noise import perfect_tvd
from aleatoric.inference.persons import changes_without_each
from aleatoric.metrics.agreement import (
    Agreement,
    agreements_of_counts,
    cross_agreement,
    log_loss,
    mode,
    self_agreement,
)
from aleatoric.metrics.distances import js_of_counts, leave_pair_out, tvd, tvd_of_counts
from aleatoric.nextword.answers import cut, human_counts, model_distribution, pool, regroup
from aleatoric.nextword.rules import bare, is_code, normalise, rule_named
from aleatoric.types import Categorical, Choices, Draws, Floats, Ints, Item, Pair

CELLS_AT_ONCE = 500_000
"""Largest table of random halves, in cells; a typical page of items needs a tenth of it."""

Metric = Callable[[Pair], float | None]
Abstraction = Callable[[Item, Sequence[str]], Mapping[str, str]]
"""Maps words in an item's context to classes: parts of speech, clusters of meaning, ..."""
Answered = tuple[Item, Mapping[str, Sequence[Draws]]]
"""An item with the draws of every system that answered it."""
Bounds = Mapping[str, tuple[float | None, float | None]]
"""Metric -> lower and upper bound of an exact model."""
Values = dict[str, float | None]
"""Statistic -> value; `None` if undefined."""
_shared_orders = lru_cache(maxsize=256)(control.shared_orders)


@dataclass(frozen=True)
class Settings:
    """Protocol, metrics, number of splits and seed of scoring."""

    choices: Choices
    metrics: Mapping[str, Metric]
    abstractions: Mapping[str, Abstraction] = field(default_factory=dict)
    n_splits: int = 20
    seed: int = 0


@dataclass(frozen=True)
class Scored:
    """Statistics of one system on one item: scalars, and arrays over random splits."""

    system: str
    row: int
    values: Mapping[str, float | None]
    splits: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class People:
    """Counted answers of one item."""

    item: Item
    counts: Ints
    distribution: Categorical
    majority: str
    original: str | None
    """The original word as answers are compared with it; `None` if there is none."""

    @property
    def n(self) -> int:
        """The number of answers."""
        return len(self.item.responses)


@dataclass(frozen=True)
class Control:
    """People against people on one item; an item with one answer has no halves."""

    scored: Scored
    majorities: Ints | None = None
    """Index of the majority word of the target half, per split."""
    half: Categorical | None = None
    """Target half of the first split."""


def score_items(answered: Sequence[Answered], settings: Settings) -> Iterator[list[Scored]]:
    """Yield, per item, the statistics of both controls and of every system that answered it.

    All items are scored in one batch for speed; an item's numbers do not depend on the others.
    """
    everybody = [_read_people(item, settings.choices) for item, _ in answered]
    controls = _score_oracles(everybody, settings)
    for people, oracle, (_, systems) in zip(everybody, controls, answered, strict=True):
        yield [
            _score_human(people, oracle, settings),
            oracle.scored,
            *(
                _score_model(people, oracle, system, draws, settings)
                for system, rows in systems.items()
                for draws in _prepared(rows, settings.choices)
            ),
        ]


def pair_of(item: Item, rows: Sequence[Draws], choices: Choices) -> Iterator[Pair]:
    """Yield people's and one system's distribution on an item, per repeated row if kept apart."""
    human = Categorical.from_counts(human_counts(item.responses))
    for draws in _prepared(rows, choices):
        if (model := model_distribution(draws, choices.failed == "outcome")) is not None:
            yield Pair(item.id, item.group, human, model)


def person_changes(answered: Answered, choices: Choices) -> Iterator[tuple[str, Floats]]:
    """Yield, per system of an item, how its statistics change without each person."""
    item, systems = answered
    words = [normalise(response) for response in item.responses]
    yield HUMAN, changes_without_each(words, None)
    for system, rows in systems.items():
        for pair in pair_of(item, rows, choices):
            is_pair_known = pair.model.n is None or pair.model.n > 1
            yield system, changes_without_each(words, pair.model.as_dict(), is_pair_known)


def _read_people(item: Item, choices: Choices) -> People:
    counts = human_counts(item.responses)
    distribution = Categorical.from_counts(counts)
    majority, original = mode(distribution), _comparable_original(item.original, choices)
    return People(item, np.array(list(counts.values())), distribution, majority, original)


def _comparable_original(original: str | None, choices: Choices) -> str | None:
    if original is None or _is_as_saved(choices):
        return original
    # Answers are cut by the word rule, so the original is too; a user's rule cut it when read.
    if choices.answers == "rule" and not is_code(choices.rule):
        original = rule_named(choices.rule)(original) or ""
    return bare(original) or None


def _is_as_saved(choices: Choices) -> bool:
    """Whether originals are compared as they are saved: as published, or as tokens."""
    return choices.original == "raw" or choices.unit == "token"


def _prepared(rows: Sequence[Draws], choices: Choices) -> Iterable[Draws]:
    # Runs of older versions hold raw texts; others hold words.
    cut_rows = [cut(r, rule_named(choices.rule, choices.lead)) if r.texts else r for r in rows]
    return cut_rows if choices.repeats == "separate" else [pool(cut_rows)]


def _score_model(
    people: People, oracle: Control, system: str, draws: Draws, settings: Settings
) -> Scored:
    item = people.item
    model = model_distribution(draws, settings.choices.failed == "outcome")
    failed = draws.exact.failed if draws.exact else draws.failed
    values: Values = {"failed": failed, "n_human": people.n}
    if model is None:
        return Scored(system, draws.row, values)
    pair = Pair(item.id, item.group, people.distribution, model)
    values |= {name: metric(pair) for name, metric in settings.metrics.items()}
    values |= {name: _abstract_tvd(item, pair, f) for name, f in settings.abstractions.items()}
    values |= _agreements(pair, oracle.half, draws) | _perfect(people, people.n, model.n)
    values["n_model"] = model.n
    matches = _majority_matches(mode(model), people, oracle, settings)
    values |= _correctness(model, people, matches, settings.choices)
    return Scored(system, draws.row, values, {"correct_oracle": matches})


def _score_human(people: People, oracle: Control, settings: Settings) -> Scored:
    values: Values = {"n_human": people.n, "n_model": people.n}
    values["agreement_H"] = self_agreement(people.distribution)
    matches = _majority_matches(people.majority, people, oracle, settings)
    values |= _correctness(people.distribution, people, matches, settings.choices)
    return Scored(HUMAN, 0, values, {"correct_oracle": matches})


def _correctness(
    answers: Categorical, people: People, majority_matches: Floats, choices: Choices
) -> Values:
    """Return whether the mode is the original word, the majority, and the majority of a half."""
    answer = mode(answers)
    return {
        "confidence": max(answers.probs),
        "correct_original": _matches_original(answer, people, choices),
        "correct_human": float(answer == people.majority),
        # All splits of an item are defined, or none is.
        "correct_oracle": _or_none(float(majority_matches.sum()) / len(majority_matches)),
    }


def _agreements(pair: Pair, half: Categorical | None, draws: Draws) -> Values:
    """Return H, M, C and derived values; for exact probabilities also log loss and bounds."""
    agreement = Agreement.of(pair)
    values = agreement.columns() if agreement else {}
    values["agreement_C_half"] = cross_agreement(half, pair.model) if agreement and half else None
    if draws.exact is None:
        return values
    values |= _log_losses(pair, half, draws.exact.bounds)
    values["mode_certified"] = float(draws.exact.certified)
    for name, (low, high) in draws.exact.bounds.items():
        values |= {f"{name}_low": low, f"{name}_high": high}
    return values


def _log_losses(pair: Pair, half: Categorical | None, bounds: Bounds) -> Values:
    """The middle of the bounds, and the loss of half of the people, changed by as much."""
    loss = log_loss(pair.human, pair.model)
    low, high = bounds.get("log_loss", (loss, loss))
    if loss is None or low is None or high is None:
        return {"log_loss": None, "log_loss_half": None}
    middle, of_half = (low + high) / 2, log_loss(half, pair.model) if half else None
    shifted = None if of_half is None else of_half + middle - loss
    return {"log_loss": middle, "log_loss_half": shifted}


def _perfect(people: People, n_human: int, n_model: int | None) -> Values:
    bounds = perfect_tvd(people.counts, n_human, n_model)
    return {"perfect_low": bounds[0], "perfect_high": bounds[1]} if bounds else {}


def _score_oracles(everybody: Sequence[People], settings: Settings) -> list[Control]:
    """Score people against people on every item; one answer cannot be split."""
    controls = [Control(Scored(ORACLE, 0, {"n_human": people.n})) for people in everybody]
    splittable = [index for index, people in enumerate(everybody) if people.n > 1]
    widths = [len(everybody[index].counts) * settings.n_splits for index in splittable]
    for batch in control.batches(widths, CELLS_AT_ONCE):
        indices = [splittable[i] for i in batch]
        scored = _score_halves([everybody[index] for index in indices], settings)
        for index, control_of_item in zip(indices, scored, strict=True):
            controls[index] = control_of_item
    return controls


def _score_halves(everybody: Sequence[People], settings: Settings) -> Iterator[Control]:
    """Score one half (the player) as a model of the other half (the target), per split."""
    codes = [np.repeat(np.arange(len(people.counts)), people.counts) for people in everybody]
    halves = control.split_all(codes, [_orders(people, settings) for people in everybody])
    shape = len(everybody), settings.n_splits
    scores = {name: values.reshape(shape) for name, values in _distances(halves).items()}
    scores |= _abstract_oracle_tvds(everybody, halves, settings)
    scores |= _oracle_correctness(everybody, halves, shape, settings.choices)
    means = np.stack(list(scores.values())).mean(axis=2).T.tolist()
    majorities = halves.target.majority.reshape(shape)
    for row, people in enumerate(everybody):
        sizes = people.n // 2, people.n - people.n // 2
        values = {name: _or_none(mean) for name, mean in zip(scores, means[row], strict=True)}
        values |= {"n_human": sizes[0], "n_model": sizes[1]} | _perfect(people, *sizes)
        scored = Scored(ORACLE, 0, values, {name: split[row] for name, split in scores.items()})
        first = halves.target.counts[row * settings.n_splits, : len(people.counts)]
        yield Control(scored, majorities[row], _distribution(people, first))


def _distribution(people: People, counts: Ints) -> Categorical:
    words = zip(people.distribution.support, counts.tolist(), strict=True)
    return Categorical.from_counts({word: count for word, count in words if count})


def _orders(people: People, settings: Settings) -> Ints:
    """Return the order of an item's answers per split; the first half is the target."""
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


def _oracle_correctness(
    everybody: Sequence[People], halves: control.Halves, shape: tuple[int, int], choices: Choices
) -> dict[str, Floats]:
    answers, targets = (half.majority.reshape(shape) for half in (halves.player, halves.target))
    majorities = np.array([[p.distribution.support.index(p.majority)] for p in everybody])
    rows = zip(everybody, answers.tolist(), strict=True)
    return {
        "correct_original": np.array([_match_originals(p, row, choices) for p, row in rows]),
        "correct_human": (answers == majorities).astype(np.float64),
        "correct_oracle": (answers == targets).astype(np.float64),
    }


def _match_originals(people: People, answers: Sequence[int], choices: Choices) -> list[float]:
    """Return whether words, given by index, are the original word; NaN if there is none."""
    words = people.distribution.support
    # Most splits share a majority: each distinct word is compared once.
    matches = {i: _matches_original(words[i], people, choices) for i in set(answers)}
    return [np.nan if (match := matches[i]) is None else match for i in answers]


def _matches_original(answer: str, people: People, choices: Choices) -> float | None:
    if people.original is None:
        return None
    # Both sides bare, so that "you're" matches where either side lost its apostrophe.
    form = answer if _is_as_saved(choices) else bare(answer)
    return float(form == people.original)


def _majority_matches(answer: str, people: People, oracle: Control, settings: Settings) -> Floats:
    if oracle.majorities is None:
        return np.full(settings.n_splits, np.nan)
    index = next((i for i, word in enumerate(people.distribution.support) if word == answer), -1)
    return np.where(oracle.majorities == index, 1.0, 0.0)


def _abstract_tvd(item: Item, pair: Pair, abstraction: Abstraction) -> float:
    words = list(dict.fromkeys((*pair.human.support, *pair.model.support)))
    classes = abstraction(item, words)
    human, model = regroup(pair.human, classes), regroup(pair.model, classes)
    return tvd(Pair(pair.item_id, pair.group, human, model))


def _abstract_oracle_tvds(
    everybody: Sequence[People], halves: control.Halves, settings: Settings
) -> dict[str, Floats]:
    """Return TVD over classes of words, (items, splits) per abstraction."""
    n, by_abstraction = settings.n_splits, {}
    for name, abstraction in settings.abstractions.items():
        rows = ((people, slice(i * n, (i + 1) * n)) for i, people in enumerate(everybody))
        tvds = [_abstract_oracle_tvd(p, halves, splits, abstraction) for p, splits in rows]
        by_abstraction[name] = np.array(tvds)
    return by_abstraction


def _abstract_oracle_tvd(
    people: People, halves: control.Halves, rows: slice, abstraction: Abstraction
) -> Floats:
    words = people.distribution.support
    classes = abstraction(people.item, words)
    _, code = np.unique([classes[word] for word in words], return_inverse=True)
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    counts = (half.counts[rows][:, order] for half in (halves.target, halves.player))
    return tvd_of_counts(*(np.add.reduceat(part, starts, axis=1) for part in counts))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
