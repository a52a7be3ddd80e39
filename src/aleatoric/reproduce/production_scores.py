"""People against people on one corpus of texts, under a protocol: the statistics of every input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.metrics.empirical import Divergence, mean
from aleatoric.probes.base import Block, Probe
from aleatoric.probes.opening import probes_with
from aleatoric.probes.tools import Tools
from aleatoric.progress import Track, quietly
from aleatoric.texts.control import Inputs, Splitting, corrected_batch, paper_batch
from aleatoric.texts.protocol import Preparation, is_dialogue, preparation
from aleatoric.types import Floats, MultiRef, TextItem

BATCH = 512
PAPER_LANGUAGE = "en"
"""The paper reads German with English tools too."""
SHOWN = 5
"""Of so many inputs the pair distances are kept, as many as the recorded file holds."""


@dataclass(frozen=True)
class Pairs:
    """All distances of one input's people, pairs i < j in reading order, and its control."""

    item_id: str
    distances: tuple[float, ...]
    control: Mapping[str, float]


@dataclass(frozen=True)
class Scored:
    """Statistics by input, under names as w1_M/lexical-1, and what makes them reproducible."""

    groups: list[str]
    values: dict[str, Floats]
    facts: dict[str, dict[str, str]]
    first: dict[str, tuple[Pairs, ...]]


def score(
    corpus: MultiRef,
    protocol: str,
    probes: Sequence[str],
    splitting: Splitting,
    track: Track[Any] = quietly,
) -> Scored:
    """The human control of every input of a corpus, by probe."""
    tools = _tools(protocol, corpus.language)
    prepared = preparation(protocol, corpus.name, tools.length_reader())
    opened = prepared.probes(probes_with(tools, probes))
    of_w1 = {"w1": registry.find("divergences", "w1")}
    # The paper has no control for dialogue.
    has_control = protocol != "paper" or not is_dialogue(corpus.name, corpus.items)
    controls = _Controls(protocol, of_w1, splitting, has_control)
    walk = track(corpus.items, len(corpus.items), f"{corpus.name}, {protocol}")
    table = _Table(opened)
    for items in _batches(walk):
        _add(table, items, prepared, controls)
    facts = {probe.name: {**prepared.facts, **probe.facts} for probe in opened}
    return Scored(table.groups, table.values(), facts, table.first)


def _tools(protocol: str, language: str) -> Tools:
    if protocol == "paper":
        return Tools(PAPER_LANGUAGE, tokeniser_spec=f"spacy:{PAPER_LANGUAGE}")
    return Tools(language)


@dataclass(frozen=True)
class _Controls:
    protocol: str
    divergences: Mapping[str, Divergence]
    splitting: Splitting
    has_control: bool

    def of(self, inputs: Inputs) -> dict[str, Floats]:
        """mean_H and the control's divergences, by input."""
        human = _pairs(inputs.matrices)
        found = {"mean_H": mean(human)}
        if not self.has_control:
            return found
        if self.protocol == "corrected":
            return found | corrected_batch(inputs, self.divergences, self.splitting)
        published = paper_batch(human, self.divergences)
        return found | {f"{name}_M": values for name, values in published.items()}


class _Table:
    """Values of inputs as batches bring them."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self.probes = probes
        self.groups: list[str] = []
        self.first: dict[str, tuple[Pairs, ...]] = {probe.name: () for probe in probes}
        self._parts: dict[str, list[tuple[list[int], Floats]]] = {}

    def add(self, name: str, rows: Sequence[int], values: Floats) -> None:
        """The values of inputs at `rows`, counted over the whole corpus."""
        self._parts.setdefault(name, []).append((list(rows), values))

    def show(self, probe: str, pairs: Iterable[Pairs]) -> None:
        """Keep the pair distances of the first inputs."""
        self.first[probe] = (*self.first[probe], *pairs)[:SHOWN]

    def values(self) -> dict[str, Floats]:
        """Statistic -> value by input, NaN where there is none."""
        found = {}
        for name, parts in self._parts.items():
            found[name] = np.full(len(self.groups), np.nan)
            for rows, values in parts:
                found[name][rows] = values
        return found


def _add(
    table: _Table, items: Sequence[TextItem], prepared: Preparation, controls: _Controls
) -> None:
    start = len(table.groups)
    table.groups.extend(item.group for item in items)
    texts = [prepared.people(item.references) for item in items]
    blocks = [Block(own, (len(own),)) for own in texts]
    for probe in table.probes:
        matrices = probe.matrices(blocks)
        for rows in _rows_by_size(blocks):
            stacked = np.stack([matrices[row] for row in rows])
            inputs = Inputs([items[row].id for row in rows], stacked, stacked.shape[1])
            found = controls.of(inputs)
            for name, values in found.items():
                table.add(f"{name}/{probe.name}", [start + row for row in rows], values)
            if start == 0:
                table.show(probe.name, _shown(inputs, found))


def _shown(inputs: Inputs, found: Mapping[str, Floats]) -> Iterator[Pairs]:
    distances = _pairs(inputs.matrices[:SHOWN])
    for place, own in enumerate(distances):
        control = {name: float(values[place]) for name, values in found.items()}
        yield Pairs(inputs.ids[place], tuple(own.tolist()), control)


def _pairs(matrices: Floats) -> Floats:
    first, second = np.triu_indices(matrices.shape[1], k=1)
    found: Floats = matrices[:, first, second]
    return found


def _rows_by_size(blocks: Sequence[Block]) -> list[list[int]]:
    sizes: dict[int, list[int]] = {}
    for row, block in enumerate(blocks):
        sizes.setdefault(len(block.texts), []).append(row)
    return list(sizes.values())


def _batches(items: Iterable[TextItem]) -> Iterator[list[TextItem]]:
    walk = iter(items)
    while some := list(islice(walk, BATCH)):
        yield some
