"""The page of one item: the answers or texts of people and of every system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aleatoric.nextword.rules import normalise
from aleatoric.report.explorer.listing import (
    Listing,
    NamedSystem,
    Site,
    candidates,
    neighbors,
    run_head,
    shown_value,
    system_listing,
    tag_of,
    two_systems,
)
from aleatoric.report.explorer.plots import Data
from aleatoric.report.explorer.rendering import NotFoundError
from aleatoric.report.explorer.snapshot import Params, one
from aleatoric.report.item_data import ItemAnswers, Measure, answer_name
from aleatoric.types import Categorical

if TYPE_CHECKING:
    from aleatoric.report.explorer.library import OpenRun

PEOPLE = "people"
TOP = 12
MOST = 200
"""Answers per series that a page shows at most."""
N_SERIES = 7
"""People and six systems: more colors cannot be distinguished."""
N_DISTANCES = 3
"""Systems whose distances are drawn."""
Shares = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class BarRow:
    """An answer (or probe) with one value per series, which NaN leaves out, and its details."""

    label: str
    values: tuple[float, ...]
    details: tuple[str, ...]
    marked: bool = False


@dataclass(frozen=True)
class AskedItem:
    """The item that a page is about, and the list that led to it."""

    run: OpenRun
    no: int
    place: int
    listing: Listing
    chosen: tuple[str, ...]
    """The keys of the systems that the reader looks at: they are shown first."""


def item(site: Site, run: OpenRun, params: Params) -> Data:
    """The page of an item, with links to the items before and after it."""
    target = _requested_item(site, run, params)
    available = _systems_beside(site, run)
    order = {key: place for place, key in enumerate(target.chosen)}
    named = sorted(available, key=lambda system: order.get(system.key, len(order)))[: N_SERIES - 1]
    people, systems = _answers(target, named)
    view = run.snapshot.view
    return {
        **run_head(site, run, "contexts"),
        **neighbors(target.listing, target.place),
        "title": f"{view.item.title()} {people.id}",
        "item_id": people.id,
        "group": people.group,
        "turns": people.context,
        "has_gap": view.has_gap,
        "original": people.original,
        "tag": tag_of(run, target.place),
        "tables": list(_tables(target, named)),
        "left_out": len(available) - len(named),
        **_sides(target, people, systems, named, one(params, "top")),
    }


def _requested_item(site: Site, run: OpenRun, params: Params) -> AskedItem:
    no, place = _find(run, params)
    pair = two_systems(site, params) if one(params, "a") and one(params, "b") else None
    if pair is not None and pair.listing.run is run:
        return AskedItem(run, no, place, pair.listing, (pair.first.key, pair.second.key))
    item_list = system_listing(site, run, params)
    return AskedItem(run, no, place, item_list, (f"{run.key}:{item_list.columns.name}",))


def _find(run: OpenRun, params: Params) -> tuple[int, int]:
    """Return the number and the place of the item that is requested by id or by number."""
    text, numbers = one(params, "no"), run.snapshot.items.numbers
    no: int | None = int(text[:15]) if text.isascii() and text.isdecimal() else None
    if one(params, "id"):
        with run.reading() as store:
            no = store.item_no(one(params, "id"))
    place = int(np.searchsorted(numbers, no)) if no is not None else len(numbers)
    if no is None or place >= len(numbers) or numbers[place] != no:
        raise NotFoundError("This run has no such item.")
    return no, place


def _systems_beside(site: Site, run: OpenRun) -> list[NamedSystem]:
    """Return the models of this run and of comparable ones, including those not scored yet."""
    available = candidates(site, run)
    scored = [system for system in available if not system.run.snapshot.is_control(system.system)]
    keys = {system.key for system in scored}
    started = (NamedSystem(run, system.name, system.name) for system in run.progress.systems)
    return [*scored, *(system for system in started if system.key not in keys)]


def _answers(
    target: AskedItem, named: list[NamedSystem]
) -> tuple[ItemAnswers, dict[str, Categorical | tuple[str, ...]]]:
    """Return the item with people's answers, and the answers of systems of all runs by label."""
    answers: dict[str, ItemAnswers] = {}
    for run in (target.run, *(s.run for s in named)):
        if run.key not in answers:
            with run.reading() as store:
                answers[run.key] = run.snapshot.view.answers(store, target.no)
    by_system = {s.label: answers[s.run.key].systems.get(s.system) for s in named}
    answered = {label: answer for label, answer in by_system.items() if answer is not None}
    return answers[target.run.key], answered


def _sides(
    target: AskedItem,
    people: ItemAnswers,
    systems: Mapping[str, Categorical | tuple[str, ...]],
    named: list[NamedSystem],
    top_text: str,
) -> Data:
    """Return bars of answers, or texts with bars of mean distances."""
    if isinstance(people.people, tuple):
        shown = named[:N_DISTANCES]
        return {
            "kind": "texts",
            "texts": {"People": people.people} | {o.label: systems.get(o.label, ()) for o in named},
            "series": ["H: people", *(f"{s}: {o.label}" for o in shown for s in ("M", "C"))],
            "bars": list(_mean_rows(target, shown)),
            "more": None,
        }
    sides = {PEOPLE: people.people, **systems}
    distributions = {name: side for name, side in sides.items() if isinstance(side, Categorical)}
    shares = {name: side.as_dict() for name, side in distributions.items()}
    top = min(int(top_text[:4]), MOST) if top_text.isascii() and top_text.isdecimal() else TOP
    params = [("no", str(target.no)), ("top", str(MOST)), *target.listing.params()]
    has_more = top < MOST and any(len(answers) > top for answers in shares.values())
    return {
        "kind": "answers",
        "texts": {},
        "series": list(distributions),
        "bars": list(_answer_rows(shares, distributions, top, people.original)),
        "more": target.listing.item_at(params) if has_more else None,
    }


def _answer_rows(
    shares: Shares, distributions: Mapping[str, Categorical], top: int, original: str | None
) -> Iterator[BarRow]:
    """Yield the likeliest answers of each series, in people's order, then that of the others."""
    series = list(shares.values())
    likely = {a for side in series for a in sorted(side, key=lambda a: (-side[a], a))[:top]}
    for answer in sorted(likely, key=lambda a: (*(-side.get(a, 0.0) for side in series), a)):
        values = {name: side.get(answer, 0.0) for name, side in shares.items()}
        details = tuple(
            f"{share:.1%}"
            if (n := distributions[name].n) is None
            else f"{share:.1%}, {share * n:.0f} of {n}"
            for name, share in values.items()
        )
        is_original = bool(original) and answer == normalise(str(original))
        yield BarRow(answer_name(answer), tuple(values.values()), details, is_original)


def _mean_rows(target: AskedItem, named: list[NamedSystem]) -> Iterator[BarRow]:
    """Yield mean distances of one input: among people, among a system's texts, between both."""
    snapshot = target.run.snapshot
    for probe in snapshot.probes:
        controls = (NamedSystem(target.run, name, name) for name in snapshot.view.level.controls)
        values = [_saved(target, system, f"mean_H/{probe}") for system in controls]
        for system in named:
            values += [_saved(target, system, f"mean_{side}/{probe}") for side in ("M", "C")]
        if not all(math.isnan(value) for value in values):
            yield BarRow(probe, tuple(values), tuple(f"mean distance {v:.3f}" for v in values))


def _saved(target: AskedItem, named: NamedSystem, key: str) -> float:
    scored = named.run.snapshot.systems.get(named.system)
    if scored is None or key not in scored.values:
        return math.nan
    at = np.flatnonzero(scored.places == target.place)
    return float(scored.values[key][at[0]]) if len(at) else math.nan


def _tables(target: AskedItem, named: list[NamedSystem]) -> Iterator[Data]:
    """Yield the saved measures of an item: one table per probe, one row per system."""
    snapshot = target.run.snapshot
    compared = [name for name in snapshot.systems if name not in snapshot.view.not_compared]
    controls = [NamedSystem(target.run, n, n) for n in compared if snapshot.is_control(n)]
    for probe in snapshot.probes or ("",):
        measures = tuple(measure for measure in snapshot.measures if measure.probe == probe)
        rows = [row for system in (*named, *controls) for row in _rows(target, system, measures)]
        if rows:
            yield {"title": probe, "columns": measures, "rows": rows}


def _rows(target: AskedItem, named: NamedSystem, measures: tuple[Measure, ...]) -> Iterator[Data]:
    scored = named.run.snapshot.systems.get(named.system)
    if scored is None:
        return
    for row in np.flatnonzero(scored.places == target.place).tolist():
        values = [scored.values[measure.key][row] for measure in measures]
        if not all(math.isnan(value) for value in values):
            cells = [shown_value(v, m) for v, m in zip(values, measures, strict=True)]
            yield {"name": named.label, "cells": cells}
