"""The pages of the explorer: all runs, one run, its items, one item, two systems, reliability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.nextword.rules import normalise
from aleatoric.reporting.explorer import listing, plots
from aleatoric.reporting.explorer.listing import Answer, Listing, NamedSystem, NotFoundError, Site
from aleatoric.reporting.explorer.plots import Data, Frame
from aleatoric.reporting.explorer.snapshot import Params, Range, one
from aleatoric.reporting.page_data import ItemAnswers, Measure, answer_name, to_data, to_json
from aleatoric.reporting.tables import TEXTS, number
from aleatoric.result_types import Table
from aleatoric.studies.figure_data import Reliability, histograms
from aleatoric.types import Categorical

if TYPE_CHECKING:
    from aleatoric.reporting.explorer.library import OpenRun

_FACTS = ("decoders", "estimator", "samples", "protocol", "n_splits", "seed", "probes", "schemes")
N_BINS = 25


def home(site: Site) -> Data:
    """Return every run, the newest first."""
    runs = sorted(site.library.runs, key=lambda run: run.changed, reverse=True)
    return {"runs": runs, "title": "Runs", "watch": None}


def overview(site: Site, run: OpenRun, params: Params) -> Data:
    """Facts of a run, the table of systems, the distribution of the first measure."""
    # Taken before the summary: a page never claims results that it does not show.
    progress = run.progress_data()
    view, summary = run.snapshot.view, run.summary
    head = listing.run_head(site, run, "")
    return head | {
        "title": f"{view.heading}: {run.snapshot.corpus}",
        "tables": _tables_of(run),
        "summary": summary,
        "progress": progress,
        "agreement": to_json(to_data(drawn)) if (drawn := summary and summary.agreement) else "",
        "spread": _spread(run),
        "facts": _facts(run),
        "searched": site.run(run.key, "contexts") if view.has_items else None,
        "watch": head["watch"] or (None if summary else site.run(run.key, "progress.json")),
    }


def _tables_of(run: OpenRun) -> list[Table]:
    """Return the results of a run; means only while intervals are being computed."""
    if run.summary is not None and run.summary.tables:
        return list(run.summary.tables)
    state = run.snapshot
    shown = [m for m in state.measures if not m.key.startswith(("n_", "mean_"))][:6]
    rows = tuple(
        (name, *(number(scored.mean(m.key), m.digits) for m in shown), str(len(scored.places)))
        for name, scored in state.systems.items()
        if any(scored.mean(m.key) is not None for m in shown)
    )
    if not rows:
        return []
    columns = ("system", *(m.heading for m in shown), state.view.items)
    return [Table("Systems", columns, rows, ("Means; intervals are being computed.",))]


def _spread(run: OpenRun) -> Data | None:
    """Return the distribution of the first measure, one curve per system."""
    state = run.snapshot
    if not state.measures:
        return None
    measure = state.measures[0]
    values = {name: scored.values[measure.key] for name, scored in state.systems.items()}
    samples = {name: own[np.isfinite(own)] for name, own in values.items()}
    # People come first: no other system has their color.
    names = sorted((n for n in samples if len(samples[n])), key=lambda n: not state.is_control(n))
    if not names:
        return None
    every = np.concatenate([samples[name] for name in names])
    edges = np.linspace(min(0.0, float(every.min())), max(1.0, float(every.max())), N_BINS + 1)
    first_slot = 0 if any(map(state.is_control, names)) else 1
    slots = range(first_slot, first_slot + len(names))
    drawn = histograms("", measure.heading, {name: samples[name] for name in names}, edges, slots)
    return {
        "picture": to_json(to_data(drawn)),
        "title": f"Distribution of {measure.heading} over {state.view.items}",
        "about": f"{measure.heading}: {measure.about}.",
    }


def _facts(run: OpenRun) -> list[tuple[str, str]]:
    manifest, state = run.manifest, run.snapshot
    facts = [("corpus", f"{state.corpus} #{state.corpus_sha256[:12]}")]
    if state.view.has_items:
        facts.append((state.view.items, f"{len(state.items)} in {len(state.items.groups)} groups"))
    for key in _FACTS:
        value = manifest.get(key)
        if value not in (None, [], ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            facts.append((key, shown))
    return [*facts, ("aleatoric", str(manifest["versions"]["aleatoric"]))]


def contexts(site: Site, run: OpenRun, params: Params) -> Data:
    """A page of the list of a system's items, with plots."""
    items, state = listing.system_listing(site, run, params), run.snapshot
    return {
        **listing.run_head(site, run, "contexts"),
        **listing.listed(items),
        "title": f"{state.view.items.title()} of {items.columns.name or run.name}",
        "csv": site.run(run.key, "contexts.csv"),
        "plots": _plots(items),
    }


def _plots(items: Listing) -> list[Data]:
    """The histogram of the sorted measure, and its relation to the variability of people."""
    state = items.run.snapshot
    by_key = {column.key: column for column in items.shown}
    measure = by_key.get(items.query.sort) or next(iter(items.shown), None)
    if measure is None or not len(items.rows):
        return []
    drawn = [_histogram(items, measure)]
    across = state.measure("/".join(filter(None, (state.view.across, measure.probe))))
    if across is not None and across is not measure:
        drawn.append(_cloud(items, across, measure))
    return [plot for plot in drawn if plot.get("bars") or plot.get("dots")]


def _histogram(items: Listing, measure: Measure) -> Data:
    bins = plots.histogram(items.columns.values[measure.key][items.rows])
    kept = [limits for limits in items.query.ranges if limits.key != measure.key]

    def link(low: float, high: float) -> str:
        return items.at(items.params(ranges=(*kept, Range(measure.key, low, high)), page=1))

    plot = plots.histogram_plot(bins, measure.heading, link)
    about = f"{measure.heading}: {measure.about}. Click a bar to see its items."
    return plot | {"about": about, "name": f"histogram of {measure.heading}"}


def _cloud(items: Listing, across: Measure, measure: Measure) -> Data:
    keys, headings = (across.key, measure.key), (across.heading, measure.heading)
    plot = _marks(items, keys, headings, Frame())
    about = f"Horizontal: {across.about}. Click a mark to see its items; large marks hold several."
    return plot | {"about": about, "name": f"{measure.heading} by {across.heading}"}


def _marks(items: Listing, keys: tuple[str, str], labels: tuple[str, str], frame: Frame) -> Data:
    x, y = (items.columns.values[key] for key in keys)
    points = plots.cloud(x, y, items.rows, same_axis=keys == (listing.A, listing.B))
    return plots.cloud_plot(points, labels, listing.cell_address(items, keys), frame)


def compare(site: Site, params: Params) -> Data:
    """The scatter of two systems, and a page of the items on which they differ."""
    run = listing.run_of(site, params)
    head, found = listing.run_head(site, run, "compare"), listing.two_systems(site, params)
    if found is None:
        return head | {"title": "Compare", "found": None}
    items, measure = found
    first, second = items.systems
    swapped = [("a", second.key), ("b", first.key), ("measure", measure.key)]
    differences = items.columns.values[listing.DIFFERENCE]
    defined = differences[np.isfinite(differences)]
    return {
        **head,
        **listing.listed(items),
        "title": f"{first.label} v {second.label}",
        "found": {"first": first, "second": second, "measure": measure},
        "measures": listing.common_measures(first, second),
        "known": listing.candidates(site, run),
        "means": [items.columns.mean(key) for key in (listing.A, listing.B, listing.DIFFERENCE)],
        "lower": float(((defined < 0) + 0.5 * (defined == 0)).mean()) if len(defined) else None,
        "plot": _scatter(items, (first.label, second.label), measure),
        "csv": site.to("compare.csv"),
        "swap": items.at(swapped),
    }


def compare_csv(site: Site, params: Params) -> Answer:
    """Both systems on the filtered items, in the order shown."""
    found = listing.two_systems(site, params)
    if found is None:
        raise NotFoundError("There are no two systems to compare.")
    return listing.csv_answer(found[0], "compare.csv", [m.heading for m in found[0].shown])


def _scatter(items: Listing, labels: tuple[str, str], measure: Measure) -> Data:
    frame = Frame(width=460, height=460, bottom=44)
    plot = _marks(items, (listing.A, listing.B), labels, frame)
    about = (
        f"Each mark is an item by its {measure.heading}; above the line, the second system's "
        "is higher. Click a mark to see its items; large marks hold several."
    )
    return plot | {"diagonal": True, "about": about, "name": " v ".join(labels)}


def tokens(site: Site, run: OpenRun, params: Params) -> Data:
    """The reliability diagrams of one system."""
    curves, system = _curves(run, params)
    head = listing.run_head(site, run, "tokens")
    pictures = curves[system].pictures if system else ()
    return head | {
        "title": f"Reliability of {system}" if system else "Reliability",
        "system": system,
        "systems": list(curves),
        "diagrams": [plots.reliability_plot(p) for p in pictures if isinstance(p, Reliability)],
        "about": TEXTS["any"]["notes"]["reliability"],
        "here": site.run(run.key, "tokens"),
        "csv": site.run(run.key, "tokens.csv"),
        "problem": run.summary.problem if run.summary else "",
        "watch": head["watch"] or (None if curves else site.run(run.key, "progress.json")),
    }


def tokens_csv(site: Site, run: OpenRun, params: Params) -> Answer:
    """The bins of a system's reliability diagrams."""
    curves, system = _curves(run, params)
    if not system:
        raise NotFoundError("This run has no reliability data yet.")
    heading = ["diagram", "from", "to", "confidence", "accuracy", "low", "high", "tokens"]
    diagrams = (diagram for diagram in curves[system].pictures if isinstance(diagram, Reliability))
    rows = (row for diagram in diagrams for row in plots.reliability_bins(diagram))
    return Answer(listing.CSV, listing.csv_lines(heading, rows), filename="reliability.csv")


def _curves(run: OpenRun, params: Params) -> tuple[Mapping[str, Any], str]:
    """Return the diagrams of all systems, and the one that an address asks for."""
    curves = run.summary.curves if run.summary else {}
    name = one(params, "system") or next(iter(curves), "")
    if curves and name not in curves:
        raise NotFoundError(f"This run has no system “{name}” with tokens read.")
    return curves, name if curves else ""


PEOPLE = "people"
TOP = 12
MOST = 200
"""Answers per series that a page shows at most."""
N_SERIES = 7
"""People and six systems: more colors cannot be distinguished."""
N_DISTANCES = 3
"""Systems whose distances are drawn."""
Shares = Mapping[str, Mapping[str, float]]


def item(site: Site, run: OpenRun, params: Params) -> Data:
    """The page of an item, with links to the items before and after it."""
    place = _find(run, params)
    items, available = _list_of(site, run, params), _systems_beside(site, run)
    order = {system.key: i for i, system in enumerate(items.systems)}
    named = sorted(available, key=lambda system: order.get(system.key, len(order)))[: N_SERIES - 1]
    no = int(run.snapshot.items.numbers[place])
    people, systems = _answers(run, no, named)
    return {
        **listing.run_head(site, run, "contexts"),
        **listing.neighbors(items, place),
        "title": f"{run.snapshot.view.item.title()} {people.id}",
        "item": people,
        "tag": listing.tag_of(run, place),
        "tables": list(_tables(run, place, named)),
        "left_out": len(available) - len(named),
        **(
            _text_sides(run, place, people.people, systems, named)
            if isinstance(people.people, tuple)
            else _answer_sides(items, no, people, systems, one(params, "top"))
        ),
    }


def _list_of(site: Site, run: OpenRun, params: Params) -> Listing:
    """Return the list that led to an item."""
    found = listing.two_systems(site, params) if one(params, "a") and one(params, "b") else None
    if found is not None and found[0].run is run:
        return found[0]
    return listing.system_listing(site, run, params)


def _find(run: OpenRun, params: Params) -> int:
    """Return the place of the item that is requested by id or by number."""
    text, numbers = one(params, "no"), run.snapshot.items.numbers
    no: int | None = int(text[:15]) if text.isascii() and text.isdecimal() else None
    if one(params, "id"):
        with run.reading() as store:
            no = store.item_no(one(params, "id"))
    place = int(np.searchsorted(numbers, no)) if no is not None else len(numbers)
    if no is None or place >= len(numbers) or numbers[place] != no:
        raise NotFoundError("This run has no such item.")
    return place


def _systems_beside(site: Site, run: OpenRun) -> list[NamedSystem]:
    """Return the models of this run and of comparable ones, including those not scored yet."""
    scored = [system for system in listing.candidates(site, run) if not system.is_control]
    keys = {system.key for system in scored}
    started = (NamedSystem(run, s["name"], s["name"]) for s in run.progress["systems"])
    return [*scored, *(system for system in started if system.key not in keys)]


def _answers(
    first: OpenRun, no: int, named: list[NamedSystem]
) -> tuple[ItemAnswers, dict[str, Categorical | tuple[str, ...]]]:
    """Return the item with people's answers, and the answers of systems of all runs by label."""
    answers: dict[str, ItemAnswers] = {}
    for run in (first, *(s.run for s in named)):
        if run.key not in answers:
            with run.reading() as store:
                answers[run.key] = run.snapshot.view.answers(store, no)
    by_system = {s.label: answers[s.run.key].systems.get(s.system) for s in named}
    answered = {label: answer for label, answer in by_system.items() if answer is not None}
    return answers[first.key], answered


def _text_sides(
    run: OpenRun,
    place: int,
    people: tuple[str, ...],
    systems: Mapping[str, Any],
    named: list[NamedSystem],
) -> Data:
    """Return texts with bars of mean distances."""
    shown = named[:N_DISTANCES]
    return {
        "kind": "texts",
        "texts": {"People": people} | {o.label: systems.get(o.label, ()) for o in named},
        "series": ["H: people", *(f"{s}: {o.label}" for o in shown for s in ("M", "C"))],
        "bars": list(_mean_rows(run, place, shown)),
        "more": None,
    }


def _answer_sides(
    items: Listing, no: int, people: ItemAnswers, systems: Mapping[str, Any], top_text: str
) -> Data:
    """Return bars of answers."""
    sides = {PEOPLE: people.people, **systems}
    distributions = {name: side for name, side in sides.items() if isinstance(side, Categorical)}
    shares = {name: side.as_dict() for name, side in distributions.items()}
    top = min(int(top_text[:4]), MOST) if top_text.isascii() and top_text.isdecimal() else TOP
    params = [("no", str(no)), ("top", str(MOST)), *items.params()]
    has_more = top < MOST and any(len(answers) > top for answers in shares.values())
    return {
        "kind": "answers",
        "texts": {},
        "series": list(distributions),
        "bars": list(_answer_rows(shares, distributions, top, people.original)),
        "more": items.item_at(params) if has_more else None,
    }


def _answer_rows(
    shares: Shares, distributions: Mapping[str, Categorical], top: int, original: str | None
) -> Iterator[Data]:
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
        row = {"label": answer_name(answer), "values": list(values.values())}
        yield row | {"details": details, "marked": is_original}


def _mean_rows(run: OpenRun, place: int, named: list[NamedSystem]) -> Iterator[Data]:
    """Yield mean distances of one input: among people, among a system's texts, between both.

    Without a value of a side, the row has NaN and leaves it out.
    """
    controls = [NamedSystem(run, name, name) for name in run.snapshot.view.level.controls]
    for probe in run.snapshot.probes:
        values = [_saved(system, place, f"mean_H/{probe}") for system in controls]
        for system in named:
            values += [_saved(system, place, f"mean_{side}/{probe}") for side in ("M", "C")]
        if not all(math.isnan(value) for value in values):
            details = [f"mean distance {value:.3f}" for value in values]
            yield {"label": probe, "values": values, "details": details, "marked": False}


def _saved(named: NamedSystem, place: int, key: str) -> float:
    scored = named.run.snapshot.systems.get(named.system)
    if scored is None or key not in scored.values:
        return math.nan
    return float(next(iter(scored.values[key][scored.places == place]), math.nan))


def _tables(run: OpenRun, place: int, named: list[NamedSystem]) -> Iterator[Data]:
    """Yield the saved measures of an item: one table per probe, one row per system."""
    snapshot = run.snapshot
    compared = [name for name in snapshot.systems if name not in snapshot.view.not_compared]
    controls = [NamedSystem(run, n, n) for n in compared if snapshot.is_control(n)]
    for probe in snapshot.probes or ("",):
        measures = tuple(measure for measure in snapshot.measures if measure.probe == probe)
        rows = [row for system in (*named, *controls) for row in _rows(system, place, measures)]
        if rows:
            yield {"title": probe, "columns": measures, "rows": rows}


def _rows(named: NamedSystem, place: int, measures: tuple[Measure, ...]) -> Iterator[Data]:
    scored = named.run.snapshot.systems.get(named.system)
    if scored is None:
        return
    for row in np.flatnonzero(scored.places == place).tolist():
        # A run beside this one may have other probes.
        columns = (scored.values.get(measure.key) for measure in measures)
        values = [math.nan if column is None else column[row] for column in columns]
        if not all(math.isnan(value) for value in values):
            cells = [listing.shown_value(v, m) for v, m in zip(values, measures, strict=True)]
            yield {"name": named.label, "cells": cells}
