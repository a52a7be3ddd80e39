"""Tables 1 to 5 of "What Comes Next?": printed, as published and corrected, from what is here."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import groupby, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

import aleatoric
from aleatoric.data.opening import open_text_corpus, sniff_texts
from aleatoric.data.score_files import ScoreFile, find_score_files
from aleatoric.errors import DataError, MissingExtraError, UsageError, needs
from aleatoric.inference.estimate import estimates
from aleatoric.levels import base
from aleatoric.levels.text_protocol import (
    DIALOGUES,
    gpt2_tokeniser,
)
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.levels.text_variability import Splitting
from aleatoric.metrics.reduction import Mean
from aleatoric.probes.base import Block
from aleatoric.probes.tools import Tools, probes_with
from aleatoric.registry import Track, quietly
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.studies import notes_on
from aleatoric.studies.people import interval_text
from aleatoric.studies.production_control import (
    CHECKED_PROBE,
    STORIES,
    PrintedLengths,
    ScoredSystem,
    by_task,
    lengths_tables,
    printed_lengths,
    score,
    score_systems,
    without_people,
)
from aleatoric.studies.production_rows import (
    HEADINGS,
    HUMAN_CONTROL,
    MISSING,
    PROBES,
    PROTOCOLS,
    STATISTICS,
    PaperLine,
    Reasons,
    ShownRow,
    check_run,
    difference,
    digits,
    printed_of,
    printed_table,
    run_lines,
    shown_rows,
    tasks,
)
from aleatoric.types import LazyItems, MultiRef, Signature

TASKS = {"simplification": "asset", "translation": "wmt14-10ref"}
"""Task in the file of recorded pair distances -> corpus."""
RECORDED = "multiref_human_control_unigram.json"
TOLERANCE = 1e-8
PAPER_LANGUAGE = "en"
"""The paper reads German with English tools too."""
LEAST_STORIES = 5
SHOWN = 5
"""The number of inputs whose pair distances are kept, as many as the recorded file has."""
NO_SCORES = (
    "the texts of the authors' systems are not published, their pair scores are: unpack "
    "doi.org/10.5281/zenodo.10025272 and add --scores FOLDER"
)
NO_CONTROL = "the paper has no control for dialogue and prints NaN"


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
class Reproduction:
    """Everything that `reproduce production` prints."""

    lines: tuple[PaperLine, ...]
    pairs: tuple[PairCheck, ...]
    lengths: tuple[PrintedLengths, ...]
    reasons: Reasons
    protocols: tuple[str, ...]
    probes: tuple[str, ...]
    runs: tuple[str, ...] = ()
    """What differs between each run and the paper."""


@dataclass(frozen=True)
class Sources:
    """What a reproduction reads, checked before the work starts."""

    corpora: tuple[MultiRef, ...]
    scores: tuple[ScoreFile, ...] = ()
    stores: tuple[Store, ...] = ()

    @classmethod
    def find(cls, data: Path, scores: Path | None = None, stores: Sequence[Store] = ()) -> Sources:
        """Find the corpora and score files, and refuse runs that are not of the paper's corpora."""
        for store in stores:
            check_run(store)
        files = () if scores is None else tuple(find_score_files(scores))
        corpora = map(_with_enough, find_corpora(data, needed=not files))
        return cls(tuple(corpora), files, tuple(stores))


def _with_enough(corpus: MultiRef) -> MultiRef:
    """Return a corpus of stories with the inputs that the paper uses, others unchanged."""
    if corpus.name != STORIES:
        return corpus
    items = corpus.items
    enough = LazyItems(lambda: (each for each in items if len(each.references) >= LEAST_STORIES))
    return replace(corpus, items=enough)


@dataclass(frozen=True)
class SharedTools:
    """Opens the tools of each language and protocol once, with one cache of embeddings."""

    protocols: tuple[str, ...]
    probes: tuple[str, ...] | None
    """The probes asked for; `None` means those of the tables that can run."""
    opened: dict[tuple[str, str], tuple[Tools, dict[str, str]]] = field(default_factory=dict)
    vectors: dict[str, bytes] = field(default_factory=dict)

    def tools(self, corpus: MultiRef, protocol: str) -> Tools:
        """Return the tools for a corpus under a protocol."""
        return self._open(corpus, protocol)[0]

    def usable(self, corpus: MultiRef, protocol: str) -> list[str]:
        """Return the probes that can run; by default only one for corpora without printed rows."""
        refused = self.refused(corpus, protocol)
        default = PROBES if corpus.name in tasks() else (CHECKED_PROBE,)
        return [probe for probe in self.probes or default if probe not in refused]

    def refused(self, corpus: MultiRef, protocol: str) -> dict[str, str]:
        """Return the probes that cannot run, with the reason."""
        return self._open(corpus, protocol)[1]

    def _open(self, corpus: MultiRef, protocol: str) -> tuple[Tools, dict[str, str]]:
        language = PAPER_LANGUAGE if protocol == "paper" else corpus.language
        key = language, protocol
        if key not in self.opened:
            spec = f"spacy:{PAPER_LANGUAGE}" if protocol == "paper" else None
            tools = Tools(language, tokeniser_spec=spec, cache=self.vectors)
            self.opened[key] = tools, dict(self._refused(tools))
        return self.opened[key]

    def _refused(self, tools: Tools) -> Iterator[tuple[str, str]]:
        """Try every probe on two short texts; a probe that was asked for must work."""
        for name in self.probes or PROBES:
            try:
                (probe,) = probes_with(tools, [name])
                probe.matrices([Block(("One text.", "Another."), (2,))])
            except UsageError as refused:
                if self.probes is not None or name == CHECKED_PROBE:
                    raise
                yield name, str(refused)


def reproduce(
    sources: Sources,
    protocols: Sequence[str] = PROTOCOLS,
    probes: Sequence[str] | None = None,
    splitting: Splitting | None = None,
    recorded: Path | None = None,
    track: Track[Any] = quietly,
) -> Reproduction:
    """The human control of every corpus, the systems with scores, and runs, by protocol."""
    splitting = splitting or Splitting()
    shared = SharedTools(tuple(protocols), None if probes is None else tuple(probes))
    recordings = _recorded(recorded)
    _check_tools(sources, shared)
    lines: list[PaperLine] = []
    pairs: list[PairCheck] = []
    for corpus, protocol in product(sources.corpora, protocols):
        tools, usable = shared.tools(corpus, protocol), shared.usable(corpus, protocol)
        scores = score(corpus, protocol, usable, splitting, tools, track)
        lines += _lines(scores, splitting.seed)
        if protocol == "paper":
            pairs += _checks(corpus.name, scores, recordings)
    shown = shared.probes or PROBES
    for scored in score_systems(sources.scores, protocols, shown, splitting, track):
        lines += _lines(scored, splitting.seed)
    for store in sources.stores:
        lines += run_lines(store, base.results(store), len(sources.stores) > 1)
    lengths = tuple(printed_lengths(sources.corpora, track))
    differences = tuple(map(difference, sources.stores))
    reasons = _reasons(lines, sources, shared)
    return Reproduction(
        tuple(lines), tuple(pairs), lengths, reasons, tuple(protocols), shown, differences
    )


def _check_tools(sources: Sources, shared: SharedTools) -> None:
    """Load all tools before the work: a missing package is one sentence now, not minutes later."""
    with needs("spacy", "nlp"):
        import_module("spacy")
    if "paper" in shared.protocols and sources.corpora:
        try:
            gpt2_tokeniser()
        except MissingExtraError as missing:
            fix = ", or use --protocol corrected."
            raise UsageError(f"--protocol paper: {str(missing).rstrip('.')}{fix}") from None
    for corpus, protocol in product(sources.corpora, shared.protocols):
        shared.tools(corpus, protocol)


def _reasons(lines: Sequence[PaperLine], sources: Sources, shared: SharedTools) -> Reasons:
    """Say why numbers of Tables 2 to 5 are missing, for every printed row and protocol."""
    ours = {(line.corpus, line.result.system, line.protocol, line.result.metric) for line in lines}
    by_name = {corpus.name: corpus for corpus in sources.corpora}
    lacking, scored = set(without_people(sources.scores)), by_task(sources.scores)
    reasons: Reasons = {}
    for task, protocol in product(tasks().values(), shared.protocols):
        corpus = by_name.get(task.corpus)
        for system, probe in product(task.rows, shared.probes or PROBES):
            name = CONTROL if system == HUMAN_CONTROL else system
            metrics = [f"{statistic}/{probe}" for statistic in STATISTICS.values()]
            if all((task.corpus, name, protocol, metric) in ours for metric in metrics):
                continue
            key = task.corpus, system, protocol, probe
            if system != HUMAN_CONTROL:
                reasons[key] = _no_scores(task.corpus, lacking, scored)
            elif corpus is None:
                reasons[key] = f"{task.corpus} is not in DATA; {task.place}"
            elif refused := shared.refused(corpus, protocol).get(probe):
                reasons[key] = f"{corpus.language} text, {protocol}: {refused.rstrip('.')}"
            elif protocol == "paper" and task.corpus in DIALOGUES:
                reasons[key] = NO_CONTROL
    return reasons


def _no_scores(corpus: str, lacking: Collection[str], scored: Collection[str]) -> str:
    if corpus in lacking:
        return f"--scores has no file of {corpus}'s people among themselves"
    return f"--scores has no file of this system of {corpus}" if corpus in scored else NO_SCORES


def chosen_protocols(protocol: str) -> tuple[str, ...]:
    """The protocols of an option: one of them, or `both`."""
    if protocol not in (*PROTOCOLS, "both"):
        raise UsageError(f"there is no protocol {protocol!r}; use paper, corrected or both.")
    return PROTOCOLS if protocol == "both" else (protocol,)


def find_corpora(data: Path, needed: bool = True) -> list[MultiRef]:
    """The corpora of texts in a folder, those of the paper first; none is refused if `needed`."""
    if not os.path.isdir(data):
        fix = "name the folder that holds the corpora of texts"
        raise DataError.at(data, None, "is not a folder", fix)
    ends = (".jsonl", ".jsonl.gz", ".orig", ".extra_refs", ".extra_refs.gz", ".wp_source")
    paths = sorted(path for path in data.iterdir() if path.name.endswith(ends))
    if not paths and needed:
        fix = "put asset_valid.jsonl.gz or wmt14-en-de.extra_refs.gz there"
        raise DataError.at(data, None, "holds no corpus of texts", fix)
    corpora = [open_text_corpus(f"{sniff_texts(path)}:{path}") for path in paths]
    order = list(tasks())
    return sorted(corpora, key=lambda c: order.index(c.name) if c.name in order else len(order))


def _lines(scored: ScoredSystem, seed: int) -> Iterator[PaperLine]:
    """Yield the numbers of a system, or of people, as means over inputs."""
    chunk = {name: column[:, None] for name, column in scored.values.items()}
    found = estimates([(scored.groups, chunk)], {name: Mean(name) for name in chunk}, seed)
    for name, estimate in found.items():
        choices = {"protocol": scored.protocol, **scored.choices[name.partition("/")[2]]}
        size = (str(estimate.n_items), seed, name, aleatoric.__version__)
        signature = Signature(scored.corpus, *scored.origin, choices, *size)
        result = Result(scored.system, name, signature, estimate)
        number = printed_of(scored.corpus, result)
        yield PaperLine(scored.corpus, scored.protocol, number, result, scored.source)


def _recorded(path: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Recorded pair distances by corpus."""
    if path is None:
        return {}
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        return {
            TASKS[task]: list(rows["first5"]) for task, rows in recorded.items() if task in TASKS
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        problem = "is not a file of recorded pair distances"
        raise DataError.at(path, None, problem, "name one with first5 by task") from None


def find_recorded(data: Path) -> Path | None:
    """Return the file of recorded pair distances in the folder, or near it."""
    near = (data / RECORDED, data.resolve().parent.parent / "golden" / RECORDED)
    return next((file for file in near if os.path.isfile(file)), None)


def _checks(
    corpus: str, scores: ScoredSystem, recordings: dict[str, list[dict[str, Any]]]
) -> Iterator[PairCheck]:
    """The first inputs of a corpus, with their differences from the recorded distances."""
    by_id = {str(row["id"]): row["H_unigram_i<j"] for row in recordings.get(corpus, [])}
    for item_id, distances, control in scores.first[:SHOWN]:
        other, worst = by_id.get(item_id), None
        if other is not None and len(other) == len(distances):
            worst = float(np.abs(np.array(other) - distances).max())
        yield PairCheck(corpus, item_id, tuple(distances.tolist()), control, worst)


def to_tables(result: Reproduction) -> list[Table]:
    """Return Tables 1 to 5, what is missing, further numbers, and the check of pair distances."""
    rows = rows_of(result)
    letters: dict[str, str] = {}
    tables = [
        printed_table(list(group), result.protocols, letters)
        for _, group in groupby(rows, key=lambda row: (row.table, row.corpus))
    ]
    headings = (HEADINGS[protocol] for protocol in result.protocols)
    notes = (*headings, *notes_on("production_tools"), *result.runs)
    missing = Table(
        "What is missing in Tables 2 to 5, and why",
        ("see", "rows", "reason"),
        tuple(_missing(rows, letters)),
        notes,
    )
    further = _further(result)
    checks = [_checks_table(result.pairs)] if result.pairs else []
    return [*lengths_tables(result.lengths), *tables, missing, *further, *checks]


def rows_of(result: Reproduction) -> list[ShownRow]:
    """Return the rows of Tables 2 to 5."""
    return shown_rows(result.lines, result.reasons, result.protocols, result.probes, tasks())


def to_document(result: Reproduction) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "results": [line.to_dict() for line in result.lines],
        "rows": [row.to_dict() for row in rows_of(result)],
        "lengths": [asdict(row) for row in result.lengths],
        "pairs": [check.to_dict() for check in result.pairs],
        "notes": list(result.runs),
    }


def _missing(rows: Sequence[ShownRow], letters: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for reason, letter in letters.items():
        count = sum(reason in row.reasons.values() for row in rows)
        yield letter, str(count), reason


def _further(result: Reproduction) -> list[Table]:
    """Return the numbers of people that the paper does not print: mean H, and other corpora."""
    cells = {
        (line.corpus, line.result.metric, line.protocol): line.result
        for line in result.lines
        if line.source == "texts"
    }
    further = {
        (corpus, metric)
        for corpus, metric, _ in cells
        if metric.startswith("mean_H") or corpus not in tasks()
    }
    corpora = list(dict.fromkeys(line.corpus for line in result.lines))

    def order(key: tuple[str, str]) -> tuple[int, str, int]:
        statistic, _, probe = key[1].partition("/")
        return corpora.index(key[0]), probe, ("mean_H", *STATISTICS.values()).index(statistic)

    rows = []
    for corpus, metric in sorted(further, key=order):
        both = [cells.get((corpus, metric, protocol)) for protocol in result.protocols]
        last = next(each for each in reversed(both) if each is not None)
        ours = (digits(each.estimate.value if each else None) for each in both)
        ends = interval_text(last.estimate.interval, ".4f")
        rows.append((corpus, metric, *ours, ends, str(last.estimate.n_items)))
    columns = ("corpus", "metric", *result.protocols, "[low, high]", "inputs")
    title = "People: numbers that the paper does not print"
    return [Table(title, columns, tuple(rows))] if rows else []


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


def _checks_table(checks: Sequence[PairCheck]) -> Table:
    rows = []
    for check in checks:
        control = (digits(check.control.get(name)) for name in ("mean_H", "w1_M", "dmu_M"))
        worst = MISSING if check.worst is None else f"{check.worst:.1e}"
        rows.append((check.corpus, check.item_id, str(len(check.distances)), *control, worst))
    columns = ("corpus", "input", "pairs", "mean H", "W1", "Dmu", "worst difference")
    notes = (
        f"{CHECKED_PROBE} of the first inputs, paper; recorded to eight digits: a difference of "
        f"at most {TOLERANCE:g} is none. – : nothing was recorded.",
    )
    return Table("Pair distances against the recorded ones", columns, tuple(rows), notes)
