"""Runs that are shown together on a page: those of one level whose numbers mean the same."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from aleatoric import registry
from aleatoric.inference.bootstrap import DEFAULT_METHOD, NO_INTERVALS
from aleatoric.inference.estimate import CUT_MARK
from aleatoric.levels.base import Level, level_of
from aleatoric.reporting.tables import TEXTS, interval_ends, with_interval
from aleatoric.result_types import Result
from aleatoric.runs.run import Store, labels_of
from aleatoric.studies.compare_statistics import better
from aleatoric.studies.figure_data import AgreementBars, Dots
from aleatoric.types import Case, Estimate, Floats

_MUST_AGREE = (
    *("choices", "n_splits", "abstractions", "tagger", "embedder", "seed", "protocol"),
    *("tokeniser", "encoder", "bins", "schemes", "classwise", "documents"),
    *("probes", "columns", "missing", "limit", "sample", "groups"),
)
"""Fields of a manifest that change the meaning of a number, besides the corpus and the system."""

AGREEMENTS = {"H": "H people with people", "M": "M model with itself", "C": "C model with people"}
"""The three sides of the agreement picture, and the labels of their bars."""
MOST_DETAILED = 20
"""The number of systems of a part that a page shows in detail."""


@dataclass(frozen=True)
class ShownSystem:
    """A model of a run, under a label that is unique on the page."""

    label: str
    store: Store
    system: str

    def values(self, column: str) -> dict[str, float | None]:
        """Return the values of a statistic by item: the first if there are several."""
        by_item: dict[str, float | None] = {}
        for row in self.store.rows(self.system, column):
            by_item.setdefault(row.item_id, row.value)
        return by_item

    @cached_property
    def cases(self) -> list[Case]:
        """The items that the system answered, with the answers of both sides; read once."""
        view = registry.find("notebook", "view_of_run")(self.store)
        return list(view.cases(self.store, self.system))


@dataclass(frozen=True)
class ReportPart:
    """Runs of one corpus with the same settings, and their models; the first has the controls."""

    stores: tuple[Store, ...]
    members: tuple[ShownSystem, ...]

    @property
    def first(self) -> Store:
        """The run whose controls are shown."""
        return self.stores[0]

    @property
    def level(self) -> Level:
        """The level that all runs share."""
        return level_of(self.first)

    @property
    def corpus(self) -> str:
        """The corpus that all runs share."""
        name: str = self.first.manifest["corpus"]["name"]
        return name

    def ending(self, member: ShownSystem) -> str:
        """Return the suffix of the names of a system's figures; empty if there is one system."""
        return f" {member.label}" if len(self.members) > 1 else ""

    @cached_property
    def results(self) -> list[Result]:
        """The results of the controls, then of every model under its label.

        With many systems, only controls and leaders have intervals, which take most of the time.
        """
        if len(self.members) <= MOST_DETAILED:
            return self._results_with(DEFAULT_METHOD)
        values = self._results_with(NO_INTERVALS)
        others = {member.label for member in self.members} - self._leaders(values)
        detailed = {(r.system, r.metric): r for r in self._results_with(DEFAULT_METHOD, others)}
        return [detailed.get((r.system, r.metric), r) for r in values]

    @cached_property
    def leading(self) -> ReportPart:
        """The part with its leading systems only, if it has more than can be tested and studied."""
        if len(self.members) <= MOST_DETAILED:
            return self
        kept = self._leaders(self.results)
        left_out = {member.label for member in self.members} - kept
        part = replace(self, members=tuple(m for m in self.members if m.label in kept))
        # Computed already, and costly.
        vars(part)["results"] = [r for r in self.results if r.system not in left_out]
        return part

    def _leaders(self, results: Sequence[Result]) -> set[str]:
        """Return the labels of the systems that lead by the leading metric of the level."""
        metric = self.level.leading
        sign = -1 if better(metric) == "higher" else 1
        values = {r.system: r.estimate.value for r in results if r.metric == metric}
        ranks = {system: sign * value for system, value in values.items() if value is not None}
        ordered = sorted(self.members, key=lambda member: ranks.get(member.label, math.inf))
        return {member.label for member in ordered[:MOST_DETAILED]}

    def _results_with(self, interval: str, left_out: Collection[str] = ()) -> list[Result]:
        """Compute results with intervals by a method, without some systems."""
        shown = [member for member in self.members if member.label not in left_out]
        controls = self.first.systems().keys() - set(self.level.model_systems(self.first))
        names = {s.path: {m.system for m in shown if m.store.path == s.path} for s in self.stores}
        names[self.first.path] |= controls
        by_system: dict[tuple[Path, str], list[Result]] = {}
        for store in self.stores:
            for result in level_of(store).results(store, interval, names[store.path]):
                by_system.setdefault((store.path, result.system), []).append(result)
        of_models = [
            replace(result, system=member.label)
            for member in shown
            for result in by_system.get((member.store.path, member.system), ())
        ]
        first = self.first.path
        of_people = [rs for (path, s), rs in by_system.items() if path == first and s in controls]
        return [*chain.from_iterable(of_people), *of_models]

    @property
    def systems_notes(self) -> Iterator[str]:
        """Which of many systems a page shows in detail."""
        if self.leading is not self:
            facts = {"n": len(self.members), "shown": MOST_DETAILED, "metric": self.level.leading}
            yield TEXTS["any"]["notes"]["many_systems"].format(**facts)


def parts_of(stores: Sequence[Store]) -> list[ReportPart]:
    """Group runs into parts, in the order of the first run of each."""
    grouped: dict[str, list[Store]] = {}
    for store in stores:
        manifest = store.manifest
        shared = [manifest.get(name) for name in _MUST_AGREE]
        meaning = [manifest["level"], manifest["corpus"]["sha256"], shared]
        grouped.setdefault(json.dumps(meaning, sort_keys=True), []).append(store)
    return [part_of(runs) for runs in grouped.values()]


def part_of(stores: Sequence[Store]) -> ReportPart:
    """Return the part of runs that are known to belong together."""
    models = {store.path: set(level_of(store).model_systems(store)) for store in stores}
    members = [
        ShownSystem(label, store, system)
        for label, (store, system) in labels_of(stores).items()
        if system in models[store.path]
    ]
    return ReportPart(tuple(stores), tuple(members))


def values(store: Store, system: str, metric: str, minus: str | None = None) -> Floats:
    """Return the defined values of a metric per item, or their differences from another metric.

    Of a metric with several values per item, such as one per split, the first is taken.
    """
    pages = [page.values for page in store.stat_pages(system)]
    columns = [page[metric][:, 0] - (page[minus][:, 0] if minus else 0.0) for page in pages]
    joined: Floats = np.concatenate([np.zeros(0), *columns])
    return joined[np.isfinite(joined)]


def interval_dots(
    title: str,
    label: str,
    rows: tuple[str, ...],
    series: Mapping[str, Sequence[Estimate | None]],
    reference: str = "",
    times: float = 1.0,
    slots: Sequence[int] | None = None,
) -> Dots:
    """Return estimates with intervals, multiplied by `times`: one per row in every series."""
    ends = {name: [interval_ends(e, times) for e in row] for name, row in series.items()}
    low, value, high = ({n: tuple(e[i] for e in row) for n, row in ends.items()} for i in range(3))
    places = tuple(range(len(series)) if slots is None else slots)
    return Dots(title, label, rows, value, low, high, reference, slots=places)


def agreement_bars(
    title: str,
    label: str,
    systems: Sequence[str],
    estimates: Mapping[tuple[str, str], Estimate],
    sides: Mapping[str, str],
    noted: str = "",
) -> AgreementBars:
    """Return H, M and C of systems with intervals; a side that no system has is left out.

    `sides` maps metrics to the labels of their bars; `noted` is the metric in the notes.
    """
    every = {text: [estimates.get((s, metric)) for s in systems] for metric, text in sides.items()}
    series = {text: row for text, row in every.items() if any(row)}
    note = noted.partition("/")[0]
    values = (estimates.get((system, noted)) for system in systems)
    notes = tuple(f"{note} {with_interval(e)}".rstrip(CUT_MARK) if e else "" for e in values)
    dots = interval_dots(title, label, tuple(systems), series)
    return AgreementBars(**vars(dots), notes=notes)
