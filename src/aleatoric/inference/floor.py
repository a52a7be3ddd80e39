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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.inference.truths import (
    Counts,
    Floats,
    Rows,
    all_different_rows,
    chao_rows,
    drawn_again,
    plug_in_rows,
    starts_of,
    sums,
    tables,
)

N_REPLICATES = 2
"""Few: the floor is a mean over contexts, and their number takes the noise away."""
N_BOOTSTRAPS = 2
METHOD = "Chao with parametric bootstrap, between plug-in and all unseen words different"
ONE_ANSWER = "one answer tells nothing of the truth: a floor needs two people"


@dataclass(frozen=True)
class Ends:
    """The floor of one item: the estimate, and the two ends between which it should lie."""

    low: float
    value: float
    high: float


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
    return float(np.abs(people - model).sum(axis=-1).mean() / 2)


@dataclass(frozen=True, eq=False)
class Asked:
    """One item's counted answers, the sizes to compare at, and its random numbers."""

    counts: Counts
    n_human: int
    n_model: int | None
    """`None`: the model is exact."""
    rng: np.random.Generator


def floors(
    counts: Counts, n_human: int, n_model: int | None, rng: np.random.Generator
) -> dict[str, Ends]:
    """The floor of TVD and of JS for one item's counted answers.

    Empty for a single answer, which tells nothing of the truth. A distance's `value` is unbiased in
    the mean over items; that of a single item may lie outside its ends.

    >>> floors(np.array([40]), 40, 40, np.random.default_rng(0))["tvd"]
    Ends(low=0.0, value=0.0, high=0.0)
    >>> floors(np.array([1]), 1, 40, np.random.default_rng(0))
    {}
    """
    return floors_of([Asked(counts, n_human, n_model, rng)])[0]


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


def floors_of(asked: Sequence[Asked]) -> list[dict[str, Ends]]:
    """`floors` of many items, side by side; an item's numbers do not depend on the others."""
    found: list[dict[str, Ends]] = [{} for _ in asked]
    split = [i for i, ask in enumerate(asked) if len(ask.counts) > 1]
    for i, ask in enumerate(asked):
        if len(ask.counts) == 1 and ask.counts[0] > 1:
            # Everybody agrees: no estimate of the truth leaves room for doubt.
            found[i] = {name: Ends(0.0, 0.0, 0.0) for name in DISTANCES}
    if split:
        own = [asked[i] for i in split]
        trials = [_Trial(*each) for each in zip(own, _truths(own), strict=True)]
        for i, ends in zip(split, _simulated(trials), strict=True):
            found[i] = ends
    return found


@dataclass(frozen=True, eq=False)
class _Trial:
    """An item with the estimates of its truth: plug-in, all different, Chao, Chao again."""

    ask: Asked
    truths: Floats


def _truths(asked: Sequence[Asked]) -> list[Floats]:
    """Every item's table of estimated truths."""
    counts = Rows.of([ask.counts for ask in asked])
    first = chao_rows(counts)
    crowds = [
        drawn_again(truth, n, ask.rng, N_BOOTSTRAPS)
        for ask, truth, n in zip(asked, first.split(), counts.sums().tolist(), strict=True)
    ]
    again = [chao_rows(Rows.of(own)) for own in zip(*crowds, strict=True)]
    return tables([plug_in_rows(counts), all_different_rows(counts), first, *again])


def _simulated(trials: Sequence[_Trial]) -> Iterator[dict[str, Ends]]:
    """The ends of each item, from samples of both sides under each of its truths."""
    drawn = [_samples(t.truths, t.ask.n_human, t.ask.n_model, t.ask.rng) for t in trials]
    lengths = np.array([t.truths.shape[1] for t in trials])
    shape = (N_REPLICATES, len(trials[0].truths))
    starts = starts_of(np.repeat(lengths, shape[0] * shape[1]))
    people, model = (np.concatenate([pair[side].ravel() for pair in drawn]) for side in (0, 1))
    parted = _parted(trials, starts[:: shape[0] * shape[1]], shape)
    scores = {
        name: sums(distance(people, model, parted), starts).reshape(-1, *shape).mean(axis=1)
        for name, distance in DISTANCES.items()
    }
    for row, trial in enumerate(trials):
        sizes = trial.ask.n_human, trial.ask.n_model
        yield {
            name: _ends(own[row].tolist(), corrections(name, *sizes))
            for name, own in scores.items()
        }


def _parted(trials: Sequence[_Trial], starts: Counts, shape: tuple[int, int]) -> Counts:
    """The cells in which both sides are kept apart: unseen words where all are different."""
    width = np.array([t.truths.shape[1] for t in trials])
    cell = np.array([len(t.ask.counts) for t in trials])
    rows = np.arange(shape[0]) * shape[1] + ALL_DIFFERENT
    cells: Counts = (starts[: len(trials), None] + rows * width[:, None] + cell[:, None]).ravel()
    return cells


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


def tvd(people: Floats, model: Floats, parted: Counts) -> Floats:
    """What each outcome adds to the total variation distance.

    In the cells `parted` both sides drew outcomes that the other did not.

    >>> tvd(np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.array([], dtype=int)).tolist()
    [0.25, 0.25]
    """
    terms: Floats = np.abs(people - model) / 2
    terms[parted] = (people[parted] + model[parted]) / 2
    return terms


def js(people: Floats, model: Floats, parted: Counts) -> Floats:
    """What each outcome adds to the Jensen-Shannon divergence, in nats.

    >>> js(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([], dtype=int)).round(4).tolist()
    [0.3466, 0.3466]
    """
    terms = _entropy_terms((people + model) / 2)
    terms -= (_entropy_terms(people) + _entropy_terms(model)) / 2
    terms[parted] = (people[parted] + model[parted]) / 2 * np.log(2)
    return terms


DISTANCES: Mapping[str, Callable[[Floats, Floats, Counts], Floats]] = {"tvd": tvd, "js": js}
ALL_DIFFERENT = 1
"""The place, among the estimates of a truth, of the one whose unseen words never meet."""


def _ends(scores: Sequence[float], times: float) -> Ends:
    """Scores under plug-in, all different, Chao and Chao of bootstrapped people."""
    low, high, first, *again = scores
    return Ends(low, first + times * (first - sum(again) / len(again)), high)


def _entropy_terms(shares: Floats) -> Floats:
    terms = np.zeros_like(shares)
    some = np.flatnonzero(shares)  # most words are not drawn
    own = shares[some]
    terms[some] = -own * np.log(own)
    return terms


def _samples(
    truths: Floats,
    n_human: int,
    n_model: int | None,
    rng: np.random.Generator,
    n_replicates: int = N_REPLICATES,
) -> tuple[Floats, Floats]:
    """Both sides' shares, (replicates, truths, outcomes); an exact model has the truth's own."""
    # One call for both sides: to begin one takes as long as to draw many rows.
    sizes = np.array([n_human] if n_model is None else [n_human, n_model])[:, None, None]
    drawn = rng.multinomial(sizes, truths, size=(len(sizes), n_replicates, len(truths)))
    people, *model = drawn / sizes[..., None]
    return people, model[0] if model else np.broadcast_to(truths, people.shape)
