"""Recovery study with a panel: the same people answer all passages, each with their own habits.

Some people give likely answers more often than others: a person's answer follows a steep form of
the context's distribution with a probability specific to the person, and otherwise a flat form.
Persons are independent, so the answers to one context are samples of the mean of the two forms, and
the truth is known. The model's probabilities are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.estimate import GroupSums, Reduction, estimate
from aleatoric.inference.persons import (
    PersonSums,
    changes_without_each,
    covering_persons,
    read_changes,
)
from aleatoric.metrics.agreement import Agreement, Overlap, log_loss
from aleatoric.metrics.distances import tvd
from aleatoric.metrics.reduction import Mean
from aleatoric.nextword.answers import human_counts
from aleatoric.rng import stream
from aleatoric.types import Categorical, Floats, Pair
from benchmarks.recovery import Coverage, Design, coverage_of, simulate, tempered

Given = Sequence[tuple[Sequence[str], Categorical]]
"""People's words and the model's probabilities, per context."""
GROUPS_ONLY, TWO_WAY = "groups only", "two-way"
MEANS = ("sq_distance", "agreement_H", "agreement_C", "log_loss", "tvd")
REDUCTIONS: dict[str, Reduction] = {"overlap": Overlap(), **{name: Mean(name) for name in MEANS}}
TRUTH_PASSAGES = 6000


@dataclass(frozen=True)
class Panel:
    """The sizes of a panel, and how its people differ."""

    persons: int = 40
    passages: int = 20
    steep: float = 0.5
    """Temperature of the steep form of a context's distribution."""
    flat: float = 2.0
    """Temperature of its flat form."""
    shape: float = 0.5
    """Of the beta distribution of the persons' probability of the steep form; small is extreme."""

    @property
    def design(self) -> Design:
        """The passages, their contexts and the model."""
        return Design(2, 2, self.passages, temperature_shape=64.0, elsewhere=0.3)


@dataclass(frozen=True)
class Contexts:
    """Contexts of some passages: people's two distributions and the model's."""

    passage: NDArray[np.int64]
    steep: Floats
    flat: Floats
    model: Floats


def contexts_of(panel: Panel, passages: int, rng: np.random.Generator) -> Contexts:
    """Draw passages and their contexts."""
    drawn = simulate(panel.design, passages, rng)
    steep, flat = (
        tempered(drawn.human_truth, np.full(len(drawn.passage), own))
        for own in (panel.steep, panel.flat)
    )
    return Contexts(drawn.passage, steep, flat, drawn.model_truth)


def answers(panel: Panel, contexts: Contexts, rng: np.random.Generator) -> list[list[str]]:
    """One answer per context and person; a person's habit is the same in all contexts."""
    habits = rng.beta(panel.shape, panel.shape, panel.persons)
    size = len(contexts.steep), panel.persons
    is_steep, places = rng.random(size) < habits, rng.random(size)
    found = np.where(is_steep, _drawn(contexts.steep, places), _drawn(contexts.flat, places))
    return [list(map(str, row)) for row in found]


def _drawn(shares: Floats, places: Floats) -> NDArray[np.int64]:
    """(contexts, persons) words at places between 0 and 1 of cumulative distributions."""
    ends = shares.cumsum(axis=1)
    pairs = zip(ends, places * ends[:, -1:], strict=True)
    return np.array([np.searchsorted(own, row, side="right") for own, row in pairs])


@cache
def population(panel: Panel) -> dict[str, float]:
    """Every metric's value over a large population of passages, with other people for each.

    TVD is that of as many people as the panel has; the other metrics do not depend on their number.
    """
    rng = stream(0, "panel population", repr(panel))
    contexts = contexts_of(panel, TRUTH_PASSAGES, rng)
    people, model = (contexts.steep + contexts.flat) / 2, contexts.model
    shares = rng.multinomial(panel.persons, people / people.sum(axis=1, keepdims=True))
    products = {"H": people * people, "M": model * model, "C": people * model}
    found = {f"agreement_{name}": own.sum(axis=1) for name, own in products.items()}
    human, model_self, cross = found.values()
    found["sq_distance"] = human + model_self - 2 * cross
    found["log_loss"] = -(people * np.log(np.where(people > 0, model, 1.0))).sum(axis=1)
    found["tvd"] = np.abs(shares / panel.persons - model).sum(axis=1) / 2
    chunk = {name: values[:, None] for name, values in found.items()}
    return {
        name: float(r.values(r.columns(chunk).sum(axis=0))[0]) for name, r in REDUCTIONS.items()
    }


def _sums(contexts: Contexts, given: Given) -> dict[str, GroupSums]:
    """The sums by passage of every reduction."""
    rows = [_statistics(words, own) for words, own in given]
    chunk = {name: np.array([[row[name]] for row in rows], dtype=np.float64) for name in rows[0]}
    groups, found = list(map(str, contexts.passage)), {}
    for name, reduction in REDUCTIONS.items():
        found[name] = GroupSums()
        found[name].add(groups, reduction.columns(chunk))
    return found


def _statistics(words: Sequence[str], model: Categorical) -> dict[str, float | None]:
    pair = Pair("", "", Categorical.from_counts(human_counts(words)), model)
    agreement = Agreement.of(pair)
    assert agreement is not None  # at least two people
    return {**agreement.columns(), "log_loss": log_loss(pair.human, model), "tvd": tvd(pair)}


def _changes(panel: Panel, contexts: Contexts, given: Given) -> Floats:
    sums, persons = PersonSums(), list(map(str, range(panel.persons)))
    for passage, (words, model) in zip(contexts.passage, given, strict=True):
        sums.add("model", str(passage), persons, changes_without_each(words, model.as_dict()))
    return read_changes(sums.facts()["model"])


def panel_coverage(panel: Panel, n_simulations: int, seed: int = 0) -> Iterator[Coverage]:
    """Coverage of intervals over groups only, and over groups and persons."""
    truth = population(panel)
    ends: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(n_simulations):
        rng = stream(seed, "panel", repr(panel), number)
        contexts = contexts_of(panel, panel.passages, rng)
        words = tuple(map(str, range(contexts.model.shape[1])))
        models = [Categorical(words, tuple(row)) for row in contexts.model.tolist()]
        given = list(zip(answers(panel, contexts, rng), models, strict=True))
        sums, changes = _sums(contexts, given), _changes(panel, contexts, given)
        for name, reduction in REDUCTIONS.items():
            groups = estimate(sums[name], reduction, number)
            both = covering_persons(groups, sums[name], reduction, changes)
            for method, found in ((GROUPS_ONLY, groups), (TWO_WAY, both)):
                assert found.interval is not None  # passages always differ
                pair = (found.interval.low, found.interval.high)
                ends.setdefault((name, method), []).append(pair)
    for (name, method), pairs in ends.items():
        yield coverage_of(name, method, np.array(pairs), truth[name])
