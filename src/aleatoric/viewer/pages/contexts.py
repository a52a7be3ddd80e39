"""Contexts (or inputs) of one system: searched, filtered, sorted, drawn, and as CSV."""

from __future__ import annotations

from aleatoric.viewer.answers import CSV, Answer, NotFoundError
from aleatoric.viewer.csvs import csv_lines
from aleatoric.viewer.library import OpenRun
from aleatoric.viewer.listing import (
    Listing,
    cell_address,
    csv_heading,
    csv_rows,
    listed,
    narrowed,
)
from aleatoric.viewer.measures import Measure, probe_of
from aleatoric.viewer.pages.common import (
    ITEMS,
    Data,
    Site,
    cloud_plot,
    groups_of,
    histogram_plot,
    run_head,
)
from aleatoric.viewer.plots import cloud, histogram
from aleatoric.viewer.query import ORDER, Params, Range, one, parse, select
from aleatoric.viewer.snapshot import Columns, Snapshot, is_control


def listing(site: Site, run: OpenRun, params: Params) -> Listing:
    """The list that an address asks for."""
    seen = run.snapshot
    columns = _columns(seen, one(params, "system"))
    measures = _measures(seen, one(params, "probe"))
    query = parse(params, measures[0].key if measures else ORDER)
    fixed = [("system", columns.name), ("probe", probe_of(measures[0]) if measures else "")]
    return Listing(
        run=run,
        columns=columns,
        shown=measures,
        query=query,
        rows=select(columns, seen.items, query, run.tags),
        fixed=tuple((key, value) for key, value in fixed if value),
        at=lambda pairs: site.links.run(run.key, "contexts", params=pairs),
        item_at=lambda pairs: site.links.run(run.key, "context", params=pairs),
    )


def contexts(site: Site, run: OpenRun, params: Params) -> Data:
    """A page of the list, with its plots."""
    found, seen = listing(site, run, params), run.snapshot
    return {
        **run_head(site, run, "contexts"),
        **listed(found),
        "title": f"{ITEMS[seen.level].title()} of {found.columns.name or run.name}",
        "system": found.columns.name,
        "probe": probe_of(found.shown[0]) if found.shown else "",
        "systems": list(seen.systems),
        "probes": seen.probes,
        "groups": groups_of(run),
        "csv": site.links.run(run.key, "contexts.csv"),
        "plots": plots(found),
        "clear": found.at(found.fixed),
        "items": ITEMS[seen.level],
        "is_narrowed": len(found.rows) < len(found.columns.places),
    }


def contexts_csv(site: Site, run: OpenRun, params: Params) -> Answer:
    """What is filtered, all of it, in the order shown."""
    found = listing(site, run, params)
    return Answer(CSV, csv_lines(csv_heading(found), csv_rows(found)), filename="contexts.csv")


def plots(found: Listing) -> list[Data]:
    """The sorted measure's histogram, and its relation to how undecided people are."""
    seen = found.run.snapshot
    by_key = {one.key: one for one in found.shown}
    measure = by_key.get(found.query.sort) or next(iter(found.shown), None)
    if measure is None or not len(found.rows):
        return []
    drawn = [_histogram(found, measure)]
    probe = probe_of(measure)
    across = seen.measure(f"mean_H/{probe}" if probe else "entropy_human")
    if across is not None and across is not measure:
        drawn.append(_cloud(found, across, measure))
    return [one for one in drawn if one.get("bars") or one.get("dots")]


def _histogram(found: Listing, measure: Measure) -> Data:
    bins = histogram(found.columns.values[measure.key][found.rows])
    plot = histogram_plot(
        bins,
        measure.heading,
        lambda own: narrowed(found, [Range(measure.key, own.low, own.high)]),
    )
    about = f"{measure.heading}: {measure.about}. Click a bar to see its items."
    return plot | {"about": about, "name": f"histogram of {measure.heading}"}


def _cloud(found: Listing, across: Measure, measure: Measure) -> Data:
    values = found.columns.values
    own = cloud(values[across.key], values[measure.key], found.rows)
    labels, keys = (across.heading, measure.heading), (across.key, measure.key)
    about = f"Across: {across.about}. Click a mark to see its item; large marks are several."
    plot = cloud_plot(own, labels, keys, cell_address(found))
    return plot | {"about": about, "name": f"{measure.heading} by {across.heading}"}


def _columns(seen: Snapshot, name: str) -> Columns:
    if not seen.systems:
        return seen.everything
    if name and name not in seen.systems:
        raise NotFoundError(f"This run has no scored system “{name}”.")
    models = [own for key, own in seen.systems.items() if not is_control(key)]
    return seen.systems[name] if name else next(iter(models or seen.systems.values()))


def _measures(seen: Snapshot, probe: str) -> tuple[Measure, ...]:
    if seen.level != "text":
        return seen.measures
    known = probe if probe in seen.probes else next(iter(seen.probes), "")
    return tuple(one for one in seen.measures if probe_of(one) == known)
