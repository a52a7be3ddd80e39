"""The pages of runs: all runs, one run, its items, two systems, reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.report.explorer import listing
from aleatoric.report.explorer.listing import DIFFERENCE, A, B, Listing, Site, TwoSystems
from aleatoric.report.explorer.plots import (
    Axis,
    Data,
    Frame,
    cloud,
    cloud_plot,
    histogram,
    histogram_plot,
    reliability_bins,
    reliability_plot,
)
from aleatoric.report.explorer.rendering import CSV, Answer, NotFoundError, csv_lines
from aleatoric.report.explorer.snapshot import Params, Range, one
from aleatoric.report.item_data import Measure
from aleatoric.report.tables import number
from aleatoric.result_types import Table
from aleatoric.studies.figure_data import Reliability
from aleatoric.types import Floats

if TYPE_CHECKING:
    from aleatoric.report.explorer.library import OpenRun

_FACTS = ("decoders", "estimator", "samples", "protocol", "n_splits", "seed", "probes", "schemes")
_RELIABILITY = (
    "Points below the line are overconfident. Thin bars: where the points of a calibrated model "
    "would lie with as many tokens. Gray steps: the number of tokens."
)


def home(site: Site) -> Data:
    """Every run with its systems."""
    cards = [
        {"run": run, "title": run.title, "href": site.links.run(run.key)}
        | {"tables": tables_of(run)[:1], "progress": run.progress_data()}
        for run in site.library.runs
    ]
    return {"cards": cards, "title": "Runs", "watch": None}


def overview(site: Site, run: OpenRun, params: Params) -> Data:
    """Facts of a run, the table of systems, the distribution of the first measure."""
    # Taken before the summary: a page never claims results that it does not show.
    progress = run.progress_data()
    view, summary = run.snapshot.view, run.summary
    head = listing.run_head(site, run, "")
    return head | {
        "title": run.title,
        "lead": view.lead,
        "tables": tables_of(run),
        "problem": summary.problem if summary else "",
        "notes": summary.notes if summary else (),
        "signatures": summary.signatures if summary else (),
        "progress": progress,
        "spread": spread(run),
        "facts": _facts(run),
        "searched": site.links.run(run.key, "contexts") if view.has_items else None,
        "watch": head["watch"] or (None if summary else site.links.run(run.key, "progress.json")),
    }


def tables_of(run: OpenRun) -> list[Table]:
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


def spread(run: OpenRun) -> Data | None:
    """Distribution of the first measure, one line per system."""
    state = run.snapshot
    if not state.measures:
        return None
    measure, frame = state.measures[0], Frame(width=720, height=260)
    counts = {name: _shares(scored.values[measure.key]) for name, scored in state.systems.items()}
    # People come first: no other system has their color.
    names = sorted(filter(lambda n: len(counts[n]), counts), key=lambda n: not state.is_control(n))
    y_axis = Axis.over(0.0, max((float(counts[name].max()) for name in names), default=0.0) or 1.0)
    lines = []
    for name in names:
        shares = enumerate(counts[name].tolist())
        places = (((i + 0.5) / len(counts[name]), y_axis.share(share)) for i, share in shares)
        points = " ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in places)
        lines.append({"name": name, "points": points})
    axes = frame.axes(Axis.over(0.0, 1.0), y_axis, measure.heading, f"share of {state.view.items}")
    first_slot = 0 if any(map(state.is_control, names)) else 1
    return axes | {"lines": lines, "first_slot": first_slot, "about": measure.about}


def _shares(values: Floats) -> Floats:
    bins = histogram(values, 25)
    if not bins or bins[0].low < 0 or bins[-1].high > 1:
        return np.zeros(0)
    n = sum(bar.count for bar in bins)
    return np.array([bar.count / n for bar in bins], dtype=np.float64)


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
    found, state = listing.system_listing(site, run, params), run.snapshot
    return {
        **listing.run_head(site, run, "contexts"),
        **listing.listed(found),
        "title": f"{state.view.items.title()} of {found.columns.name or run.name}",
        "system": found.columns.name,
        "probe": found.shown[0].probe if found.shown else "",
        "systems": list(state.systems),
        "probes": state.probes,
        "csv": site.links.run(run.key, "contexts.csv"),
        "plots": plots(found),
    }


def plots(found: Listing) -> list[Data]:
    """The histogram of the sorted measure, and its relation to the variability of people."""
    state = found.run.snapshot
    by_key = {column.key: column for column in found.shown}
    measure = by_key.get(found.query.sort) or next(iter(found.shown), None)
    if measure is None or not len(found.rows):
        return []
    drawn = [_histogram(found, measure)]
    across = state.measure("/".join(filter(None, (state.view.across, measure.probe))))
    if across is not None and across is not measure:
        drawn.append(_cloud(found, across, measure))
    return [plot for plot in drawn if plot.get("bars") or plot.get("dots")]


def _histogram(found: Listing, measure: Measure) -> Data:
    bins = histogram(found.columns.values[measure.key][found.rows])
    plot = histogram_plot(
        bins,
        measure.heading,
        lambda bar: listing.narrowed(found, Range(measure.key, bar.low, bar.high)),
    )
    about = f"{measure.heading}: {measure.about}. Click a bar to see its items."
    return plot | {"about": about, "name": f"histogram of {measure.heading}"}


def _cloud(found: Listing, across: Measure, measure: Measure) -> Data:
    values, keys = found.columns.values, (across.key, measure.key)
    points = cloud(values[across.key], values[measure.key], found.rows)
    headings, address = (across.heading, measure.heading), listing.cell_address(found, keys)
    plot = cloud_plot(points, headings, address, Frame())
    about = f"Horizontal: {across.about}. Click a mark to see its items; large marks hold several."
    return plot | {"about": about, "name": f"{measure.heading} by {across.heading}"}


def compare(site: Site, params: Params) -> Data:
    """The scatter of two systems, and a page of the items on which they differ."""
    run = listing.run_of(site, params)
    head, pair = listing.run_head(site, run, "compare"), listing.two_systems(site, params)
    if pair is None:
        return head | {"title": "Compare", "found": None}
    items = pair.listing
    swapped = [("a", pair.second.key), ("b", pair.first.key), ("measure", pair.measure.key)]
    differences = items.columns.values[DIFFERENCE]
    defined = differences[np.isfinite(differences)]
    return {
        **head,
        **listing.listed(items),
        "title": f"{pair.first.label} v {pair.second.label}",
        "found": pair,
        "known": listing.candidates(site, run),
        "measures": items.run.snapshot.measures,
        "means": [items.columns.mean(key) for key in (A, B, DIFFERENCE)],
        "lower": float(((defined < 0) + 0.5 * (defined == 0)).mean()) if len(defined) else None,
        "plot": _scatter(pair),
        "csv": site.links.to("compare.csv"),
        "swap": items.at(swapped),
    }


def compare_csv(site: Site, params: Params) -> Answer:
    """Both systems on the filtered items, in the order shown."""
    pair = listing.two_systems(site, params)
    if pair is None:
        raise NotFoundError("There are no two systems to compare.")
    names = [pair.first.label, pair.second.label, DIFFERENCE, f"|{DIFFERENCE}|"]
    return listing.csv_answer(pair.listing, "compare.csv", names)


def _scatter(pair: TwoSystems) -> Data:
    items, labels = pair.listing, (pair.first.label, pair.second.label)
    points = cloud(items.columns.values[A], items.columns.values[B], items.rows, same_axis=True)
    frame = Frame(width=460, height=460, bottom=44)
    plot = cloud_plot(points, labels, listing.cell_address(items, (A, B)), frame)
    about = (
        f"Each mark is an item by its {pair.measure.heading}; above the line, the second system's "
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
        "diagrams": [reliability_plot(p) for p in pictures if isinstance(p, Reliability)],
        "about": _RELIABILITY,
        "here": site.links.run(run.key, "tokens"),
        "csv": site.links.run(run.key, "tokens.csv"),
        "problem": run.summary.problem if run.summary else "",
        "watch": head["watch"] or (None if curves else site.links.run(run.key, "progress.json")),
    }


def tokens_csv(site: Site, run: OpenRun, params: Params) -> Answer:
    """The bins of a system's reliability diagrams."""
    curves, system = _curves(run, params)
    if not system:
        raise NotFoundError("This run has no reliability data yet.")
    heading = ["diagram", "from", "to", "confidence", "accuracy", "low", "high", "tokens"]
    diagrams = (diagram for diagram in curves[system].pictures if isinstance(diagram, Reliability))
    rows = (row for diagram in diagrams for row in reliability_bins(diagram))
    return Answer(CSV, csv_lines(heading, rows), filename="reliability.csv")


def _curves(run: OpenRun, params: Params) -> tuple[Mapping[str, Any], str]:
    """Return the diagrams of all systems, and the one that an address asks for."""
    curves = run.summary.curves if run.summary else {}
    name = one(params, "system") or next(iter(curves), "")
    if curves and name not in curves:
        raise NotFoundError(f"This run has no system “{name}” with tokens read.")
    return curves, name if curves else ""
