"""Numbers of one's own beside those that "What Comes Next?" prints in Tables 2 to 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from aleatoric.errors import UsageError, quoted
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.result_types import Result
from aleatoric.runs.run import Store
from aleatoric.studies import production_printed as printed
from aleatoric.studies.production_printed import PROBES, tasks


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
    table = next((n for n, name in printed.STATISTICS.items() if name == statistic), None)
    system = printed.CONTROL if result.system == CONTROL else result.system
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
        if statistic in printed.STATISTICS.values() and probe in PROBES:
            named = f"{result.system} ({store.path.name})"
            shown = named if several or result.system == CONTROL else result.system
            renamed = replace(result, system=shown)
            lines.append(PaperLine(corpus, protocol, None, renamed, store.path.name))
    return lines


def difference(store: Store) -> str:
    """Say in what a run differs from the paper."""
    task = tasks()[store.manifest["corpus"]["name"]]
    samples, protocol = store.manifest["samples"], store.manifest["protocol"]
    tools = ", ".join(
        f"{probe} by {facts[kind]}"
        for probe, facts in sorted((store.meta("probe_facts") or {}).items())
        for kind in ("tagger", "encoder")
        if kind in facts and probe in PROBES
    )
    return (
        f"{store.path.name}: {store.n_items} inputs of {store.manifest['corpus']['version']}, "
        f"protocol {protocol}, {samples or 'all recorded'} texts per input"
        f"{f'; {tools}' if tools else ''}. "
        f"The paper: {task.inputs} inputs of the {task.part}, 10 texts of a system per input, "
        f"{task.references} of people, spaCy's tags and all-distilroberta-v1. W1 and the mean "
        "over inputs depend on these."
    )
