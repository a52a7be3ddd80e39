"""What a perfect model would score at the same sample sizes, from estimates of the truth.

A perfect model and people are two samples of one distribution, which is not known. Three estimates
of it bound and place the floor:

- plug-in: people's own shares. Nothing is unseen, so two samples meet too often: too low.
- all different: the Good-Turing mass of unseen words, none of which is ever drawn twice: too high.
- Chao: seen words discounted, the unseen mass on Chao1 many words (Chao et al. 2015), and then a
  parametric bootstrap: people drawn anew from that estimate give an estimate of it in turn, and
  what the second misses of the first, the first is taken to miss of the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Distance = Callable[[Floats, Floats], Floats]
"""(..., outcomes) shares of people and model -> (...) distances."""
N_REPLICATES = 2
"""Few: the floor is a mean over contexts, and their number takes the noise away."""
N_BOOTSTRAPS = 2
N_CROWDS = 8
"""Crowds whose majorities a perfect model's answer is held against: a share has less noise."""
METHOD = "Chao with parametric bootstrap, between plug-in and all unseen words different"
ONE_ANSWER = "one answer tells nothing of the truth: a floor needs two people"


@dataclass(frozen=True)
class Ends:
    """The floor of one item: the estimate, and the two ends between which it should lie."""

    low: float
    value: float
    high: float


def plug_in(counts: Counts) -> Floats:
    """People's own distribution as the truth: it has no unseen words, so the floor is too low.

    >>> plug_in(np.array([3, 1])).tolist()
    [0.75, 0.25]
    """
    shares: Floats = counts / counts.sum()
    return shares


def good_turing(counts: Counts) -> Floats:
    """People's distribution with room for unseen words: Good-Turing mass over Chao1 many of them.

    >>> good_turing(np.array([2, 1, 1])).round(3).tolist()
    [0.25, 0.125, 0.125, 0.5]
    """
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    if once == 0:
        return plug_in(counts)
    unseen_mass = _unseen_mass(counts)
    unseen = max(1, round(once * (once - 1) / (2 * (twice + 1))))
    seen = (1 - unseen_mass) * plug_in(counts)
    return np.concatenate([seen, np.full(unseen, unseen_mass / unseen)])


def chao(counts: Counts) -> Floats:
    """Chao et al. (2015): rare seen words are discounted most; Chao1 many words are unseen.

    >>> chao(np.array([2, 1, 1])).round(3).tolist()
    [0.438, 0.093, 0.093, 0.188, 0.188]
    """
    given = counts.tolist()  # a list of a dozen numbers counts faster than an array
    n, once, twice = sum(given), given.count(1), given.count(2)
    shares: Floats = counts / n
    if once == 0 or n < 2:
        return shares
    covered = max(_coverage(n, once, twice), 1 / n)
    seen = _discounted(shares, n, covered)
    pairs = once * once / (2 * twice) if twice else once * (once - 1) / 2
    unseen = max(1, int(np.ceil((n - 1) / n * pairs)))
    return np.concatenate([seen, np.full(unseen, (1 - covered) / unseen)])


def expected_tvd(
    truth: Floats,
    n_human: int,
    n_model: int | None,
    rng: np.random.Generator,
    n_replicates: int = N_REPLICATES,
) -> float:
    """Expected TVD between samples of `n_human` and `n_model` from one distribution.

    `n_model=None`: the model is exact.

    >>> expected_tvd(np.array([1.0]), 40, 40, np.random.default_rng(0))
    0.0
    """
    people, model = _samples(truth[None, :], n_human, n_model, rng, n_replicates)
    return float(tvd(people, model).mean())


def floors(
    counts: Counts,
    n_human: int,
    n_model: int | None,
    rng: np.random.Generator,
    distances: Mapping[str, Distance] | None = None,
) -> dict[str, Ends]:
    """The floor of every distance (TVD and JS unless told) for one item's counted answers.

    Empty for a single answer, which tells nothing of the truth. A distance's `value` is unbiased in
    the mean over items; that of a single item may lie outside its ends.

    >>> floors(np.array([40]), 40, 40, np.random.default_rng(0))["tvd"]
    Ends(low=0.0, value=0.0, high=0.0)
    >>> floors(np.array([1]), 1, 40, np.random.default_rng(0))
    {}
    """
    if counts.sum() < 2:
        return {}
    asked = distances or DISTANCES
    if len(counts) == 1:  # everybody agrees: no estimate of the truth leaves room for doubt
        return {name: Ends(0.0, 0.0, 0.0) for name in asked}
    truth = chao(counts)
    again = [estimated_again(truth, int(counts.sum()), rng) for _ in range(N_BOOTSTRAPS)]
    truths = _stacked([plug_in(counts), _all_different(counts), truth, *again])
    people, model = _samples(truths, n_human, n_model, rng, N_REPLICATES)
    people, model = _part_unseen(people, model, 1, len(counts))
    scores = {name: distance(people, model).mean(axis=0) for name, distance in asked.items()}
    return {name: _ends(own, corrections(name, n_human, n_model)) for name, own in scores.items()}


def corrections(distance: str, n_human: int, n_model: int | None) -> float:
    """How many times what the bootstrap misses is added to the estimate of a distance: 1 to 2.

    Once, but for JS beside a model of more draws than people. A logarithm weighs how thin the
    unseen words are spread, of which Chao1 knows the least number only: a bootstrapped estimate of
    that estimate shows half of the error, and the more so the better the model is known.

    >>> corrections("tvd", 40, None), corrections("js", 40, 40), corrections("js", 40, None)
    (1.0, 1.0, 2.0)
    """
    if distance != "js":
        return 1.0
    return 2.0 if n_model is None else max(1.0, 2.0 - n_human / n_model)


def estimated_again(truth: Floats, n_people: int, rng: np.random.Generator) -> Floats:
    """Chao's estimate from as many people drawn from an estimated truth: the parametric bootstrap.

    >>> estimated_again(np.array([1.0]), 40, np.random.default_rng(0)).tolist()
    [1.0]
    """
    drawn = rng.multinomial(n_people, truth)
    return chao(drawn[drawn > 0])


@dataclass(frozen=True)
class Answered:
    """How sure perfect models were of their first choice, and whether it was right, by replicate.

    Each is (replicates,); `right` is by target: the passage's own word (0 or 1), and the shares of
    crowds, as many as the people and half as many, whose majority it is.
    """

    confidence: Floats
    right: Mapping[str, Floats]


def answered(
    truth: Floats, n_human: int, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> Answered:
    """A perfect model's confidence and correctness: what the floor of calibration is made of.

    >>> answered(np.array([1.0]), 40, 40, np.random.default_rng(0), 2).right["human"].tolist()
    [1.0, 1.0]
    """
    n_half = max(1, n_human // 2)
    exact = np.broadcast_to(truth, (n_replicates, len(truth)))
    model = exact if n_model is None else rng.multinomial(n_model, truth, n_replicates) / n_model
    answer = _first(model, rng)
    right = {
        "original": (rng.random(n_replicates) < truth[answer]).astype(np.float64),
        "human": _share_of_crowds(answer, truth, n_human, rng),
        "oracle": _share_of_crowds(answer, truth, n_half, rng),
    }
    return Answered(model.max(axis=1), right)


def _share_of_crowds(
    answer: NDArray[np.intp], truth: Floats, n_people: int, rng: np.random.Generator
) -> Floats:
    """Of crowds drawn anew for each answer, the share whose majority is that answer."""
    crowds = rng.multinomial(n_people, truth, len(answer) * N_CROWDS)
    majorities = _first(crowds, rng).reshape(len(answer), N_CROWDS)
    share: Floats = (majorities == answer[:, None]).mean(axis=1)
    return share


def _first(shares: Floats | Counts, rng: np.random.Generator) -> NDArray[np.intp]:
    """The likeliest outcome of each row; of equals, any: the order of outcomes means nothing."""
    shaken: Floats = shares + 1e-9 * rng.random(shares.shape)
    return np.asarray(shaken.argmax(axis=1), dtype=np.intp)


def simulated_floor(
    draw: Callable[[np.random.Generator], float], rng: np.random.Generator, n_replicates: int
) -> float:
    """The hook for any other distance: the mean score of a perfect model, drawn and scored anew.

    `draw` samples both sides from one estimated truth (for W1 between texts: productions drawn
    from people's own) and returns their distance.

    >>> round(simulated_floor(lambda rng: float(rng.random()), np.random.default_rng(0), 1000), 1)
    0.5
    """
    return float(np.mean([draw(rng) for _ in range(n_replicates)]))


def tvd(people: Floats, model: Floats) -> Floats:
    """Total variation distance along the last axis.

    >>> tvd(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])).tolist()
    [0.5]
    """
    distance: Floats = np.abs(people - model).sum(axis=-1) / 2
    return distance


def js(people: Floats, model: Floats) -> Floats:
    """Jensen-Shannon divergence along the last axis, in nats.

    >>> js(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]])).tolist()
    [0.0]
    """
    middle = (people + model) / 2
    terms = _entropy_terms(middle) - (_entropy_terms(people) + _entropy_terms(model)) / 2
    divergence: Floats = terms.sum(axis=-1)
    return divergence


DISTANCES: Mapping[str, Distance] = {"tvd": tvd, "js": js}


def _ends(scores: Floats, times: float) -> Ends:
    """Scores under plug-in, all different, Chao and Chao of bootstrapped people."""
    low, high, first, second = (*scores[:3], scores[3:].mean())
    return Ends(float(low), float(first + times * (first - second)), float(high))


def _entropy_terms(shares: Floats) -> Floats:
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    terms: Floats = -shares * logs
    return terms


def _unseen_mass(counts: Counts) -> float:
    """Good-Turing; all answers different would leave nothing to what was seen: one is known."""
    n = int(counts.sum())
    return min(int((counts == 1).sum()), n - 1) / n


def _coverage(n: int, once: int, twice: int) -> float:
    """The mass of the words that were seen (Chao & Jost 2012)."""
    if twice:
        return 1 - once / n * ((n - 1) * once / ((n - 1) * once + 2 * twice))
    return 1 - once / n * ((n - 1) * (once - 1) / ((n - 1) * (once - 1) + 2))


def _discounted(shares: Floats, n: int, covered: float) -> Floats:
    """Shares that sum to what is covered; those of words seen once lose most."""
    loss = shares * (1 - shares) ** n
    rate = (1 - covered) / loss.sum()
    kept = shares - rate * loss
    if (kept <= 0).any():
        kept = shares
    seen: Floats = kept * (covered / kept.sum())
    return seen


def _all_different(counts: Counts) -> Floats:
    """Seen words, and one cell for all unseen ones; `_part_unseen` keeps them from meeting."""
    unseen = _unseen_mass(counts)
    return np.append((1 - unseen) * plug_in(counts), unseen)


def _part_unseen(people: Floats, model: Floats, row: int, cell: int) -> tuple[Floats, Floats]:
    """Move the model's draws from the unseen cell of one truth to a cell that people lack."""
    wide_people, wide_model = _one_wider(people), _one_wider(model)
    wide_model[:, row, -1] = wide_model[:, row, cell]
    wide_model[:, row, cell] = 0.0
    return wide_people, wide_model


def _one_wider(shares: Floats) -> Floats:
    return np.concatenate([shares, np.zeros((*shares.shape[:-1], 1))], axis=-1)


def _stacked(truths: list[Floats]) -> Floats:
    table = np.zeros((len(truths), max(map(len, truths))))
    for row, truth in zip(table, truths, strict=True):
        row[: len(truth)] = truth
    return table


def _samples(
    truths: Floats, n_human: int, n_model: int | None, rng: np.random.Generator, n_replicates: int
) -> tuple[Floats, Floats]:
    """Both sides' shares, (replicates, truths, outcomes); an exact model has the truth's own."""
    size = (n_replicates, len(truths))
    people = rng.multinomial(n_human, truths, size=size) / n_human
    if n_model is None:
        return people, np.broadcast_to(truths, people.shape)
    return people, rng.multinomial(n_model, truths, size=size) / n_model
