"""How the reproduction of "What Comes Next?" is printed: Tables 1 to 5, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product, zip_longest
from typing import Any

from aleatoric.levels.text_scoring import CONTROL
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.studies import production_printed as printed
from aleatoric.studies.people import interval_text
from aleatoric.studies.production_control import CHECKED_PROBE
from aleatoric.studies.production_lengths import lengths_tables
from aleatoric.studies.production_paper import (
    PROTOCOLS,
    STATISTICS,
    TOLERANCE,
    PairCheck,
    Reasons,
    Reproduction,
)
from aleatoric.studies.production_printed import PrintedTask, tasks
from aleatoric.studies.production_rows import PaperLine, difference, run_lines

MISSING = "–"
HEADINGS = {
    "paper": "paper: as published. Systems and control are compared with half of the pair "
    "distances of people, drawn with replacement, and the control with the first half of the same "
    "ones; texts cut to 100 GPT-2 tokens, English rules for every language, ASSET read as latin-1; "
    "two texts too short for an n-gram have distance 0; dialogue has no control.",
    "corrected": "corrected: systems are compared with all pairs of people. Control: people split "
    "into disjoint halves at random, --splits times; M: one half's pairs against the other's; C: "
    "the grid of both halves against the other's pairs; texts cut to 100 tokens.",
}
TOOLS = (
    "Numbers of syntactic-2 and semantic depend on the tagger and encoder: the paper has spaCy's "
    "en_core_web_md and all-distilroberta-v1. Those from texts are of the taggers and encoders "
    "that are installed (in the signatures of --json), those from scores of the paper's. Stories: "
    "the first ten of every prompt with at least five."
)


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
    for table, corpus, probe in product(printed.STATISTICS, corpora, probes):
        task, found = tasks()[corpus], grouped.get((corpus, _metric(table, probe)), {})
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


def _metric(table: int, probe: str) -> str:
    return f"{printed.STATISTICS[table]}/{probe}"


def _order(
    task: PrintedTask, found: Iterable[tuple[str, str]], probe: str
) -> Iterator[tuple[str, str | None]]:
    """Yield the systems of a table and what each number is computed from; `None` if there is none.

    A printed system may have two rows: the human control from texts and from scores.
    """
    named = [(printed.CONTROL if s == CONTROL else s, source) for s, source in found]
    for system in task.rows if probe in printed.PROBES else ():
        sources = [source for name, source in named if name == system]
        if not sources:
            yield system, None
        yield from ((system, source) for source in sources)
    yield from ((name, source) for name, source in named if name not in task.rows)


def to_tables(result: Reproduction) -> list[Table]:
    """Return Tables 1 to 5, what is missing, further numbers, and the check of pair distances."""
    rows = rows_of(result)
    letters: dict[str, str] = {}
    tables = [
        _table(list(group), result.protocols, letters)
        for _, group in groupby(rows, key=lambda row: (row.table, row.corpus))
    ]
    notes = (*(HEADINGS[protocol] for protocol in result.protocols), TOOLS, *result.runs)
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
        "lengths": [row.to_dict() for row in result.lengths],
        "pairs": [check.to_dict() for check in result.pairs],
        "notes": list(result.runs),
    }


def rows_beside(store: Store, results: Sequence[Result]) -> list[ShownRow]:
    """Return Tables 2 to 5 of a run's corpus: the printed systems, then those of the run."""
    corpus, protocol = store.manifest["corpus"]["name"], store.manifest["protocol"]
    lines = run_lines(store, results)
    measured = {line.result.metric.partition("/")[2] for line in lines}
    probes = [probe for probe in printed.PROBES if probe in measured]
    return shown_rows(lines, {}, (protocol,), probes or printed.PROBES, (corpus,))


def beside_paper(store: Store, results: Sequence[Result]) -> list[Table]:
    """Return the tables of `rows_beside`; the last one says what differs from the paper."""
    protocol = store.manifest["protocol"]
    groups = groupby(rows_beside(store, results), key=lambda row: row.table)
    tables = [_table(list(group), (protocol,), {}) for _, group in groups]
    notes = (difference(store), HEADINGS[protocol])
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def _table(rows: Sequence[ShownRow], protocols: Sequence[str], letters: dict[str, str]) -> Table:
    """Return a table of the paper for one task; `letters` is reason -> what stands for it."""
    task, table = tasks()[rows[0].corpus], rows[0].table
    for reason in (reason for row in rows for reason in row.reasons.values()):
        letters.setdefault(reason, _letter(len(letters)))
    columns = ("probe", "system", "printed", *protocols, "[low, high]", "inputs")
    title = f"Table {table}, {task.name} ({task.corpus}): {printed.TITLES[table]}"
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
    yield "NaN" if row.is_printed and row.printed is None else _digits(row.printed)
    ours = [row.ours.get(protocol) for protocol in protocols]
    yield from (_digits(each.estimate.value if each else None) for each in ours)
    last = next((each.estimate for each in reversed(ours) if each), None)
    yield interval_text(last.interval, ".4f") if last else MISSING
    yield str(last.n_items) if last else MISSING
    yield " ".join(dict.fromkeys(letters[reason] for reason in row.reasons.values()))


def _letter(number: int) -> str:
    """Return a, b, ..., z, then a1, ..."""
    return chr(ord("a") + number % 26) + (str(number // 26) if number >= 26 else "")


def _missing(rows: Sequence[ShownRow], letters: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for reason, letter in letters.items():
        count = sum(reason in row.reasons.values() for row in rows)
        yield letter, str(count), reason


def _further(result: Reproduction) -> list[Table]:
    """Return the numbers of people that the paper does not print: mean H, and other corpora."""
    shown = {(line.corpus, line.result.metric) for line in result.lines if line.source == "texts"}
    cells = {
        (line.corpus, line.result.metric, line.protocol): line.result
        for line in result.lines
        if line.source == "texts"
    }
    further = [
        (corpus, metric)
        for corpus, metric in shown
        if metric.startswith("mean_H") or corpus not in tasks()
    ]
    corpora = list(dict.fromkeys(line.corpus for line in result.lines))

    def order(key: tuple[str, str]) -> tuple[int, str, int]:
        statistic, _, probe = key[1].partition("/")
        return corpora.index(key[0]), probe, STATISTICS.index(statistic)

    rows = []
    for corpus, metric in sorted(further, key=order):
        both = [cells.get((corpus, metric, protocol)) for protocol in result.protocols]
        last = next(each for each in reversed(both) if each is not None)
        ours = (_digits(each.estimate.value if each else None) for each in both)
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
        control = (_digits(check.control.get(name)) for name in ("mean_H", "w1_M", "dmu_M"))
        worst = MISSING if check.worst is None else f"{check.worst:.1e}"
        rows.append((check.corpus, check.item_id, str(len(check.distances)), *control, worst))
    columns = ("corpus", "input", "pairs", "mean H", "W1", "Dmu", "worst difference")
    notes = (
        f"{CHECKED_PROBE} of the first inputs, paper; recorded to eight digits: a difference of "
        f"at most {TOLERANCE:g} is none. – : nothing was recorded.",
    )
    return Table("Pair distances against the recorded ones", columns, tuple(rows), notes)


def _digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.6f}"
