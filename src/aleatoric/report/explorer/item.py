"""One context: people's words and every system's; or one input with all its texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from aleatoric.levels.text_scoring import CONTROL
from aleatoric.levels.word_scoring import ORACLE, pair_of
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.rules import normalise
from aleatoric.report.explorer import pages
from aleatoric.report.explorer.common import (
    ITEMS,
    N_SERIES,
    Data,
    Listing,
    Site,
    neighbours,
    run_head,
    shown,
    tag_of,
)
from aleatoric.report.explorer.compare import Named, candidates, compare_two
from aleatoric.report.explorer.library import OpenRun
from aleatoric.report.explorer.plots import BarRow, top_rows
from aleatoric.report.explorer.rendering import NotFoundError
from aleatoric.report.explorer.snapshot import Measure, Params, is_control, one, probe_of
from aleatoric.runs import Store
from aleatoric.runs.run import Produced, StoredTexts, item_and_draws
from aleatoric.types import FAILED, Categorical, Choices, Item

PEOPLE = "people"
TOP = 12
MOST = 200
"""Words a series that a page shows at most."""


@dataclass(frozen=True)
class Asked:
    """An item that a page is about, and the list it was reached by."""

    run: OpenRun
    no: int
    place: int
    listing: Listing
    chosen: tuple[str, ...]
    """The systems that the reader looks at, by their keys: they are shown first."""


def item(site: Site, run: OpenRun, params: Params) -> Data:
    """The page of an item, with the way to the items before and after it."""
    asked = _asked(site, run, params)
    build = _text_item if run.snapshot.level == "text" else _word_item
    near = neighbours(asked.listing, asked.place)
    return run_head(site, run, "contexts") | near | build(site, asked, params)


def _asked(site: Site, run: OpenRun, params: Params) -> Asked:
    no, place = _find(run, params)
    both = compare_two(site, params) if one(params, "a") and one(params, "b") else None
    if both is not None and both.listing.run is run:
        return Asked(run, no, place, both.listing, (both.first.key, both.second.key))
    own = pages.listing(site, run, params)
    return Asked(run, no, place, own, (f"{run.key}:{own.columns.name}",))


def _find(run: OpenRun, params: Params) -> tuple[int, int]:
    """The number of the item that is asked for by id or by number, and its place."""
    wanted, numbers = one(params, "no"), run.snapshot.items.numbers
    no: int | None = int(wanted[:15]) if wanted.isascii() and wanted.isdecimal() else None
    if one(params, "id"):
        with run.reading() as store:
            no = store.item_no(one(params, "id"))
    place = int(np.searchsorted(numbers, no)) if no is not None else len(numbers)
    if no is None or place >= len(numbers) or numbers[place] != no:
        raise NotFoundError("This run has no such item.")
    return no, place


def _word_item(site: Site, asked: Asked, params: Params) -> Data:
    named = _series(candidates_of(site, asked.run), asked.chosen)
    found, own = _distributions(site, asked, named)
    shares = {label: dist.as_dict() for label, dist in found.items()}
    wanted = one(params, "top")
    top = min(int(wanted[:4]), MOST) if wanted.isascii() and wanted.isdecimal() else TOP
    original = normalise(own.original) if own.original else None
    return _head(asked, own.id, own.group) | {
        "kind": "word",
        "context": own.context,
        "original": own.original,
        "tag": tag_of(asked.run, asked.place),
        "series": list(found),
        "bars": list(_bar_rows(shares, found, top, original)),
        "more": asked.listing.item_at(
            [("no", str(asked.no)), ("top", str(MOST)), *asked.listing.params()]
        )
        if top < MOST and any(len(own) > top for own in shares.values())
        else None,
        "table": _values(asked, named, asked.run.snapshot.measures),
        "left_out": max(0, len(candidates_of(site, asked.run)) - len(named)),
    }


def candidates_of(site: Site, run: OpenRun) -> list[Named]:
    """The models beside a run, those too that are not scored yet."""
    scored = [own for own in candidates(site, run) if not is_control(own.system)]
    known = {own.key for own in scored}
    own = (Named(run, one.name, one.name) for one in run.progress.systems)
    return [*scored, *(one for one in own if one.key not in known)]


def _series(named: list[Named], chosen: tuple[str, ...]) -> list[Named]:
    first = sorted(named, key=lambda own: chosen.index(own.key) if own.key in chosen else 99)
    return first[: N_SERIES - 1]


def _distributions(
    site: Site, asked: Asked, named: list[Named]
) -> tuple[dict[str, Categorical], Item]:
    """Series -> its distribution, people's first; a system without an answer has none."""
    with asked.run.reading() as store:
        own, _ = item_and_draws(store, asked.no)
    found = {PEOPLE: Categorical.from_counts(human_counts(own.responses))} if own.responses else {}
    for run in site.library.beside(asked.run):
        labels = {one.system: one.label for one in named if one.run is run}
        if labels:
            found |= _of_run(run, asked.no, labels)
    order = [PEOPLE, *(one.label for one in named)]
    return {name: found[name] for name in order if name in found}, own


def _of_run(run: OpenRun, no: int, labels: Mapping[str, str]) -> Iterator[tuple[str, Categorical]]:
    with run.reading() as store:
        own, draws = item_and_draws(store, no)
        choices = Choices.saved(store.manifest["choices"])
    for system, label in labels.items():
        if own.responses and draws.get(system):
            # Where repeated rows stay separate, the first one is drawn.
            for pair in islice(pair_of(own, draws[system], choices), 1):
                yield label, pair.model


def _bar_rows(
    shares: Mapping[str, Mapping[str, float]],
    found: Mapping[str, Categorical],
    top: int,
    original: str | None,
) -> Iterator[BarRow]:
    for word, values, marked in top_rows(shares, top, original):
        details = (_detail(value, found[name]) for name, value in zip(shares, values, strict=True))
        yield BarRow("(no word)" if word == FAILED else word, values, tuple(details), marked)


def _detail(share: float, distribution: Categorical) -> str:
    """A share, and of how many draws."""
    n = distribution.n
    return f"{share:.1%}" if n is None else f"{share:.1%}, {round(share * n)} of {n}"


def _values(asked: Asked, named: list[Named], measures: tuple[Measure, ...]) -> Data:
    """The saved measures of an item: a row a system, controls last."""
    controls = [
        Named(asked.run, name, name)
        for name in asked.run.snapshot.systems
        if name in (ORACLE, CONTROL)
    ]
    rows = []
    for own in (*named, *controls):
        scored = own.run.snapshot.systems.get(own.system)
        if scored is None:
            continue
        at = np.flatnonzero(scored.places == asked.place)
        for row in at.tolist():
            cells = [shown(scored.values[one.key][row], one) for one in measures]
            if any(not math.isnan(scored.values[one.key][row]) for one in measures):
                rows.append({"name": own.label, "cells": cells})
    return {"columns": measures, "rows": rows}


def _head(asked: Asked, item_id: str, group: str) -> Data:
    return {
        "title": f"{ITEMS[asked.run.snapshot.level][:-1].title()} {item_id}",
        "item_id": item_id,
        "group": group,
    }


def _text_item(site: Site, asked: Asked, params: Params) -> Data:
    named = _series(candidates_of(site, asked.run), asked.chosen)
    with asked.run.reading() as store:
        found = next(StoredTexts(store).walk(asked.no - 1))
    measures = asked.run.snapshot.measures
    return _head(asked, found.item.id, found.item.group) | {
        "kind": "text",
        "turns": found.item.input,
        "people": found.item.references,
        "texts": _texts(site, asked, found, named),
        "series": ["H: people", *(f"{s}: {own.label}" for own in named[:3] for s in ("M", "C"))],
        "bars": list(_mean_rows(asked, named[:3])),
        "probes": asked.run.snapshot.probes,
        "tables": [
            {"probe": probe}
            | _values(asked, named, tuple(m for m in measures if probe_of(m) == probe))
            for probe in asked.run.snapshot.probes
        ],
    }


def _texts(
    site: Site, asked: Asked, found: Produced, named: list[Named]
) -> dict[str, tuple[str, ...]]:
    texts = {}
    for own in named:
        if own.run is asked.run:
            texts[own.label] = tuple(found.systems.get(own.system, ()))
        else:
            with own.run.reading() as store:
                texts[own.label] = _other_texts(store, found.item.id, own.system)
    return texts


def _other_texts(store: Store, item_id: str, system: str) -> tuple[str, ...]:
    return tuple(StoredTexts(store).find(item_id).systems.get(system, ()))


def _mean_rows(asked: Asked, named: list[Named]) -> Iterator[BarRow]:
    """Mean distances of one input: among people, among a system's texts, and between both."""
    for probe in asked.run.snapshot.probes:
        values = [_saved(asked, Named(asked.run, CONTROL, CONTROL), f"mean_H/{probe}")]
        for own in named:
            values += [_saved(asked, own, f"mean_{side}/{probe}") for side in ("M", "C")]
        if not all(math.isnan(value) for value in values):
            yield BarRow(probe, tuple(values), tuple(f"mean distance {v:.3f}" for v in values))


def _saved(asked: Asked, own: Named, key: str) -> float:
    scored = own.run.snapshot.systems.get(own.system)
    if scored is None or key not in scored.values:
        return math.nan
    at = np.flatnonzero(scored.places == asked.place)
    return float(scored.values[key][at[0]]) if len(at) else math.nan
