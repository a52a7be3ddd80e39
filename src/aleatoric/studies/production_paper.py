"""The human control of "What Comes Next?" (Tables 2 to 5): printed, as published, corrected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import aleatoric
from aleatoric import registry
from aleatoric.data.opening import open_text_corpus, sniff_texts
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.estimate import estimates
from aleatoric.levels.text_protocol import Preparation, is_dialogue, preparation
from aleatoric.levels.text_variability import Inputs, Splitting, corrected_batch, paper_batch
from aleatoric.metrics.distances import Divergence, mean
from aleatoric.metrics.reduction import Mean
from aleatoric.probes.base import Block, Probe
from aleatoric.probes.opening import probes_with
from aleatoric.probes.tools import Tools
from aleatoric.registry import Track, quietly
from aleatoric.types import Floats, MultiRef, Result, Signature, Table, TextItem

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
"""The rows `human_control`: mean W1 and mean difference of means, by corpus and probe."""
TASKS = {"simplification": "asset", "translation": "wmt14-10ref"}
"""The names of tasks in the file of recorded pair distances."""
PROBES = ("lexical-1", "lexical-2", "lexical-3")
PROTOCOLS = ("paper", "corrected")
STATISTICS = ("mean_H", "w1_M", "dmu_M", "w1_C", "dmu_C")
RECORDED = "multiref_human_control_unigram.json"
TOLERANCE = 1e-8
NOTES = (
    "paper: half of the pair distances, drawn with replacement, against the first half of the same "
    "ones; texts cut to 100 GPT-2 tokens, English rules for every language, ASSET read as latin-1; "
    "two texts too short for an n-gram have distance 0; dialogue has no control.",
    "corrected: people split into disjoint halves at random, 20 times; M: one half's pairs against "
    "the other's; C: the grid of both halves against the other's pairs; texts cut to 100 tokens.",
    "The printed rows of syntactic-2 and semantic rest on the authors' tagger and encoder.",
)


@dataclass(frozen=True)
class Line:
    """A printed number, and ours under a protocol."""

    corpus: str
    protocol: str
    printed: float | None
    result: Result

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        own = {"corpus": self.corpus, "protocol": self.protocol, "printed": self.printed}
        return self.result.as_dict() | own


@dataclass(frozen=True)
class PairCheck:
    """The pair distances of one input, beside those that were recorded."""

    corpus: str
    pairs: Pairs
    worst: float | None
    """The greatest difference from the recorded distances, where there are some."""

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        own = {"corpus": self.corpus, "id": self.pairs.item_id, "worst": self.worst}
        return own | {"distances": list(self.pairs.distances)}


@dataclass(frozen=True)
class Reproduction:
    """Everything that is printed."""

    lines: tuple[Line, ...]
    pairs: tuple[PairCheck, ...]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        lines, pairs = self.lines, self.pairs
        return {"results": [own.as_dict() for own in lines], "pairs": [p.as_dict() for p in pairs]}


def reproduce(
    data: Path,
    protocols: Sequence[str] = PROTOCOLS,
    probes: Sequence[str] = PROBES,
    splitting: Splitting | None = None,
    recorded: Path | None = None,
    track: Track[Any] = quietly,
) -> Reproduction:
    """The human control of every corpus in a folder, under each protocol."""
    own = splitting or Splitting()
    known = _recorded(data, recorded)
    lines: list[Line] = []
    pairs: list[PairCheck] = []
    for corpus in find_corpora(data):
        for protocol in protocols:
            scored = score(corpus, protocol, probes, own, track)
            lines += _lines(corpus, protocol, scored, own)
            if protocol == "paper":
                pairs += _checks(corpus.name, scored, known)
    return Reproduction(tuple(lines), tuple(pairs))


def chosen_protocols(protocol: str) -> tuple[str, ...]:
    """The protocols of an option: one, or `both`.

    >>> chosen_protocols("both")
    ('paper', 'corrected')
    """
    if protocol not in (*PROTOCOLS, "both"):
        raise UsageError(f"there is no protocol {protocol!r}; use paper, corrected or both.")
    return PROTOCOLS if protocol == "both" else (protocol,)


def find_corpora(data: Path) -> list[MultiRef]:
    """The corpora of texts in a folder, those with printed rows first."""
    if not os.path.isdir(data):
        problem = "is no folder"
        raise DataError.at(data, None, problem, "name the folder that holds the corpora of texts")
    ends = (".jsonl", ".jsonl.gz", ".orig", ".extra_refs", ".extra_refs.gz", ".wp_source")
    paths = sorted(path for path in data.iterdir() if path.name.endswith(ends))
    if not paths:
        fix = "put asset_valid.jsonl.gz or wmt14-en-de.extra_refs.gz there"
        raise DataError.at(data, None, "holds no corpus of texts", fix)
    found = [open_text_corpus(f"{sniff_texts(path)}:{path}") for path in paths]
    order = list(PRINTED)
    return sorted(found, key=lambda own: order.index(own.name) if own.name in order else len(order))


def to_tables(found: Reproduction) -> list[Table]:
    """The rows, and the check of pair distances."""
    tables = [_rows_table(found.lines)]
    if found.pairs:
        tables.append(_checks_table(found.pairs))
    return tables


def pair_tables(checks: Iterable[PairCheck]) -> list[Table]:
    """By corpus every pair distance of its first inputs, to eight digits."""
    by_corpus: dict[str, list[PairCheck]] = {}
    for check in checks:
        by_corpus.setdefault(check.corpus, []).append(check)
    return [_pairs_table(corpus, own) for corpus, own in by_corpus.items()]


def _lines(corpus: MultiRef, protocol: str, scored: Scored, own: Splitting) -> list[Line]:
    reductions = {name: Mean(name) for name in scored.values}
    chunk = {name: values[:, None] for name, values in scored.values.items()}
    found = estimates([(scored.groups, chunk)], reductions, own.seed)
    lines = []
    for name, estimate in found.items():
        statistic, _, probe = name.partition("/")
        control = "published" if protocol == "paper" else f"disjoint-halves-{own.n_splits}"
        choices = {"protocol": protocol, "control": control, **scored.facts[probe]}
        signature = Signature(
            corpus.name,
            corpus.sha256,
            "people",
            "none",
            "people",
            choices,
            str(estimate.n_items),
            own.seed,
            name,
            aleatoric.__version__,
        )
        result = Result("control", name, signature, estimate)
        lines.append(Line(corpus.name, protocol, _printed(corpus.name, statistic, probe), result))
    return lines


def _printed(corpus: str, statistic: str, probe: str) -> float | None:
    # The published control has no C of its own: Tables 4 and 5 repeat its row of Tables 2 and 3.
    row = PRINTED.get(corpus, {}).get(probe)
    place = {"w1_M": 0, "dmu_M": 1}.get(statistic)
    return None if row is None or place is None else row[place]


def _recorded(data: Path, given: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Recorded pair distances by corpus, from a file that is named or stands near the data."""
    near = (data / RECORDED, data.resolve().parent.parent / "golden" / RECORDED)
    path = given or next((own for own in near if os.path.isfile(own)), None)
    if path is None:
        return {}
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
        return {TASKS[task]: list(own["first5"]) for task, own in tasks.items() if task in TASKS}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        problem = "is no file of recorded pair distances"
        raise DataError.at(path, None, problem, "name one with first5 by task") from None


def _checks(corpus: str, scored: Scored, known: dict[str, list[dict[str, Any]]]) -> list[PairCheck]:
    by_id = {str(own["id"]): own["H_unigram_i<j"] for own in known.get(corpus, [])}
    checks = []
    for pairs in scored.first.get("lexical-1", ()):
        other = by_id.get(pairs.item_id)
        worst = None
        if other is not None and len(other) == len(pairs.distances):
            worst = float(np.abs(np.array(other) - np.array(pairs.distances)).max())
        checks.append(PairCheck(corpus, pairs, worst))
    return checks


def _rows_table(lines: Sequence[Line]) -> Table:
    cells = {(line.corpus, line.result.metric, line.protocol): line for line in lines}
    keys = dict.fromkeys((line.corpus, line.result.metric) for line in lines)
    rows = []
    for corpus, metric in sorted(keys, key=lambda key: _place(list(keys), key)):
        both = [cells.get((corpus, metric, protocol)) for protocol in PROTOCOLS]
        some = next(line for line in both if line is not None)
        ours = (_value(both[0]), _value(both[1]), _interval(both[1]))
        inputs = str(some.result.estimate.n_items)
        rows.append((corpus, metric, _digits(some.printed), *ours, inputs))
    columns = ("corpus", "metric", "printed", "paper", "corrected", "[low, high]", "inputs")
    return Table("What Comes Next?, human control", columns, tuple(rows), NOTES)


def _place(keys: list[tuple[str, str]], key: tuple[str, str]) -> tuple[int, str, int]:
    """Corpora in their order, then probes, then statistics."""
    statistic, _, probe = key[1].partition("/")
    corpora = list(dict.fromkeys(corpus for corpus, _ in keys))
    return corpora.index(key[0]), probe, STATISTICS.index(statistic)


def _checks_table(checks: Sequence[PairCheck]) -> Table:
    rows = tuple(
        (
            check.corpus,
            check.pairs.item_id,
            str(len(check.pairs.distances)),
            _digits(check.pairs.control["mean_H"]),
            _digits(check.pairs.control.get("w1_M")),
            _digits(check.pairs.control.get("dmu_M")),
            "–" if check.worst is None else f"{check.worst:.1e}",
        )
        for check in checks
    )
    columns = ("corpus", "input", "pairs", "mean H", "W1", "Dmu", "worst difference")
    notes = (
        f"lexical-1 of the first inputs, paper; recorded to eight digits: at most {TOLERANCE:g} "
        "apart is the same. – : nothing was recorded.",
    )
    return Table("Pair distances against the recorded ones", columns, rows, notes)


def _pairs_table(corpus: str, checks: Sequence[PairCheck]) -> Table:
    longest = max(len(check.pairs.distances) for check in checks)
    rows = []
    for place in range(longest):
        values = [check.pairs.distances[place : place + 1] for check in checks]
        rows.append((str(place + 1), *(f"{own[0]:.8f}" if own else "" for own in values)))
    columns = ("pair", *(f"input {check.pairs.item_id}" for check in checks))
    return Table(f"{corpus}: lexical-1 of pairs i < j", columns, tuple(rows))


def _value(line: Line | None) -> str:
    return "–" if line is None else _digits(line.result.estimate.value)


def _interval(line: Line | None) -> str:
    interval = None if line is None else line.result.estimate.interval
    return "–" if interval is None else f"[{interval.low:.4f}, {interval.high:.4f}]"


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}"
