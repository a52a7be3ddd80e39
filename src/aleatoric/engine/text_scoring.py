"""How the texts of a run become statistics: some inputs at a time, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.codec import StatRow
from aleatoric.metrics.empirical import Divergence, Floats, mean
from aleatoric.probes.base import Block, Probe
from aleatoric.probes.opening import open_probes
from aleatoric.progress import Track
from aleatoric.store import Store
from aleatoric.store.texts import EmbeddingCache, Produced, TextShelf
from aleatoric.streams import stream
from aleatoric.texts import control
from aleatoric.texts.control import Inputs, Splitting, paper_people
from aleatoric.texts.floors import METHOD as FLOOR_METHOD
from aleatoric.texts.floors import floors
from aleatoric.texts.protocol import Preparation, preparation

__all__ = ["CONTROL", "FLOOR_METHOD", "PAIR", "Distances", "Scorer", "metric_names", "statistics"]

CONTROL = "control"
PAIR = "pair_H"
"""The distance between two people's texts drawn at random, one pair an input: for pictures."""
CHUNK = 128
SIDES = ("M", "C")
DIVERGENCES = ("w1", "energy", "ks")
COUNTS = ("n_people", "n_texts", "n_empty")
PAPER_TOKENISER = "spacy:en"
_ENDS = ("low", "high")
Values = dict[str, dict[str, Floats]]
"""System -> statistic -> its value by input."""


@dataclass(frozen=True)
class Distances:
    """The distances of one input: among people's texts, among a system's, and between both."""

    human: Floats
    own: Floats
    cross: Floats


@dataclass(frozen=True)
class Scorer:
    """Everything that a run's manifest asks of scoring."""

    probes: tuple[Probe, ...]
    prepare: Preparation
    divergences: Mapping[str, Divergence]
    splitting: Splitting
    protocol: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any], store: Store | None = None) -> Scorer:
        """What a manifest asks for; refuses what is not there. Embeddings are kept in `store`."""
        as_published = manifest["protocol"] == "paper"
        probes = open_probes(
            manifest["probes"],
            # The authors read German with English tools too.
            "en" if as_published else manifest["language"],
            manifest["tokeniser"] or (PAPER_TOKENISER if as_published else None),
            manifest["tagger"],
            manifest["encoder"],
            None if store is None else EmbeddingCache(store),
        )
        return cls(
            tuple(probes),
            preparation(manifest["protocol"], manifest["corpus"]["name"]),
            {name: registry.find("divergences", name) for name in DIVERGENCES},
            Splitting(manifest["seed"], manifest["n_splits"]),
            manifest["protocol"],
        )

    @property
    def is_paper(self) -> bool:
        """Whether the published procedure is followed."""
        return self.protocol == "paper"

    def facts(self) -> dict[str, dict[str, str]]:
        """Probe -> what changes its distances, for signatures."""
        return {p.name: {**self.prepare.facts, **p.facts} for p in self.probes}

    def block(self, found: Produced) -> Block:
        """The prepared texts of an input."""
        parts = [self.prepare.people(found.item.references)]
        parts += [self.prepare.systems(texts) for texts in found.systems.values()]
        texts = tuple(text for part in parts for text in part)
        return Block(texts, tuple(map(len, parts)))


def metric_names(columns: Iterable[str]) -> list[str]:
    """The columns that are metrics: a statistic of a probe that is shown.

    >>> metric_names(["w1_M/lexical-1", "floor_low_w1_M/lexical-1", "pair_H/semantic", "n_texts"])
    ['w1_M/lexical-1']
    """
    return [c for c in columns if "/" in c and not c.startswith((f"{PAIR}/", "floor_"))]


def statistics(
    store: Store, scorer: Scorer, track: Track[Any]
) -> tuple[list[str], Iterator[StatRow]]:
    """The columns of a run's statistics and their rows, an input and system each."""
    names = _statistics_of(scorer)
    columns = [f"{name}/{probe.name}" for name in names for probe in scorer.probes]
    walk = track(TextShelf(store).walk(), store.n_items, "score")
    return [*columns, *COUNTS], _rows(iter(walk), scorer)


def distances_of(store: Store, found: Produced) -> dict[str, dict[str, Distances]]:
    """Probe -> system -> the distances of one input, people beside each system."""
    scorer = Scorer.of(store.manifest, store)
    block = scorer.block(found)
    parts = list(_parts(block.sizes))
    people = parts[0]
    matrices = {probe.name: probe.matrices([block])[0] for probe in scorer.probes}
    return {
        name: {
            system: Distances(
                _within(matrix[None], people)[0],
                _within(matrix[None], own)[0],
                matrix[own, people].ravel(),
            )
            for system, own in zip(found.systems, parts[1:], strict=True)
        }
        for name, matrix in matrices.items()
    }


def _statistics_of(scorer: Scorer) -> list[str]:
    """Statistic names in the order in which they are shown."""
    compared = [f"{name}_{side}" for name in ("w1", "dmu") for side in SIDES]
    more = [f"{name}_{side}" for name in DIVERGENCES[1:] for side in SIDES]
    names = ["mean_H", "mean_M", "mean_C", *compared, *more]
    if scorer.is_paper:
        return [*names, PAIR]
    matched = [f"{name}_{side}_matched" for name in ("w1", "dmu") for side in SIDES]
    ends = [f"floor_{end}_w1_{side}" for side in SIDES for end in _ENDS]
    return [*names, *matched, *ends, PAIR]


def _rows(walk: Iterator[Produced], scorer: Scorer) -> Iterator[StatRow]:
    while chunk := list(islice(walk, CHUNK)):
        blocks = [scorer.block(found) for found in chunk]
        values: list[dict[str, dict[str, float]]] = [_counted(b, f) for b, f in zip(blocks, chunk)]
        shapes = _by_shape(chunk, blocks)
        for probe in scorer.probes:
            matrices = probe.matrices(blocks)
            for rows in shapes:
                stacked = np.stack([matrices[row] for row in rows])
                batch = Batch([chunk[row] for row in rows], blocks[rows[0]].sizes, stacked)
                _spread(batch.values(scorer), probe.name, rows, values)
        for found, own in zip(chunk, values, strict=True):
            for system, one in own.items():
                yield StatRow(found.no, system, 0, one, {})


def _counted(block: Block, found: Produced) -> dict[str, dict[str, float]]:
    """How many texts there are of people and of each system, and how many hold nothing."""
    names = [CONTROL, *found.systems]
    counted = {}
    for name, part in zip(names, _parts(block.sizes), strict=True):
        own = block.texts[part]
        empty = sum(not text.strip() for text in own)
        counted[name] = {"n_people": block.sizes[0], "n_texts": len(own), "n_empty": empty}
    return counted


def _by_shape(chunk: Sequence[Produced], blocks: Sequence[Block]) -> list[list[int]]:
    """Rows whose inputs have as many texts of the same systems: one array holds them all."""
    groups: dict[Any, list[int]] = {}
    for row, (found, block) in enumerate(zip(chunk, blocks, strict=True)):
        groups.setdefault((tuple(found.systems), block.sizes), []).append(row)
    return list(groups.values())


def _spread(
    found: Values, probe: str, rows: Sequence[int], values: list[dict[str, dict[str, float]]]
) -> None:
    """Put a batch's statistics to the inputs that they are of."""
    for system, by_name in found.items():
        for name, numbers in by_name.items():
            for row, number in zip(rows, numbers.tolist(), strict=True):
                values[row][system][f"{name}/{probe}"] = number


def _parts(sizes: Sequence[int]) -> Iterator[slice]:
    """Where the texts of people and of each system stand in a block."""
    start = 0
    for size in sizes:
        yield slice(start, start + size)
        start += size


def _within(matrices: Floats, part: slice) -> Floats:
    """The distances of pairs i < j of one part: (inputs, pairs)."""
    first, second = np.triu_indices(part.stop - part.start, k=1)
    pairs: Floats = matrices[:, part.start + first, part.start + second]
    return pairs


@dataclass(frozen=True)
class Batch:
    """Inputs of one shape, with the distances of their texts by one probe."""

    found: Sequence[Produced]
    sizes: tuple[int, ...]
    matrices: Floats

    @property
    def ids(self) -> list[str]:
        """The ids of its inputs."""
        return [one.item.id for one in self.found]

    @cached_property
    def human(self) -> Floats:
        """H: (inputs, pairs)."""
        return _within(self.matrices, slice(0, self.sizes[0]))

    def values(self, scorer: Scorer) -> Values:
        """The statistics of the control and of every system."""
        parts = list(_parts(self.sizes))
        found: Values = {CONTROL: self._control(scorer)}
        for name, part in zip(self.found[0].systems, parts[1:], strict=True):
            found[name] = self._system(part, scorer)
        return found

    def _control(self, scorer: Scorer) -> dict[str, Floats]:
        """People against people."""
        own = {"mean_H": mean(self.human), PAIR: self._random_pairs(scorer.splitting.seed)}
        if scorer.is_paper:
            # One control stands for both: its halves are of the same pairs.
            found = control.paper_batch(self.human, scorer.divergences)
            return own | {f"{k}_{side}": v for k, v in found.items() for side in SIDES}
        found = control.corrected_batch(self._people(), scorer.divergences, scorer.splitting)
        alike = {f"{name}_matched": v for name, v in found.items() if name.startswith(_COMPARED)}
        return own | found | alike

    def _system(self, part: slice, scorer: Scorer) -> dict[str, Floats]:
        """A system's texts against people's."""
        people = paper_people(self.human) if scorer.is_paper else self.human
        sides = {"M": _within(self.matrices, part), "C": self._cross(part)}
        found = {"mean_H": mean(self.human)}
        for side, texts in sides.items():
            found[f"mean_{side}"] = mean(texts)
            found[f"dmu_{side}"] = mean(texts) - mean(people)
            for name, divergence in scorer.divergences.items():
                found[f"{name}_{side}"] = divergence(texts, people)
        return found if scorer.is_paper else found | self._beside(part, scorer)

    def _beside(self, part: slice, scorer: Scorer) -> dict[str, Floats]:
        """What a system is to be compared with: itself at the control's numbers, and the floors."""
        own = replace(self._people(), matrices=self._of(part))
        of_w1 = {"w1": scorer.divergences["w1"]}
        matched = control.matched_batch(own, of_w1, scorer.splitting)
        found = {f"{name}_matched": values for name, values in matched.items()}
        n_texts = part.stop - part.start
        for name, floor in floors(self._people(), n_texts, scorer.splitting).items():
            found |= {f"floor_low_{name}": floor.low, f"floor_high_{name}": floor.high}
        return found

    def _people(self) -> Inputs:
        n = self.sizes[0]
        return Inputs(self.ids, self.matrices[:, :n, :n], n)

    def _of(self, part: slice) -> Floats:
        """The distances of people's texts and one system's."""
        chosen = np.r_[: self.sizes[0], part]
        return self.matrices[:, chosen[:, None], chosen]

    def _cross(self, part: slice) -> Floats:
        """C: (inputs, pairs)."""
        grid: Floats = self.matrices[:, part, : self.sizes[0]]
        return grid.reshape(len(grid), -1)

    def _random_pairs(self, seed: int) -> Floats:
        """One pair's distance an input; NaN where there is none."""
        n_pairs = self.human.shape[1]
        if not n_pairs:
            return np.full(len(self.human), np.nan)
        chosen = [stream(seed, "text-pair", one).integers(n_pairs) for one in self.ids]
        picked: Floats = self.human[np.arange(len(chosen)), chosen]
        return picked


_COMPARED = ("w1_", "dmu_")
