"""The numbers that "What Comes Next?" prints in Tables 1 to 5, and one's own beside them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import groupby, product
from typing import Any

from aleatoric.errors import UsageError, quoted
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.studies import TEXTS, notes_on
from aleatoric.studies.people import interval_text

STATISTICS = {2: "w1_M", 3: "dmu_M", 4: "w1_C", 5: "dmu_C"}
"""Table -> what it prints, as a mean over inputs."""
TITLES = {2: "mean W1(M, H)", 3: "mean μM − μH", 4: "mean W1(C, H)", 5: "mean μC − μH"}
PROBES = ("lexical-1", "syntactic-2", "semantic")
"""The probes of Tables 2 to 5: unigram, POS bigram and cosine distance."""
HUMAN_CONTROL = "human_control"
"""The printed name of the human control."""
Spread = tuple[float, float, float, float, float]
"""Mean, standard deviation, median, smallest and largest length."""


@dataclass(frozen=True)
class PrintedTask:
    """A task of the paper, with its printed numbers."""

    corpus: str
    name: str
    model: str
    part: str
    """Which part of the corpus the paper uses."""
    inputs: int
    references: str
    """Number of texts per input."""
    affixes: tuple[str, str]
    """What the names of systems start and end with, around the name of the decoder."""
    scores: str
    """The task's name in the authors' score files."""
    no_tokens: str
    """Why the lengths in tokens of Table 1 cannot be computed; empty if they can."""
    place: str
    """How to get the corpus."""
    rows: Mapping[str, Mapping[str, tuple[float, ...]]]
    """System -> probe -> the numbers of Tables 2 to 5; NaN where the paper prints NaN."""
    lengths: Mapping[str, Spread]
    """Input or output, and unit -> the summary of Table 1."""

    def value(self, table: int, system: str, probe: str) -> float | None:
        """Return a number of Tables 2 to 5; `None` if it is not printed, or printed as NaN."""
        row = self.rows.get(system, {}).get(probe)
        number = row[table - 2] if row else math.nan
        return None if math.isnan(number) else number

    def decoder(self, system: str) -> str:
        """Return the short name of a printed system, which its task makes unique.

        >>> tasks()["asset"].decoder("flanT5_large_finetuned-typical_02-val")
        'typical_02'
        """
        start, end = self.affixes
        is_ours = system.startswith(start) and system.endswith(end)
        return system.removeprefix(start).removesuffix(end) if is_ours else system


@cache
def tasks() -> dict[str, PrintedTask]:
    """Return the four tasks of the paper by the name of their corpus."""
    source = resources.files("aleatoric.studies") / "production_printed.toml"
    printed = tomllib.loads(source.read_text(encoding="utf-8"))
    return {
        corpus: PrintedTask(
            corpus,
            **(facts | {"affixes": tuple(facts["affixes"])}),
            rows={
                system: {probe: tuple(numbers) for probe, numbers in by_probe.items()}
                for system, by_probe in printed["rows"][corpus].items()
            },
            lengths={name: tuple(five) for name, five in printed["lengths"][corpus].items()},
        )
        for corpus, facts in printed["tasks"].items()
    }


PROTOCOLS = ("paper", "corrected")
Reasons = dict[tuple[str, str, str, str], str]
"""Corpus, system, protocol and probe -> why there is no number of ours."""
MISSING = "–"
HEADINGS: dict[str, str] = TEXTS["production"]["headings"]
"""Protocol -> what it is."""


@dataclass(frozen=True)
class PaperLine:
    """A number of ours under a protocol, beside the printed one if there is one."""

    corpus: str
    protocol: str
    printed: float | None
    result: Result
    source: str = "texts"
    """What it is computed from: texts, scores, or the name of a run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        facts = {"corpus": self.corpus, "protocol": self.protocol, "printed": self.printed}
        return self.result.to_dict() | facts | {"source": self.source}


def printed_of(corpus: str, result: Result) -> float | None:
    """Return the printed number of a result; `None` if there is none."""
    statistic, _, probe = result.metric.partition("/")
    table = next((n for n, name in STATISTICS.items() if name == statistic), None)
    system = HUMAN_CONTROL if result.system == CONTROL else result.system
    if table is None or corpus not in tasks():
        return None
    return tasks()[corpus].value(table, system, probe)


def check_run(store: Store) -> None:
    """Refuse a run that cannot be shown beside the printed numbers."""
    if store.manifest["command"] != "text":
        raise UsageError(f"{store.path}: is no run of aleatoric text; name one that is.")
    check_corpus(store.manifest["corpus"]["name"], f"{store.path}: ")


def check_corpus(name: str, place: str = "") -> None:
    """Refuse a corpus that the paper does not use."""
    if name not in tasks():
        known = ", ".join(tasks())
        raise UsageError(
            f"{place}the paper has no numbers for the corpus {quoted(name)}; use one of {known}."
        )


def run_lines(store: Store, results: Sequence[Result], several: bool = False) -> list[PaperLine]:
    """The numbers of a run that Tables 2 to 5 print for other systems."""
    corpus, protocol = store.manifest["corpus"]["name"], store.manifest["protocol"]
    lines = []
    for result in results:
        statistic, _, probe = result.metric.partition("/")
        if statistic in STATISTICS.values() and probe in PROBES:
            named = f"{result.system} ({store.path.name})"
            shown = named if several or result.system == CONTROL else result.system
            renamed = replace(result, system=shown)
            lines.append(PaperLine(corpus, protocol, None, renamed, store.path.name))
    return lines


def difference(store: Store) -> str:
    """Say in what a run differs from the paper."""
    task = tasks()[store.manifest["corpus"]["name"]]
    tools = ", ".join(
        f"{probe} by {facts[kind]}"
        for probe, facts in sorted((store.meta("probe_facts") or {}).items())
        for kind in ("tagger", "encoder")
        if kind in facts and probe in PROBES
    )
    facts = {"name": store.path.name, "n": store.n_items, "tools": tools and f"; {tools}"}
    facts["samples"] = store.manifest["samples"] or "all recorded"
    (note,) = notes_on("production_run", manifest=store.manifest, task=task, **facts)
    return note


@dataclass(frozen=True)
class ShownRow:
    """A row of Tables 2 to 5: what is printed, and ours by protocol."""

    table: int
    corpus: str
    probe: str
    system: str
    source: str | None
    printed: float | None
    is_printed: bool
    ours: dict[str, Result] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Protocol -> why there is no number of ours."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        values = {name: result.estimate.value for name, result in self.ours.items()}
        facts = {name: getattr(self, name) for name in ("table", "corpus", "probe", "system")}
        return facts | {
            "source": self.source,
            "printed": self.printed,
            **{protocol: values.get(protocol) for protocol in PROTOCOLS},
            "reasons": self.reasons,
        }


def shown_rows(
    lines: Iterable[PaperLine],
    reasons: Reasons,
    protocols: Sequence[str],
    probes: Sequence[str],
    corpora: Iterable[str],
) -> list[ShownRow]:
    """Return the rows of Tables 2 to 5 in the paper's order, then those that it does not print."""
    grouped: dict[tuple[str, str], dict[tuple[str, str], dict[str, Result]]] = {}
    for line in lines:
        by_system = grouped.setdefault((line.corpus, line.result.metric), {})
        by_system.setdefault((line.result.system, line.source), {})[line.protocol] = line.result
    rows = []
    for table, corpus, probe in product(STATISTICS, corpora, probes):
        task, metric = tasks()[corpus], f"{STATISTICS[table]}/{probe}"
        found = grouped.get((corpus, metric), {})
        for system, source in _order(task, found, probe):
            ours = found.get((CONTROL if source == "texts" else system, source or ""), {})
            value = task.value(table, system, probe)
            is_printed = probe in task.rows.get(system, {})
            lacking = [protocol for protocol in protocols if protocol not in ours]
            keys = {protocol: (corpus, system, protocol, probe) for protocol in lacking}
            why = {protocol: reasons[key] for protocol, key in keys.items() if key in reasons}
            key = (table, corpus, probe, system, source)
            rows.append(ShownRow(*key, value, is_printed, ours, why))
    return rows


def _order(
    task: PrintedTask, found: Iterable[tuple[str, str]], probe: str
) -> Iterator[tuple[str, str | None]]:
    """Yield the systems of a table and what each number is computed from; `None` if there is none.

    A printed system may have two rows: the human control from texts and from scores.
    """
    named = [(HUMAN_CONTROL if s == CONTROL else s, source) for s, source in found]
    for system in task.rows if probe in PROBES else ():
        sources = [source for name, source in named if name == system]
        if not sources:
            yield system, None
        yield from ((system, source) for source in sources)
    yield from ((name, source) for name, source in named if name not in task.rows)


def rows_beside(store: Store, results: Sequence[Result]) -> list[ShownRow]:
    """Return Tables 2 to 5 of a run's corpus: the printed systems, then those of the run."""
    corpus, protocol = store.manifest["corpus"]["name"], store.manifest["protocol"]
    lines = run_lines(store, results)
    measured = {line.result.metric.partition("/")[2] for line in lines}
    probes = [probe for probe in PROBES if probe in measured]
    return shown_rows(lines, {}, (protocol,), probes or PROBES, (corpus,))


def beside_paper(store: Store, results: Sequence[Result]) -> list[Table]:
    """Return the tables of `rows_beside`; the last one says what differs from the paper."""
    protocol = store.manifest["protocol"]
    groups = groupby(rows_beside(store, results), key=lambda row: row.table)
    tables = [printed_table(list(group), (protocol,), {}) for _, group in groups]
    notes = (difference(store), HEADINGS[protocol])
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def printed_table(
    rows: Sequence[ShownRow], protocols: Sequence[str], letters: dict[str, str]
) -> Table:
    """Return a table of the paper for one task; `letters` is reason -> what stands for it."""
    task, table = tasks()[rows[0].corpus], rows[0].table
    for reason in (reason for row in rows for reason in row.reasons.values()):
        letters.setdefault(reason, _letter(len(letters)))
    columns = ("probe", "system", "printed", *protocols, "[low, high]", "inputs")
    title = f"Table {table}, {task.name} ({task.corpus}): {TITLES[table]}"
    cells = tuple(tuple(_cells(row, task, protocols, letters)) for row in rows)
    see = ("see",) if letters else ()
    shown = tuple(row[: len(columns) + len(see)] for row in cells)
    wide = ("[low, high]", "inputs") if len(protocols) > 1 else ()
    return Table(title, (*columns, *see), shown, (), wide)


def _cells(
    row: ShownRow, task: PrintedTask, protocols: Sequence[str], letters: dict[str, str]
) -> Iterator[str]:
    yield row.probe
    yield task.decoder(row.system) + (", scores" if row.source == "scores" else "")
    yield "NaN" if row.is_printed and row.printed is None else digits(row.printed)
    ours = [row.ours.get(protocol) for protocol in protocols]
    yield from (digits(each.estimate.value if each else None) for each in ours)
    last = next((each.estimate for each in reversed(ours) if each), None)
    yield interval_text(last.interval, ".4f") if last else MISSING
    yield str(last.n_items) if last else MISSING
    yield " ".join(dict.fromkeys(letters[reason] for reason in row.reasons.values()))


def _letter(number: int) -> str:
    """Return a, b, ..., z, then a1, ..."""
    return chr(ord("a") + number % 26) + (str(number // 26) if number >= 26 else "")


def digits(value: float | None) -> str:
    """Return a number with six digits, or a dash."""
    return MISSING if value is None else f"{value:.6f}"
