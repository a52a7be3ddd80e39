"""The human control of "What Comes Next?" from people's texts, as published and corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.levels import text_variability as variability
from aleatoric.levels.text_protocol import is_dialogue, preparation
from aleatoric.levels.text_variability import Inputs, ScoredTexts, Splitting, Statistics
from aleatoric.metrics.distances import mean
from aleatoric.probes.base import Probe
from aleatoric.probes.opening import probes_with
from aleatoric.probes.tools import Tools
from aleatoric.registry import Track, quietly
from aleatoric.types import Floats, Ints, MultiRef, TextItem

CHECKED_PROBE = "lexical-1"
BATCH = 512
STORIES = "writingprompts"
MOST_TEXTS = 10
"""Stories per prompt that are compared, as in the paper."""


@dataclass(frozen=True)
class ControlScores:
    """Statistics per input, under names such as w1_M/lexical-1; NaN if undefined."""

    groups: list[str]
    facts: Mapping[str, Mapping[str, str]]
    """Probe -> the choices that change its distances."""
    values: Statistics = field(default_factory=dict)
    first: list[tuple[str, Floats, dict[str, float]]] = field(default_factory=list)
    """The first inputs under `CHECKED_PROBE`: ids, distances of pairs, statistics."""

    def add(
        self, probe: Probe, inputs: Inputs, statistics: Statistics, rows: Ints, n_inputs: int
    ) -> None:
        """Add the statistics of some inputs, which have these rows among all `n_inputs`."""
        by_probe = {name: values[None] for name, values in statistics.items()}
        variability.place(self.values, by_probe, rows, [probe], n_inputs)
        if not self.groups and probe.name == CHECKED_PROBE:
            for i, (item_id, pairs) in enumerate(zip(inputs.ids, _pairs(inputs), strict=True)):
                control = {name: float(values[i]) for name, values in statistics.items()}
                self.first.append((item_id, pairs, control))


def score(
    corpus: MultiRef,
    protocol: str,
    probes: Sequence[str],
    splitting: Splitting,
    tools: Tools,
    track: Track[Any] = quietly,
) -> ControlScores:
    """The human control of every input of a corpus, by probe."""
    prepared = preparation(protocol, corpus.name, tools.length_reader())
    opened = prepared.probes(probes_with(tools, probes))
    # The paper has no control for dialogue.
    has_control = protocol != "paper" or not is_dialogue(corpus.name, corpus.items)
    control = partial(_control, protocol if has_control else None, splitting)
    most = MOST_TEXTS if corpus.name == STORIES else None

    def references(item: TextItem) -> tuple[str, ...]:
        return item.references[:most]

    items = iter(track(corpus.items, len(corpus.items), f"{corpus.name}, {protocol}"))
    facts = {probe.name: {**prepared.facts, **probe.facts} for probe in opened}
    scores = ControlScores([], facts)
    while batch := list(islice(items, BATCH)):
        texts = [ScoredTexts(item.id, prepared.people(references(item))) for item in batch]
        for group in variability.score_blocks(texts, (), opened, {}).groups:
            for probe, distances in zip(opened, group.distances, strict=True):
                ids = [texts[row].item_id for row in group.rows]
                inputs, rows = (
                    Inputs(ids, distances, group.sizes[0]),
                    len(scores.groups) + group.rows,
                )
                scores.add(probe, inputs, control(inputs), rows, len(corpus.items))
        scores.groups.extend(item.group for item in batch)
    return scores


def _control(protocol: str | None, splitting: Splitting, inputs: Inputs) -> Statistics:
    """mean_H and, under a protocol, the control's divergences, by input."""
    human = _pairs(inputs)
    statistics, divergences = {"mean_H": mean(human)}, {"w1": registry.find("divergences", "w1")}
    if protocol is None:
        return statistics
    if protocol == "corrected":
        return statistics | variability.corrected_batch(inputs, divergences, splitting)
    published = variability.paper_batch(human, divergences)
    return statistics | {f"{name}_M": values for name, values in published.items()}


def _pairs(inputs: Inputs) -> Floats:
    first, second = np.triu_indices(inputs.n_people, k=1)
    distances: Floats = inputs.matrices[:, first, second]
    return distances
