"""The human control of the text level: people against people.

`paper` is the published procedure, with its defect: it draws pair distances with replacement and
compares them with the first half of the same distances. `corrected` splits the people of an input
into disjoint halves, so that one half plays the generator and the other the people; `matched` gives
a system the same statistic at the same numbers of texts. Each comes for one input, and with
`_batch` for many of one shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.metrics.empirical import Divergence, mean
from aleatoric.texts.splits import N_SPLITS, between, generation_orders, people_orders, within
from aleatoric.types import Floats, Ints

PAPER_SEED = 42
Statistics = dict[str, Floats]
"""Statistic -> its value by input, NaN where undefined."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of one batch: their ids and the distances of their texts, people's first.

    `matrices` is (inputs, texts, texts) with NaN where a distance is undefined; of each input the
    first `n_people` texts are people's, the rest are one system's. Where inputs differ in their
    numbers, each shape is a batch of its own; a value does not depend on its batch.
    """

    ids: Sequence[str]
    matrices: Floats
    n_people: int

    @property
    def n_generations(self) -> int:
        """How many texts of the system an input has."""
        return int(self.matrices.shape[1]) - self.n_people


@dataclass(frozen=True)
class Splitting:
    """How people are split: how often, and from which seed."""

    seed: int = 0
    n_splits: int = N_SPLITS


def paper_choice(n_pairs: int) -> Ints:
    """Which pair distances the authors' code takes for people when it scores anything.

    >>> paper_choice(6).tolist()
    [0, 4, 3]
    """
    drawn = np.random.default_rng(PAPER_SEED).choice(np.arange(n_pairs), n_pairs)
    return np.asarray(drawn[: n_pairs // 2], dtype=np.int64)


def paper_people(distances: Floats) -> Floats:
    """The published stand-in for people's distances, by which systems too are measured.

    >>> paper_people(np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]])).tolist()
    [[0.0, 0.4, 0.3]]
    """
    chosen: Floats = distances[:, paper_choice(distances.shape[1])]
    return chosen


def paper_batch(distances: Floats, divergences: Mapping[str, Divergence]) -> Statistics:
    """The published control of (inputs, pairs) distances in the order of pairs i < j.

    Divergences of the drawn from the first half of the pairs, and `dmu`, their difference of means.

    >>> from aleatoric.metrics.wasserstein import w1
    >>> found = paper_batch(np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]]), {"w1": w1})
    >>> {name: value.round(6).tolist() for name, value in found.items()}
    {'w1': [0.133333], 'dmu': [0.133333]}
    """
    drawn, first = paper_people(distances), distances[:, : distances.shape[1] // 2]
    return _compare("", drawn, first, divergences)


def corrected_batch(
    inputs: Inputs, divergences: Mapping[str, Divergence], splitting: Splitting | None = None
) -> Statistics:
    """The control on disjoint halves a (floor) and b (ceil) of the people, mean over splits.

    `_M` compares H_a with H_b, `_C` the grid a x b with H_b. A half of one person has no pair:
    inputs of fewer than four people have no `_M`, of fewer than three no `_C`.

    >>> from aleatoric.metrics.wasserstein import w1
    >>> everyone = np.full((1, 4, 4), 0.5)
    >>> corrected_batch(Inputs(["x"], everyone, 4), {"w1": w1})["w1_M"].tolist()
    [0.0]
    """
    own = splitting or Splitting()
    orders = people_orders(inputs.n_people, inputs.ids, own.seed, own.n_splits)
    half = inputs.n_people // 2
    return _of_splits(inputs.matrices, orders[:, :, :half], orders[:, :, half:], divergences)


def matched_batch(
    inputs: Inputs, divergences: Mapping[str, Divergence], splitting: Splitting | None = None
) -> Statistics:
    """A system's statistics at the control's numbers: floor(n / 2) generations, half b of people.

    People are split as `corrected_batch` splits them. A system with fewer generations than half a
    has people cannot be matched: NaN.

    >>> from aleatoric.metrics.wasserstein import w1
    >>> everything = np.full((1, 8, 8), 0.5)
    >>> matched_batch(Inputs(["x"], everything, 4), {"w1": w1})["w1_C"].tolist()
    [0.0]
    """
    own = splitting or Splitting()
    half, n = inputs.n_people // 2, inputs.n_generations
    people = people_orders(inputs.n_people, inputs.ids, own.seed, own.n_splits)
    drawn = generation_orders(n, inputs.ids, own.seed, own.n_splits)[:, :, :half]
    if n < half:
        return _undefined(len(inputs.ids), divergences)
    return _of_splits(inputs.matrices, inputs.n_people + drawn, people[:, :, half:], divergences)


def _of_splits(
    matrices: Floats, model: Ints, people: Ints, divergences: Mapping[str, Divergence]
) -> Statistics:
    """M and C of the texts that play the model against H of those that play people."""
    human = within(matrices, people)
    sides = {"_M": within(matrices, model), "_C": between(matrices, model, people)}
    found: Statistics = {}
    for suffix, texts in sides.items():
        found |= _compare(suffix, texts, human, divergences)
    by_split = (len(matrices), model.shape[1])
    return {name: mean(values.reshape(by_split)) for name, values in found.items()}


def _compare(
    suffix: str, left: Floats, right: Floats, divergences: Mapping[str, Divergence]
) -> Statistics:
    found = {f"{name}{suffix}": own(left, right) for name, own in divergences.items()}
    return found | {f"dmu{suffix}": mean(left) - mean(right)}


def _undefined(n: int, divergences: Mapping[str, Divergence]) -> Statistics:
    names = [f"{name}{side}" for side in ("_M", "_C") for name in (*divergences, "dmu")]
    return {name: np.full(n, np.nan) for name in names}
