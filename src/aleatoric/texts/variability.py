"""From the texts of inputs to statistics: do a system's texts vary as people's do?

Of an input with people's texts and a system's, H are the distances of people's texts two by two, M
those of the system's, and C those of every text of the system to every one of people. A system is
compared with people by the energy distance 2 mean C - mean M - mean H, and, as in the paper, by
divergences (as W1) of M and of C from H and by differences of means.
Undefined distances are left out and counted; a statistic of none is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from aleatoric.metrics.empirical import Divergence, counts, mean
from aleatoric.metrics.energy import energy_distance
from aleatoric.probes.base import Block, Probe
from aleatoric.types import Floats, Ints

BATCH = 256
"""Inputs at a time: more do not fit in a core's cache, fewer leave an encoder's batches short."""
Stands = Callable[[Floats], Floats]
"""(inputs, pairs) -> what stands for people's distances when a system is compared with them."""


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """One input: what people wrote, and what each system wrote, in an order that all inputs share.

    >>> ScoredTexts("1", ("a", "b"), (("c",),)).block()
    Block(texts=('a', 'b', 'c'), sizes=(2, 1))
    """

    item_id: str
    people: tuple[str, ...]
    systems: tuple[tuple[str, ...], ...] = ()

    def block(self) -> Block:
        """Its texts as probes take them."""
        parts = (self.people, *self.systems)
        return Block(tuple(text for part in parts for text in part), tuple(map(len, parts)))


@dataclass(frozen=True)
class Group:
    """Inputs with the same numbers of texts: `rows` of the batch, and their distances.

    `distances` is (probes, inputs, texts, texts).
    """

    rows: Ints
    sizes: tuple[int, ...]
    distances: Floats

    def human(self) -> Floats:
        """H: (probes, inputs, pairs of people), pairs i < j in reading order."""
        return self._taken(_pairs(np.arange(self.sizes[0])))

    def model(self, system: int) -> Floats:
        """M: (probes, inputs, pairs of the system's texts)."""
        return self._taken(_pairs(self._texts_of(system)))

    def cross(self, system: int) -> Floats:
        """C: (probes, inputs, system's text x person's text)."""
        own, people = self._texts_of(system), np.arange(self.sizes[0])
        return self._taken((np.repeat(own, len(people)), np.tile(people, len(own))))

    def with_people(self, system: int) -> Floats:
        """(probes, inputs, texts, texts) of people and one system alone."""
        own = np.concatenate([np.arange(self.sizes[0]), self._texts_of(system)])
        found: Floats = self.distances[:, :, own[:, None], own]
        return found

    def _texts_of(self, system: int) -> Ints:
        start = sum(self.sizes[: system + 1])
        return np.arange(start, start + self.sizes[system + 1])

    def _taken(self, pairs: tuple[Ints, Ints]) -> Floats:
        n_probes, n_inputs, width, _ = self.distances.shape
        flat = self.distances.reshape(n_probes, n_inputs, width * width)
        found: Floats = flat.take(pairs[0] * width + pairs[1], axis=2)
        return found


@dataclass(frozen=True)
class Scores:
    """The statistics of a batch of inputs.

    `people` and, system by system, `systems` map a metric as mean_H/lexical-1 to its values by
    input. `undefined` counts, by system (people's under ""), the distances of an input that are
    undefined, under H/lexical-1, M/lexical-1, C/lexical-1. `groups` keep the distances.
    """

    item_ids: tuple[str, ...]
    people: Mapping[str, Floats]
    systems: Mapping[str, Mapping[str, Floats]]
    undefined: Mapping[str, Mapping[str, NDArray[np.int64]]]
    groups: tuple[Group, ...]


def stream_scores(
    items: Iterable[ScoredTexts],
    names: Sequence[str],
    probes: Sequence[Probe],
    divergences: Mapping[str, Divergence],
    batch: int = BATCH,
) -> Iterator[Scores]:
    """The statistics of any number of inputs, some at a time: memory does not grow with them.

    `names` are those of the systems, in the order in which the inputs have them.
    """
    walk = iter(items)
    while some := list(islice(walk, batch)):
        yield score_blocks(some, names, probes, divergences)


def score_blocks(
    items: Sequence[ScoredTexts],
    names: Sequence[str],
    probes: Sequence[Probe],
    divergences: Mapping[str, Divergence],
    stands: Stands = lambda distances: distances,
) -> Scores:
    """The statistics of these inputs, for every probe and every system of `names`.

    >>> from aleatoric.metrics.wasserstein import w1
    >>> from aleatoric.probes.opening import open_probes
    >>> item = ScoredTexts("1", ("a b", "a c"), (("a b", "a b"),))
    >>> probes = open_probes(["lexical-1"], tokeniser="whitespace")
    >>> found = score_blocks([item], ["copier"], probes, {"w1": w1})
    >>> {metric: value.tolist() for metric, value in found.systems["copier"].items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'mean_H/lexical-1': [0.5], 'mean_M/lexical-1': [0.0], 'mean_C/lexical-1': [0.25],
     'energy/lexical-1': [0.0], 'w1_M/lexical-1': [0.5], 'dmu_M/lexical-1': [-0.5],
     'w1_C/lexical-1': [0.25], 'dmu_C/lexical-1': [-0.25]}
    """
    blocks = [item.block() for item in items]
    groups = tuple(grouped(blocks, probes))
    labels = [probe.name for probe in probes]
    table = _Table(labels, len(items))
    for group in groups:
        human = group.human()
        table.add("", group.rows, {"mean_H": _means(human)}, {"H": _missing(human)})
        for place, name in enumerate(names):
            found, missing = _system(group, place, human, divergences, stands)
            table.add(name, group.rows, found, missing)
    return table.scores(tuple(item.item_id for item in items), names, groups)


def grouped(blocks: Sequence[Block], probes: Sequence[Probe]) -> Iterator[Group]:
    """The distances of blocks, those of one shape together."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for row, block in enumerate(blocks):
        shapes.setdefault(block.sizes, []).append(row)
    # A probe sees the whole batch at once, whatever shapes it has: its encoder fills its batches.
    matrices = [probe.matrices(blocks) for probe in probes]
    for sizes, rows in shapes.items():
        shape = (len(probes), len(rows), sum(sizes), sum(sizes))
        stacked = [own[row] for own in matrices for row in rows]
        distances = np.array(stacked, dtype=np.float64).reshape(shape)
        yield Group(np.array(rows), sizes, distances)


Statistics = dict[str, Floats]
"""Name -> (probes, inputs)."""


def _system(
    group: Group,
    place: int,
    human: Floats,
    divergences: Mapping[str, Divergence],
    stands: Stands,
) -> tuple[Statistics, dict[str, Ints]]:
    sides = {"M": group.model(place), "C": group.cross(place)}
    found = {"mean_H": _means(human)}
    found |= {f"mean_{side}": _means(texts) for side, texts in sides.items()}
    found["energy"] = energy_distance(*(found[f"mean_{side}"] for side in "HMC"))
    people = stands(_flat(human))
    for side, texts in sides.items():
        for name, divergence in divergences.items():
            found[f"{name}_{side}"] = divergence(_flat(texts), people).reshape(texts.shape[:2])
        found[f"dmu_{side}"] = found[f"mean_{side}"] - mean(people).reshape(texts.shape[:2])
    return found, {side: _missing(texts) for side, texts in sides.items()}


class _Table:
    """Values by input as groups of inputs bring them; what no group brings is NaN."""

    def __init__(self, labels: Sequence[str], n_items: int) -> None:
        self._labels, self._n_items = labels, n_items
        self._values: dict[str, dict[str, Floats]] = {}
        self._missing: dict[str, dict[str, Ints]] = {}

    def add(self, system: str, rows: Ints, found: Statistics, missing: Mapping[str, Ints]) -> None:
        """Put the (probes, inputs) values of a group where its inputs are."""
        values, undefined = (
            self._values.setdefault(system, {}),
            self._missing.setdefault(system, {}),
        )
        for metric, own in found.items():
            for label, row in zip(self._labels, own, strict=True):
                key = f"{metric}/{label}"
                values.setdefault(key, np.full(self._n_items, np.nan))[rows] = row
        for side, own_counts in missing.items():
            for label, number in zip(self._labels, own_counts, strict=True):
                key = f"{side}/{label}"
                undefined.setdefault(key, np.zeros(self._n_items, np.int64))[rows] = number

    def scores(
        self, item_ids: tuple[str, ...], names: Sequence[str], groups: tuple[Group, ...]
    ) -> Scores:
        """Everything that was added."""
        systems = {name: self._values.get(name, {}) for name in names}
        return Scores(item_ids, self._values.get("", {}), systems, self._missing, groups)


def _pairs(texts: Ints) -> tuple[Ints, Ints]:
    first, second = np.triu_indices(len(texts), 1)
    return texts[first], texts[second]


def _flat(distances: Floats) -> Floats:
    n_probes, n_inputs, n_pairs = distances.shape
    return distances.reshape(n_probes * n_inputs, n_pairs)


def _means(distances: Floats) -> Floats:
    return mean(_flat(distances)).reshape(distances.shape[:2])


def _missing(distances: Floats) -> Ints:
    found: Ints = distances.shape[2] - counts(_flat(distances)).reshape(distances.shape[:2])
    return found
