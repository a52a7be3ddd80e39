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
    asked = _asked(site, run, params)
    known = _systems_beside(site, run)
    order = {key: place for place, key in enumerate(asked.chosen)}
    named = sorted(known, key=lambda own: order.get(own.key, len(order)))[: N_SERIES - 1]
    people, systems = _answers(asked, named)
    view = run.snapshot.view
    return {
        **run_head(site, run, "contexts"),
        **neighbors(asked.listing, asked.place),
        "title": f"{view.item.title()} {people.id}",
        "item_id": people.id,
        "group": people.group,
        "turns": people.context,
        "has_gap": view.has_gap,
        "original": people.original,
        "tag": tag_of(run, asked.place),
        "tables": list(_tables(asked, named)),
        "left_out": len(known) - len(named),
        **_sides(asked, people, systems, named, one(params, "top")),
    }


def _asked(site: Site, run: OpenRun, params: Params) -> AskedItem:
    no, place = _find(run, params)
    both = two_systems(site, params) if one(params, "a") and one(params, "b") else None
    if both is not None and both.listing.run is run:
        return AskedItem(run, no, place, both.listing, (both.first.key, both.second.key))
    own = system_listing(site, run, params)
    return AskedItem(run, no, place, own, (f"{run.key}:{own.columns.name}",))


def _find(run: OpenRun, params: Params) -> tuple[int, int]:
    """Return the number of the item that is asked for by id or by number, and its place."""
    wanted, numbers = one(params, "no"), run.snapshot.items.numbers
    no: int | None = int(wanted[:15]) if wanted.isascii() and wanted.isdecimal() else None
    if one(params, "id"):
        with run.reading() as store:
            no = store.item_no(one(params, "id"))
    place = int(np.searchsorted(numbers, no)) if no is not None else len(numbers)
    if no is None or place >= len(numbers) or numbers[place] != no:
        raise NotFoundError("This run has no such item.")
    return no, place


def _systems_beside(site: Site, run: OpenRun) -> list[NamedSystem]:
    """Return the models of this run and of comparable ones, including those not scored yet."""
    known = candidates(site, run)
    scored = [own for own in known if not own.run.snapshot.is_control(own.system)]
    keys = {own.key for own in scored}
    own = (NamedSystem(run, system.name, system.name) for system in run.progress.systems)
    return [*scored, *(one for one in own if one.key not in keys)]


def _answers(
    asked: AskedItem, named: list[NamedSystem]
) -> tuple[ItemAnswers, dict[str, Categorical | tuple[str, ...]]]:
    """Return the item with people's answers, and the answers of systems of all runs by label."""
    answers: dict[str, ItemAnswers] = {}
    for run in (asked.run, *(own.run for own in named)):
        if run.key not in answers:
            with run.reading() as store:
                answers[run.key] = run.snapshot.view.answers(store, asked.no)
    by_system = {own.label: answers[own.run.key].systems.get(own.system) for own in named}
    known = {label: given for label, given in by_system.items() if given is not None}
    return answers[asked.run.key], known


def _sides(
    asked: AskedItem,
    people: ItemAnswers,
    systems: Mapping[str, Categorical | tuple[str, ...]],
    named: list[NamedSystem],
    wanted: str,
) -> Data:
    """Return bars of answers, or texts with bars of mean distances."""
    if isinstance(people.people, tuple):
        shown = named[:N_DISTANCES]
        return {
            "kind": "texts",
            "texts": {"People": people.people} | {o.label: systems.get(o.label, ()) for o in named},
            "series": ["H: people", *(f"{s}: {own.label}" for own in shown for s in ("M", "C"))],
            "bars": list(_mean_rows(asked, shown)),
            "more": None,
        }
    sides = {PEOPLE: people.people, **systems}
    found = {name: own for name, own in sides.items() if isinstance(own, Categorical)}
    shares = {name: own.as_dict() for name, own in found.items()}
    top = min(int(wanted[:4]), MOST) if wanted.isascii() and wanted.isdecimal() else TOP
    more = [("no", str(asked.no)), ("top", str(MOST)), *asked.listing.params()]
    has_more = top < MOST and any(len(own) > top for own in shares.values())
    return {
        "kind": "answers",
        "texts": {},
        "series": list(found),
        "bars": list(_answer_rows(shares, found, top, people.original)),
        "more": asked.listing.item_at(more) if has_more else None,
    }


def _answer_rows(
    shares: Shares, found: Mapping[str, Categorical], top: int, original: str | None
) -> Iterator[BarRow]:
    """Yield the likeliest answers of each series, in people's order, then that of the others."""
    series = list(shares.values())
    likely = {a for own in series for a in sorted(own, key=lambda a: (-own[a], a))[:top]}
    for answer in sorted(likely, key=lambda a: (*(-own.get(a, 0.0) for own in series), a)):
        values = {name: own.get(answer, 0.0) for name, own in shares.items()}
        details = tuple(
            f"{share:.1%}"
            if (n := found[name].n) is None
            else f"{share:.1%}, {share * n:.0f} of {n}"
            for name, share in values.items()
        )
        is_original = bool(original) and answer == normalise(str(original))
        yield BarRow(answer_name(answer), tuple(values.values()), details, is_original)


def _mean_rows(asked: AskedItem, named: list[NamedSystem]) -> Iterator[BarRow]:
    """Yield mean distances of one input: among people, among a system's texts, between both."""
    seen = asked.run.snapshot
    for probe in seen.probes:
        controls = (NamedSystem(asked.run, own, own) for own in seen.view.level.controls)
        values = [_saved(asked, own, f"mean_H/{probe}") for own in controls]
        for own in named:
            values += [_saved(asked, own, f"mean_{side}/{probe}") for side in ("M", "C")]
        if not all(math.isnan(value) for value in values):
            yield BarRow(probe, tuple(values), tuple(f"mean distance {v:.3f}" for v in values))


def _saved(asked: AskedItem, own: NamedSystem, key: str) -> float:
    scored = own.run.snapshot.systems.get(own.system)
    if scored is None or key not in scored.values:
        return math.nan
    at = np.flatnonzero(scored.places == asked.place)
    return float(scored.values[key][at[0]]) if len(at) else math.nan


def _tables(asked: AskedItem, named: list[NamedSystem]) -> Iterator[Data]:
    """Yield the saved measures of an item: one table per probe, one row per system."""
    seen = asked.run.snapshot
    compared = [name for name in seen.systems if name not in seen.view.not_compared]
    controls = [NamedSystem(asked.run, name, name) for name in compared if seen.is_control(name)]
    for probe in seen.probes or ("",):
        measures = tuple(own for own in seen.measures if own.probe == probe)
        rows = [row for own in (*named, *controls) for row in _rows(asked, own, measures)]
        if rows:
            yield {"title": probe, "columns": measures, "rows": rows}


def _rows(asked: AskedItem, own: NamedSystem, measures: tuple[Measure, ...]) -> Iterator[Data]:
    scored = own.run.snapshot.systems.get(own.system)
    if scored is None:
        return
    for row in np.flatnonzero(scored.places == asked.place).tolist():
        values = [scored.values[measure.key][row] for measure in measures]
        if not all(math.isnan(value) for value in values):
            cells = [shown_value(v, m) for v, m in zip(values, measures, strict=True)]
            yield {"name": own.label, "cells": cells}
