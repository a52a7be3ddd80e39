"""Systems and human control of "What Comes Next?", recomputed from the authors' pair scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.data.files import sha256_of_all
from aleatoric.data.score_files import ScoreFile, people_matrices, read_distances
from aleatoric.levels import text_variability as variability
from aleatoric.levels.text_protocol import DIALOGUES
from aleatoric.levels.text_variability import Inputs, Splitting
from aleatoric.metrics.distances import energy_distance, mean
from aleatoric.registry import Track, quietly
from aleatoric.studies import production_printed as printed
from aleatoric.studies.production_control import ScoredSystem, control_name, human_control
from aleatoric.studies.production_printed import tasks
from aleatoric.types import Floats

ByInput = Mapping[int, Floats]
"""Input -> distances."""


def by_task(files: Sequence[ScoreFile]) -> dict[str, list[ScoreFile]]:
    """Return the files of each corpus of the paper; others keep the name of their task."""
    names = {task.scores.lower(): corpus for corpus, task in tasks().items()}
    grouped: dict[str, list[ScoreFile]] = {}
    for file in files:
        grouped.setdefault(names.get(file.task.lower(), file.task), []).append(file)
    return grouped


def without_people(files: Sequence[ScoreFile]) -> list[str]:
    """Return the tasks whose scores of people among themselves are missing."""
    grouped = by_task(files).items()
    return [corpus for corpus, own in grouped if all(file.part != "H" for file in own)]


def score_systems(
    files: Sequence[ScoreFile],
    protocols: Sequence[str],
    probes: Sequence[str],
    splitting: Splitting,
    track: Track[Any] = quietly,
) -> Iterator[ScoredSystem]:
    """Yield the human control and the systems of each task that has scores of people."""
    for corpus, own in by_task(files).items():
        if not (people := next((file for file in own if file.part == "H"), None)):
            continue
        human = read_distances(people, probes)
        for protocol in protocols:
            yield from _control(corpus, protocol, people, human, splitting)
        systems: dict[str, list[ScoreFile]] = {}
        for file in (file for file in own if file.part != "H"):
            systems.setdefault(file.candidate, []).append(file)
        for name, parts in track(systems.items(), len(systems), f"scores of {corpus}"):
            read = {file.part: read_distances(file, probes) for file in parts}
            for protocol in protocols:
                yield _system(corpus, name, protocol, human, read, (people, *parts))


def _scored(
    corpus: str,
    system: str,
    protocol: str,
    human: Mapping[str, ByInput],
    files: Sequence[ScoreFile],
    splitting: Splitting | None = None,
) -> tuple[ScoredSystem, list[int]]:
    """Return a system, or people with their splitting, without statistics, and its inputs."""
    choices = {"distances": "published scores"}
    if splitting is not None and protocol != "paper":
        choices["control"] = control_name(protocol, splitting)
    inputs = sorted({number for by_input in human.values() for number in by_input})
    origin = sha256_of_all([file.path for file in files]), system, "as named", "recorded"
    by_probe, groups = dict.fromkeys(human, choices), list(map(str, inputs))
    return ScoredSystem(corpus, system, protocol, "scores", origin, by_probe, groups), inputs


def _control(
    corpus: str,
    protocol: str,
    people: ScoreFile,
    human: Mapping[str, ByInput],
    splitting: Splitting,
) -> Iterator[ScoredSystem]:
    """Yield people against people; the paper has no control for dialogue."""
    if protocol == "paper" and corpus in DIALOGUES:
        return
    scored, inputs = _scored(corpus, printed.CONTROL, protocol, human, [people], splitting)
    for probe, by_input in human.items():
        for numbers, (pairs,) in _stacked([by_input]):
            matrices = people_matrices(pairs)
            each = Inputs(list(map(str, numbers)), matrices, matrices.shape[1])
            rows = np.searchsorted(inputs, numbers)
            scored.place(probe, human_control(protocol, each, splitting), rows, len(inputs))
    yield scored


def _system(
    corpus: str,
    name: str,
    protocol: str,
    human: Mapping[str, ByInput],
    read: Mapping[str, Mapping[str, ByInput]],
    files: Sequence[ScoreFile],
) -> ScoredSystem:
    """Return W1 and differences of means, and energy if both M and C are there."""
    scored, inputs = _scored(corpus, name, protocol, human, files)
    w1 = registry.find("divergences", "w1")
    as_published = protocol == "paper" and corpus not in DIALOGUES
    for probe, by_input in human.items():
        parts = {side: by_probe[probe] for side, by_probe in read.items() if probe in by_probe}
        for side, distances in parts.items():
            for numbers, (pairs, model) in _stacked([by_input, distances]):
                people = variability.paper_people(pairs) if as_published else pairs
                values = {
                    f"w1_{side}": w1(model, people),
                    f"dmu_{side}": mean(model) - mean(people),
                }
                scored.place(probe, values, np.searchsorted(inputs, numbers), len(inputs))
        if len(parts) == 2:
            for numbers, sides in _stacked([by_input, parts["M"], parts["C"]]):
                energy = {"energy": energy_distance(*map(mean, sides))}
                scored.place(probe, energy, np.searchsorted(inputs, numbers), len(inputs))
    return scored


def _stacked(parts: Sequence[ByInput]) -> Iterator[tuple[list[int], list[Floats]]]:
    """Yield the inputs that all parts have, with equal numbers of distances, stacked by part."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for number in sorted(set(parts[0]).intersection(*parts[1:])):
        shapes.setdefault(tuple(len(part[number]) for part in parts), []).append(number)
    for numbers in shapes.values():
        yield numbers, [np.stack([part[number] for number in numbers]) for part in parts]
