"""The human control of "What Comes Next?" (Tables 2 to 5): printed, as published, corrected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

import aleatoric
from aleatoric import registry
from aleatoric.data.opening import open_text_corpus, sniff_texts
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.estimate import estimates
from aleatoric.levels import text_variability as variability
from aleatoric.levels.text_protocol import is_dialogue, preparation
from aleatoric.levels.text_variability import Inputs, ScoredTexts, Splitting, Statistics
from aleatoric.metrics.distances import mean
from aleatoric.metrics.reduction import Mean
from aleatoric.probes.base import Probe
from aleatoric.probes.opening import probes_with
from aleatoric.probes.tools import Tools
from aleatoric.registry import Track, quietly
from aleatoric.result_types import Result, Table
from aleatoric.studies.people import interval_text
from aleatoric.types import Floats, Ints, MultiRef, Signature

PRINTED: dict[str, dict[str, tuple[float, float]]] = {
    "asset": {
        "lexical-1": (0.042863, -0.004613),
        "syntactic-2": (0.050427, -0.004535),
        "semantic": (0.025631, -0.005045),
    },
    "wmt14-10ref": {
        "lexical-1": (0.043193, 0.023181),
        "syntactic-2": (0.035402, 0.009030),
        "semantic": (0.027646, 0.009674),
    },
    "writingprompts": {
        "lexical-1": (0.026115, -0.000588),
        "syntactic-2": (0.030801, -0.001439),
        "semantic": (0.050663, -0.000839),
    },
}
"""The printed rows `human_control`: mean W1 and mean difference of means."""
TASKS = {"simplification": "asset", "translation": "wmt14-10ref"}
"""Task in the file of recorded pair distances -> corpus."""
PROBES = ("lexical-1", "lexical-2", "lexical-3")
PROTOCOLS = ("paper", "corrected")
STATISTICS = ("mean_H", "w1_M", "dmu_M", "w1_C", "dmu_C")
CHECKED_PROBE = "lexical-1"
RECORDED = "multiref_human_control_unigram.json"
TOLERANCE = 1e-8
BATCH = 512
PAPER_LANGUAGE = "en"
"""The paper reads German with English tools too."""
SHOWN = 5
"""The number of inputs whose pair distances are kept, as many as the recorded file has."""
NOTES = (
    "paper: half of the pair distances, drawn with replacement, against the first half of the same "
    "ones; texts cut to 100 GPT-2 tokens, English rules for every language, ASSET read as latin-1; "
    "two texts too short for an n-gram have distance 0; dialogue has no control.",
    "corrected: people split into disjoint halves at random, 20 times; M: one half's pairs against "
    "the other's; C: the grid of both halves against the other's pairs; texts cut to 100 tokens.",
    "The printed rows of syntactic-2 and semantic rest on the authors' tagger and encoder.",
)


@dataclass(frozen=True)
class ControlLine:
    """A printed number, and ours under a protocol."""

    corpus: str
    protocol: str
    printed: float | None
    result: Result

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        facts = {"corpus": self.corpus, "protocol": self.protocol, "printed": self.printed}
        return self.result.to_dict() | facts


@dataclass(frozen=True)
class PairCheck:
    """The distances between one input's people, compared with the recorded ones."""

    corpus: str
    item_id: str
    distances: tuple[float, ...]
    """Distances of pairs i < j, row by row."""
    control: Mapping[str, float]
    worst: float | None
    """The largest difference from the recorded distances, if there are any."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        facts = {"corpus": self.corpus, "id": self.item_id, "worst": self.worst}
        return facts | {"distances": list(self.distances)}


@dataclass(frozen=True)
class ControlReproduction:
    """Everything that `reproduce production` prints."""

    lines: tuple[ControlLine, ...]
    pairs: tuple[PairCheck, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        results = [line.to_dict() for line in self.lines]
        return {"results": results, "pairs": [check.to_dict() for check in self.pairs]}


def reproduce(
    data: Path,
    protocols: Sequence[str] = PROTOCOLS,
    probes: Sequence[str] = PROBES,
    splitting: Splitting | None = None,
    recorded: Path | None = None,
    track: Track[Any] = quietly,
) -> ControlReproduction:
    """The human control of every corpus in a folder, under each protocol."""
    splitting, recordings = splitting or Splitting(), _recorded(data, recorded)
    lines: list[ControlLine] = []
    pairs: list[PairCheck] = []
    for corpus, protocol in product(find_corpora(data), protocols):
        scores = score(corpus, protocol, probes, splitting, track)
        lines += _lines(corpus, protocol, scores, splitting)
        if protocol == "paper":
            pairs += _checks(corpus.name, scores, recordings)
    return ControlReproduction(tuple(lines), tuple(pairs))


def chosen_protocols(protocol: str) -> tuple[str, ...]:
    """The protocols of an option: one of them, or `both`."""
    if protocol not in (*PROTOCOLS, "both"):
        raise UsageError(f"there is no protocol {protocol!r}; use paper, corrected or both.")
    return PROTOCOLS if protocol == "both" else (protocol,)


def find_corpora(data: Path) -> list[MultiRef]:
    """The corpora of texts in a folder, those with printed rows first."""
    if not os.path.isdir(data):
        fix = "name the folder that holds the corpora of texts"
        raise DataError.at(data, None, "is not a folder", fix)
    ends = (".jsonl", ".jsonl.gz", ".orig", ".extra_refs", ".extra_refs.gz", ".wp_source")
    paths = sorted(path for path in data.iterdir() if path.name.endswith(ends))
    if not paths:
        fix = "put asset_valid.jsonl.gz or wmt14-en-de.extra_refs.gz there"
        raise DataError.at(data, None, "holds no corpus of texts", fix)
    corpora = [open_text_corpus(f"{sniff_texts(path)}:{path}") for path in paths]
    order = list(PRINTED)
    return sorted(corpora, key=lambda c: order.index(c.name) if c.name in order else len(order))


def to_tables(result: ControlReproduction) -> list[Table]:
    """The table of results, and the check of pair distances."""
    checks = [_checks_table(result.pairs)] if result.pairs else []
    return [_rows_table(result.lines), *checks]


def pair_tables(checks: Iterable[PairCheck]) -> list[Table]:
    """Per corpus, every pair distance of its first inputs, to eight digits."""
    tables = []
    for corpus, group in groupby(checks, key=lambda check: check.corpus):
        inputs = list(group)
        pairs = enumerate(zip_longest(*(check.distances for check in inputs)), 1)
        rows = tuple(
            (str(number), *("" if cell is None else f"{cell:.8f}" for cell in cells))
            for number, cells in pairs
        )
        columns = ("pair", *(f"input {check.item_id}" for check in inputs))
        tables.append(Table(f"{corpus}: {CHECKED_PROBE} of pairs i < j", columns, rows))
    return tables


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
    track: Track[Any] = quietly,
) -> ControlScores:
    """The human control of every input of a corpus, by probe."""
    paper_tools = Tools(PAPER_LANGUAGE, tokeniser_spec=f"spacy:{PAPER_LANGUAGE}")
    tools = paper_tools if protocol == "paper" else Tools(corpus.language)
    prepared = preparation(protocol, corpus.name, tools.length_reader())
    opened = prepared.probes(probes_with(tools, probes))
    # The paper has no control for dialogue.
    has_control = protocol != "paper" or not is_dialogue(corpus.name, corpus.items)
    control = partial(_control, protocol if has_control else None, splitting)
    items = iter(track(corpus.items, len(corpus.items), f"{corpus.name}, {protocol}"))
    facts = {probe.name: {**prepared.facts, **probe.facts} for probe in opened}
    scores = ControlScores([], facts)
    while batch := list(islice(items, BATCH)):
        texts = [ScoredTexts(item.id, prepared.people(item.references)) for item in batch]
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


def _lines(
    corpus: MultiRef, protocol: str, scores: ControlScores, splitting: Splitting
) -> list[ControlLine]:
    chunk = {name: column[:, None] for name, column in scores.values.items()}
    reductions = {name: Mean(name) for name in chunk}
    control = "published" if protocol == "paper" else f"disjoint-halves-{splitting.n_splits}"
    lines = []
    for name, estimate in estimates([(scores.groups, chunk)], reductions, splitting.seed).items():
        statistic, _, probe = name.partition("/")
        choices = {"protocol": protocol, "control": control, **scores.facts[probe]}
        origin = (corpus.name, corpus.sha256, "people", "none", "people", choices)
        size = (str(estimate.n_items), splitting.seed, name, aleatoric.__version__)
        result = Result("control", name, Signature(*origin, *size), estimate)
        # The published control has no C of its own: Tables 4 and 5 repeat its row of Tables 2, 3.
        row = PRINTED.get(corpus.name, {}).get(probe, (None, None))
        printed = dict(zip(("w1_M", "dmu_M"), row, strict=True)).get(statistic)
        lines.append(ControlLine(corpus.name, protocol, printed, result))
    return lines


def _recorded(data: Path, chosen: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Recorded pair distances by corpus, from a given file or one near the data."""
    near = (data / RECORDED, data.resolve().parent.parent / "golden" / RECORDED)
    path = chosen or next((file for file in near if os.path.isfile(file)), None)
    if path is None:
        return {}
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
        return {TASKS[task]: list(rows["first5"]) for task, rows in tasks.items() if task in TASKS}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        problem = "is not a file of recorded pair distances"
        raise DataError.at(path, None, problem, "name one with first5 by task") from None


def _checks(
    corpus: str, scores: ControlScores, recordings: dict[str, list[dict[str, Any]]]
) -> Iterator[PairCheck]:
    """The first inputs of a corpus, with their differences from the recorded distances."""
    by_id = {str(row["id"]): row["H_unigram_i<j"] for row in recordings.get(corpus, [])}
    for item_id, distances, control in scores.first[:SHOWN]:
        other, worst = by_id.get(item_id), None
        if other is not None and len(other) == len(distances):
            worst = float(np.abs(np.array(other) - distances).max())
        yield PairCheck(corpus, item_id, tuple(distances.tolist()), control, worst)


def _rows_table(lines: Sequence[ControlLine]) -> Table:
    cells = {(line.corpus, line.result.metric, line.protocol): line for line in lines}
    corpora = list(dict.fromkeys(line.corpus for line in lines))

    def order(key: tuple[str, str]) -> tuple[int, str, int]:
        statistic, _, probe = key[1].partition("/")
        return corpora.index(key[0]), probe, STATISTICS.index(statistic)

    rows = []
    for corpus, metric in sorted({(line.corpus, line.result.metric) for line in lines}, key=order):
        both = [cells.get((corpus, metric, protocol)) for protocol in PROTOCOLS]
        available = next(line for line in both if line is not None)
        ours = (_digits(line.result.estimate.value if line else None) for line in both)
        ends = interval_text(both[1].result.estimate.interval if both[1] else None, ".4f")
        inputs = str(available.result.estimate.n_items)
        rows.append((corpus, metric, _digits(available.printed), *ours, ends, inputs))
    columns = ("corpus", "metric", "printed", "paper", "corrected", "[low, high]", "inputs")
    return Table("What Comes Next?, human control", columns, tuple(rows), NOTES)


def _checks_table(checks: Sequence[PairCheck]) -> Table:
    rows = []
    for check in checks:
        control = (_digits(check.control.get(name)) for name in ("mean_H", "w1_M", "dmu_M"))
        worst = "–" if check.worst is None else f"{check.worst:.1e}"
        rows.append((check.corpus, check.item_id, str(len(check.distances)), *control, worst))
    columns = ("corpus", "input", "pairs", "mean H", "W1", "Dmu", "worst difference")
    notes = (
        f"{CHECKED_PROBE} of the first inputs, paper; recorded to eight digits: a difference of "
        f"at most {TOLERANCE:g} is none. – : nothing was recorded.",
    )
    return Table("Pair distances against the recorded ones", columns, tuple(rows), notes)


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}"
