"""Recovery study: how often do intervals contain the known truth of simulated corpora?

A corpus is drawn from a population of passages. Contexts of one passage share a part of their
steepness and the model's temperature, so they are correlated, and supports are Zipfian. People and
model are samples of their true distributions. The truth of a metric is its value over the whole
population at the same sample sizes, that is, on an infinite corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.bootstrap import DEFAULT_METHOD, resample
from aleatoric.metrics.agreement import agreements_of_counts
from aleatoric.metrics.calibration import ECE, DebiasedECE, equal_width_edges
from aleatoric.metrics.distances import js_of_counts, leave_pair_out, tvd_of_counts
from aleatoric.metrics.reduction import Mean, divide
from aleatoric.rng import stream
from aleatoric.types import Floats, Ints

SUPPORT = 60
TRUTH_PASSAGES = 6000


@dataclass(frozen=True)
class Design:
    """The sizes of a simulated corpus, and how its passages differ."""

    n_human: int
    n_model: int
    passages: int = 55
    contexts: int = 15
    """In the mean: passages differ in length."""
    perfect: bool = False
    """Whether the model's distribution is people's own."""
    temperature_shape: float = 8.0
    """Of the gamma distribution of passages' temperatures, mean .8: a small shape is skewed."""
    elsewhere: float = 0.0
    """The share of the model's probability on words in another order than people's."""


@dataclass(frozen=True)
class Simulated:
    """A simulated corpus: the passage of each context, both truths, and what was drawn of them."""

    passage: NDArray[np.int64]
    human_truth: Floats
    model_truth: Floats
    people: Ints
    model: Ints


def simulate(design: Design, passages: int, rng: np.random.Generator) -> Simulated:
    """Draw passages, their contexts, and both sides' answers.

    >>> drawn = simulate(Design(5, 10), 3, np.random.default_rng(0))
    >>> set(drawn.people.sum(axis=1).tolist()), set(drawn.model.sum(axis=1).tolist())
    ({5}, {10})
    """
    lengths = rng.integers(design.contexts // 2, design.contexts * 3 // 2 + 1, passages)
    passage = np.repeat(np.arange(passages), lengths)
    human = _zipfian(passage, 0.5 + rng.gamma(4.0, 0.2, passages), rng)
    shape = design.temperature_shape
    temperature = rng.gamma(shape, 0.8 / shape, 0 if design.perfect else passages)
    model = human if design.perfect else tempered(human, temperature[passage])
    if design.elsewhere:
        model = (1 - design.elsewhere) * model + design.elsewhere * np.roll(model, 1, axis=1)
    people, drawn = rng.multinomial(design.n_human, human), rng.multinomial(design.n_model, model)
    return Simulated(passage, human, model, people, drawn)


def _zipfian(passage: Ints, steepness: Floats, rng: np.random.Generator) -> Floats:
    """(contexts, support): each context has its own number of words, and a steepness of its own."""
    own = steepness[passage] + rng.gamma(2.0, 0.15, len(passage))
    sizes = rng.integers(3, SUPPORT + 1, len(passage))
    ranks = np.arange(1, SUPPORT + 1)
    weights = np.where(ranks <= sizes[:, None], ranks ** -own[:, None], 0.0)
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def tempered(shares: Floats, temperature: Floats) -> Floats:
    """(contexts, support) distributions at a temperature per context.

    >>> tempered(np.array([[0.8, 0.2]]), np.array([0.5])).round(3).tolist()
    [[0.941, 0.059]]
    """
    powered = np.where(shares > 0, shares ** (1 / temperature[:, None]), 0.0)
    found: Floats = powered / powered.sum(axis=1, keepdims=True)
    return found


def statistics(drawn: Simulated) -> dict[str, Floats]:
    """Per-context statistics, (contexts, 1) each, as scoring saves them."""
    people, model = drawn.people, drawn.model
    found = {
        "tvd": tvd_of_counts(people, model),
        **agreements_of_counts(people, model),
        "js": js_of_counts(people, model),
        "tvd_debiased": leave_pair_out(people, model),
        "energy": _energy(people, model),
        "log_loss": _log_loss(people, drawn.model_truth),
        "agreement_H": _pairs(people, np.eye(SUPPORT)),
        "agreement_M": _pairs(model, np.eye(SUPPORT)),
        "agreement_C": _shares(people, model),
        "confidence": model.max(axis=1) / model.sum(axis=1),
        "correct_human": (model.argmax(axis=1) == people.argmax(axis=1)).astype(np.float64),
    }
    return {name: values[:, None] for name, values in found.items()}


def _shares(people: Ints, model: Ints) -> Floats:
    """How often a person and a draw of the model agree."""
    shares: Floats = (people * model).sum(axis=1) / people.sum(axis=1) / model.sum(axis=1)
    return shares


def _pairs(counts: Ints, kernel: Floats) -> Floats:
    """Mean of a symmetric kernel over pairs of different answers of one side; unbiased."""
    n = counts.sum(axis=1)
    same = counts @ np.diag(kernel)
    mean: Floats = (((counts @ kernel) * counts).sum(axis=1) - same) / (n * (n - 1))
    return mean


def _energy(people: Ints, model: Ints) -> Floats:
    """Energy distance, unbiased; words lie at arbitrary places of a line."""
    places = np.arange(SUPPORT) * 37 % SUPPORT / SUPPORT
    distance = np.abs(places[:, None] - places)
    sizes = people.sum(axis=1) * model.sum(axis=1)
    cross = ((people @ distance) * model).sum(axis=1) / sizes
    energy: Floats = 2 * cross - _pairs(people, distance) - _pairs(model, distance)
    return energy


def _log_loss(people: Ints, probs: Floats) -> Floats:
    """Mean over people of minus the logarithm of the model's probability of the answer."""
    logs = np.log(np.where(people > 0, probs, 1.0))
    loss: Floats = -(people * logs).sum(axis=1) / people.sum(axis=1)
    return loss


@dataclass(frozen=True)
class Overlap:
    """2 ΣC / Σ(H + M), with sums over contexts."""

    def columns(self, chunk: Mapping[str, Floats]) -> Floats:
        """2C beside H + M, per context."""
        agreements = [chunk[f"agreement_{side}"] for side in "CHM"]
        return np.concatenate([2 * agreements[0], agreements[1] + agreements[2]], axis=1)

    def values(self, sums: Floats) -> Floats:
        """The ratio of the two sums."""
        return divide(sums[..., :1], sums[..., 1:])


MEANS = ("tvd", "tvd_debiased", "sq_distance", "js", "energy", "log_loss")
REDUCTIONS: Mapping[str, Mean | Overlap | ECE | DebiasedECE] = {
    **{name: Mean(name) for name in MEANS},
    "overlap": Overlap(),
    "ece_human": ECE("correct_human", equal_width_edges()),
    "ece_debiased_human": DebiasedECE("correct_human", equal_width_edges()),
}


def group_sums(drawn: Simulated) -> dict[str, Floats]:
    """The sums by passage of every reduction."""
    chunk, n = statistics(drawn), int(drawn.passage.max()) + 1
    return {name: _summed(r.columns(chunk), drawn.passage, n) for name, r in REDUCTIONS.items()}


def _summed(columns: Floats, passage: Ints, n: int) -> Floats:
    sums = np.zeros((n, columns.shape[1]))
    np.add.at(sums, passage, columns)
    return sums


@cache
def population(design: Design, seed: int = 0) -> Mapping[str, float]:
    """Every metric's value over a population large enough to stand for all."""
    whole = replace(design, passages=0)  # designs that differ in passages share a population
    drawn = simulate(whole, TRUTH_PASSAGES, stream(seed, "population", repr(whole)))
    found = group_sums(drawn)
    return {name: float(_value(name)(sums.sum(axis=0)[None])[0]) for name, sums in found.items()}


def _value(name: str) -> Callable[[Floats], Floats]:
    reduction = REDUCTIONS[name]
    return lambda sums: reduction.values(sums)[..., 0]


@dataclass(frozen=True)
class Coverage:
    """How often an interval held the truth, how often it lay below and above, and its width."""

    metric: str
    method: str
    held: float
    below: float
    above: float
    width: float


def coverage(
    design: Design,
    n_simulations: int,
    seed: int = 0,
    n_replicates: int = 2000,
    methods: tuple[str, ...] = (DEFAULT_METHOD,),
    metrics: tuple[str, ...] = tuple(REDUCTIONS),
) -> Iterator[Coverage]:
    """The coverage of the methods for the metrics, over simulated corpora of one design."""
    truth = population(design)
    ends: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(n_simulations):
        drawn = simulate(design, design.passages, stream(seed, "coverage", repr(design), number))
        sums = group_sums(drawn)
        for name in metrics:
            for method in methods:
                found = resample(
                    sums[name], _value(name), number, n_replicates, method=method
                ).interval
                if found is not None:
                    ends.setdefault((name, method), []).append((found.low, found.high))
    for (name, method), pairs in ends.items():
        yield coverage_of(name, method, np.array(pairs), truth[name])


def coverage_of(metric: str, method: str, ends: Floats, truth: float) -> Coverage:
    """How often intervals, given as (simulations, 2) ends, hold a truth.

    >>> coverage_of("tvd", "t", np.array([[0.1, 0.3], [0.4, 0.5]]), 0.2).held
    0.5
    """
    below, above = float((ends[:, 1] < truth).mean()), float((ends[:, 0] > truth).mean())
    width = float((ends[:, 1] - ends[:, 0]).mean())
    return Coverage(metric, method, 1 - below - above, below, above, width)
