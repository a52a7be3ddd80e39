"""What stands together on a page: runs of one level whose numbers mean the same."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from aleatoric.inference.bootstrap import DEFAULT_METHOD, NO_INTERVALS
from aleatoric.inference.estimate import CUT_MARK, at_level
from aleatoric.levels import base
from aleatoric.levels.text_variability import sentences, verdicts
from aleatoric.report.tables import number, with_interval
from aleatoric.runs import Store
from aleatoric.studies.compare import (
    ALPHA,
    Compared,
    dependent_draws,
    is_dependent,
    labels_of,
)
from aleatoric.studies.compare_statistics import better
from aleatoric.types import Result

TITLES = {"word": "Next words", "token": "Reference tokens", "text": "Whole texts"}
LEADS = {
    "word": (
        "People were asked for the next word of each context, and disagreed. This page shows "
        "whether each system spreads its probability over next words as people do: how often two "
        "people agree (H), how often two draws of the system agree (M), and how often a draw "
        "agrees with a person (C). The overlap 2C / (H + M) is 1 for a perfect model."
    ),
    "token": (
        "At each position of a text the model gives a distribution over its vocabulary, and the "
        "text has a token. This page shows whether the model is as often right as it is sure: for "
        "its most likely token (ECE), and for what it would say under a generation scheme (e-ECE)."
    ),
    "text": (
        "Several people wrote a text to each input, and their texts differ. This page shows "
        "whether a generator's texts differ as much, in words, in grammar and in meaning: "
        "mean distances between two people's texts (H), between two of the generator's (M) and "
        "between one of each (C). The energy distance 2C − M − H says how close a generator is to "
        "people: 0 for a perfect one, at any number of texts. M against H says whether it varies "
        "more or less than people. W1, the paper's metric, stands beside people against people "
        "(control)."
    ),
}
LEADING = {"word": "overlap", "token": "ece", "text": "energy/lexical-1"}
"""The metric that leads each level."""
_CONTROLS = ("human", "oracle", "control")
FEW_GROUPS = 10
"""With fewer groups intervals are wide and tests find little."""
Found = Mapping[tuple[str, str], Result]


def finding(level: str, results: Sequence[Result], compared: Compared | None = None) -> str:
    """The main finding in sentences; empty where there is no system to speak of."""
    found = {(r.system, r.metric): r for r in results if r.estimate.value is not None}
    return " ".join(_FINDINGS[level](found, compared))


def caveats(results: Sequence[Result], lead: str) -> Iterator[str]:
    """What changes the reading of the table: dependent draws, few groups, different items."""
    asked = [r for r in results if r.metric == lead and r.system not in _CONTROLS]
    own = [r for r in asked if r.estimate.value is not None]
    if lead == "overlap":
        yield from dependent_draws({r.system: r for r in own})
        yield from _single_answers(asked)
    yield from _few_groups(own)
    if _on_different_items(own):
        listed = ", ".join(f"{r.system} {r.estimate.n_items}" for r in own)
        yield (
            f"The systems were measured on different items ({listed}): compare them with "
            "aleatoric compare, which uses the items that they share."
        )


def _few_groups(own: Sequence[Result]) -> Iterator[str]:
    """Systems with little to resample."""
    few = {r.system: r.estimate.n_groups for r in own if r.estimate.n_groups < FEW_GROUPS}
    if not few:
        return
    most = max(few.values())
    whom = "" if len(few) == len(own) else f"{_listed(list(few))}: "
    if most == 1:
        yield f"{whom}There is one group of items, so that no interval and no test is possible."
    else:
        yield (
            f"{whom}There is little to resample ({most} groups of items): intervals are "
            "wide, and tests detect only large differences."
        )


def _single_answers(own: Sequence[Result]) -> Iterator[str]:
    """Items that have a TVD but no agreements."""
    counted = [f"{r.system} {n}" for r in own if (n := r.estimate.n_undefined)]
    if counted:
        yield (
            "Overlap, squared distance and agreements need two people and two draws per item. "
            f"Items that lack them ({', '.join(counted)}) count only in TVD and ECE."
        )


def _on_different_items(own: Sequence[Result]) -> bool:
    """Whether some system lacks items that another may have."""
    counts = {r.estimate.n_items for r in own}
    return len(own) > 1 and (len(counts) > 1 or any(r.estimate.n_missing for r in own))


def _word(found: Found, compared: Compared | None) -> Iterator[str]:
    own = {s: r for (s, m), r in found.items() if m == "overlap" and s not in _CONTROLS}
    if not own:
        return
    yield _closest(own, compared) if len(own) > 1 else _alone(*next(iter(own.items())))
    independent = [system for system, result in own.items() if not is_dependent(result)]
    spread = {s: r for (s, m), r in found.items() if m == "agreement_gap" and s in independent}
    yield variability({s: _direction(r, len(spread)) for s, r in spread.items()})


def _alone(system: str, result: Result) -> str:
    interval, value = result.estimate.interval, with_interval(result.estimate).rstrip(CUT_MARK)
    said = f"{system} overlaps with people by {value}; a perfect model would have 1."
    if interval is None:
        return said
    if interval.high < 1:
        return f"{said} It is significantly below that."
    if is_dependent(result):
        return f"{said} It is significantly above that, so that its draws are not independent."
    return f"{said} It does not differ significantly from that."


def _closest(own: Mapping[str, Result], compared: Compared | None) -> str:
    """Who is closest to people by overlap, on common items; ties are named as ties."""
    independent = {s: r for s, r in own.items() if not is_dependent(r)}
    if compared is None and _on_different_items(list(own.values())):
        return "The systems were measured on different items; aleatoric compare ranks them."
    letters = compared.letters.get("overlap", {}) if compared else {}
    values = compared.values.get("overlap", {}) if compared else {}
    known = {s: v for s, v in values.items() if v is not None and s in independent}
    known = known or {s: r.estimate.value or 0.0 for s, r in independent.items()}
    if not known:
        return "No system has draws that are independent of the people and of each other."
    ordered = [s for s in (compared.order.get("overlap", ()) if compared else ()) if s in known]
    best = next(iter(ordered), max(known, key=lambda system: known[system]))
    if compared is None:
        return (
            f"{best} has the highest overlap with people ({number(known[best])} of 1); "
            "aleatoric compare tests the differences between systems."
        )
    if not letters:
        return (
            f"{best} has the highest overlap with people ({number(known[best])} of 1), but no "
            "test is possible here, so that the order of systems is not certain."
        )
    first = set(letters.get(best, ""))
    tied = [s for s in known if s != best and first & set(letters.get(s, ""))]
    if not tied:
        return (
            f"{best} is closest to people: its overlap is {number(known[best])} of 1, "
            f"significantly higher than that of {_others(len(known) - 1)}."
        )
    ordered = sorted([best, *tied], key=lambda system: -known[system])
    listed = _listed([f"{system} ({number(known[system])})" for system in ordered])
    return f"{listed} have the highest overlap with people and do not differ significantly."


def _others(n: int) -> str:
    return "the other system" if n == 1 else f"all {n} other systems"


def _direction(result: Result, n_systems: int) -> str:
    """How a system's variability differs from people's, adjusted for the number of systems."""
    interval = at_level(result.estimate, 1 - ALPHA / n_systems).interval
    if interval is None:
        return "unknown"
    if interval.low > 0:
        return "less"
    return "more" if interval.high < 0 else "same"


def variability(directions: Mapping[str, str]) -> str:
    """Whether systems vary more or less than people.

    >>> variability({"a": "less", "b": "same"})
    'a varies less than people. b does not differ significantly from people in variability.'
    """
    said = {
        "more": ("varies more than people", "vary more than people"),
        "less": ("varies less than people", "vary less than people"),
        "same": (
            "does not differ significantly from people in variability",
            "do not differ significantly from people in variability",
        ),
    }
    sentences = []
    for direction, (one, several) in said.items():
        systems = [s for s, own in directions.items() if own == direction]
        if systems:
            sentences.append(f"{_listed(systems)} {one if len(systems) == 1 else several}.")
    return " ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def _lowest(found: Found, metric: str) -> tuple[Result | None, int]:
    """The model with the lowest value of a metric, and how many there are."""
    own = [r for (s, m), r in found.items() if m == metric and s not in _CONTROLS]
    return min(own, key=lambda r: r.estimate.value or 0.0, default=None), len(own)


def _among(name: str, n: int) -> str:
    return f"Of {n} systems, {name} is" if n > 1 else f"{name} is"


def _token(found: Found, compared: Compared | None) -> Iterator[str]:
    best, n = _lowest(found, "ece")
    if best is None or best.estimate.value is None:
        return
    calibrated = "best calibrated" if n > 1 else "measured"
    low = best.perfect.low if best.perfect else None
    beside = f" (a calibrated model would score {100 * low:.2f}%)" if low is not None else ""
    value = 100 * best.estimate.value
    yield f"{_among(best.system, n)} {calibrated}: its ECE is {value:.2f}%{beside}."


def _text(found: Found, compared: Compared | None) -> Iterator[str]:
    own = verdicts(list(found.values()))
    several = len({one.system for one in own}) > 1
    # With several systems, the first probe alone: the table has the others.
    shown = [one for one in own if one.probe == own[0].probe] if several else own
    yield from sentences(shown)


_FINDINGS = {"word": _word, "token": _token, "text": _text}


_MUST_AGREE = (
    *("choices", "n_splits", "abstractions", "tagger", "embedder", "seed", "protocol"),
    *("tokeniser", "encoder", "bins", "schemes", "classwise", "documents"),
    *("probes", "limit"),
)
"""What of a manifest changes the meaning of a number, beside the corpus and the system."""

MOST_DETAILED = 20
"""Systems of a part that a page shows in detail."""


@dataclass(frozen=True)
class Member:
    """A model of a run, under a name that no other has on the page."""

    label: str
    store: Store
    system: str


@dataclass(frozen=True)
class Part:
    """Runs of one corpus, measured alike, with their models; controls are those of the first."""

    level: str
    stores: tuple[Store, ...]
    members: tuple[Member, ...]

    @property
    def first(self) -> Store:
        """The run whose controls stand for all."""
        return self.stores[0]

    @property
    def corpus(self) -> str:
        """The corpus that all runs share."""
        name: str = self.first.manifest["corpus"]["name"]
        return name

    @cached_property
    def results(self) -> list[Result]:
        """The controls' results, then every model's under its label: worked out once.

        Of many systems only the controls and the leading ones have intervals, which take most of
        the time.
        """
        if len(self.members) <= MOST_DETAILED:
            return self._results_with(DEFAULT_METHOD)
        values = self._results_with(NO_INTERVALS)
        others = {member.label for member in self.members} - self._leaders(values)
        found = {(r.system, r.metric): r for r in self._results_with(DEFAULT_METHOD, others)}
        return [found.get((r.system, r.metric), r) for r in values]

    @cached_property
    def leading(self) -> Part:
        """The part with its leading systems alone, where it has more than a page can detail.

        Tests of all pairs and studies of every system grow too fast: of many systems the table
        shows all, and everything else the leading ones.
        """
        if len(self.members) <= MOST_DETAILED:
            return self
        kept = self._leaders(self.results)
        left_out = {member.label for member in self.members} - kept
        part = replace(self, members=tuple(m for m in self.members if m.label in kept))
        # Worked out already, and costly.
        vars(part)["results"] = [r for r in self.results if r.system not in left_out]
        return part

    def _leaders(self, results: Sequence[Result]) -> set[str]:
        """The labels of the leading systems, by the values of the level's first metric."""
        metric, sign = LEADING[self.level], -1 if better(LEADING[self.level]) == "higher" else 1
        values = {r.system: r.estimate.value for r in results if r.metric == metric}
        ranks = {system: sign * value for system, value in values.items() if value is not None}
        ordered = sorted(self.members, key=lambda member: ranks.get(member.label, math.inf))
        return {member.label for member in ordered[:MOST_DETAILED]}

    def _results_with(self, interval: str, left_out: Collection[str] = ()) -> list[Result]:
        """Results with intervals by a method, but for the systems that are left out."""
        shown = [member for member in self.members if member.label not in left_out]
        controls = self.first.systems().keys() - set(
            base.level_of(self.first).model_systems(self.first)
        )
        asked: dict[Path, set[str]] = {store.path: set() for store in self.stores}
        asked[self.first.path] |= controls
        for member in shown:
            asked[member.store.path].add(member.system)
        found: dict[tuple[Path, str], list[Result]] = {}
        for store in self.stores:
            for result in base.results(store, interval, asked[store.path]):
                found.setdefault((store.path, result.system), []).append(result)
        first = self.first.path
        own = [
            replace(result, system=member.label)
            for member in shown
            for result in found.get((member.store.path, member.system), ())
        ]
        of_people = (rs for (path, s), rs in found.items() if path == first and s in controls)
        return [*(result for rs in of_people for result in rs), *own]

    @property
    def systems_note(self) -> str | None:
        """Which systems a page of many shows in detail."""
        if self.leading is self:
            return None
        return (
            f"There are {len(self.members)} systems: the table of systems shows all of them. "
            "Intervals, letters, findings, figures and contexts are those of the "
            f"{MOST_DETAILED} systems that lead by {LEADING[self.level]}; p-values do not account "
            "for this choice. aleatoric compare --system compares others."
        )


def parts_of(stores: Sequence[Store]) -> list[Part]:
    """Runs in parts, in the order of each part's first run."""
    grouped: dict[str, list[Store]] = {}
    for store in stores:
        grouped.setdefault(_meaning(store), []).append(store)
    return [part_of(own) for own in grouped.values()]


def part_of(stores: Sequence[Store]) -> Part:
    """Runs that are known to belong together."""
    models = {s.path: set(base.level_of(s).model_systems(s)) for s in stores}
    members = [
        Member(label, store, system)
        for label, (store, system) in labels_of(stores).items()
        if system in models[store.path]
    ]
    return Part(base.level_of(stores[0]).name, tuple(stores), tuple(members))


def _meaning(store: Store) -> str:
    manifest = store.manifest
    shared = [manifest.get(name) for name in _MUST_AGREE]
    return json.dumps([manifest["level"], manifest["corpus"]["sha256"], shared], sort_keys=True)
