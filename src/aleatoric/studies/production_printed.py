"""The printed numbers of "What Comes Next?": Tables 1 to 5, by task, system and probe."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

STATISTICS = {2: "w1_M", 3: "dmu_M", 4: "w1_C", 5: "dmu_C"}
"""Table -> what it prints, as a mean over inputs."""
TITLES = {2: "mean W1(M, H)", 3: "mean μM − μH", 4: "mean W1(C, H)", 5: "mean μC − μH"}
PROBES = ("lexical-1", "syntactic-2", "semantic")
"""The probes of Tables 2 to 5: unigram, POS bigram and cosine distance."""
CONTROL = "human_control"
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
