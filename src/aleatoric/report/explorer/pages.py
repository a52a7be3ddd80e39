"""Contexts (or inputs) of one system: searched, filtered, sorted, drawn, and as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from aleatoric.report.explorer.common import (
    ITEMS,
    LEADS,
    TITLES,
    Data,
    Frame,
    Listing,
    Site,
    cell_address,
    cloud_plot,
    csv_heading,
    csv_rows,
    groups_of,
    histogram_plot,
    listed,
    narrowed,
    progress_data,
    run_head,
    ticks,
)
from aleatoric.report.explorer.library import OpenRun
from aleatoric.report.explorer.plots import Axis, cloud, histogram
from aleatoric.report.explorer.rendering import CSV, Answer, NotFoundError, csv_lines
from aleatoric.report.explorer.snapshot import (
    ORDER,
    Columns,
    Measure,
    Params,
    Range,
    Snapshot,
    is_control,
    one,
    parse,
    probe_of,
    select,
)
from aleatoric.report.tables import number
from aleatoric.studies.figure_data import Reliability
from aleatoric.types import Floats, Table


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


_FACTS = ("decoders", "estimator", "samples", "protocol", "n_splits", "seed", "probes", "schemes")


def home(site: Site) -> Data:
    """Every run with its systems."""
    cards = [
        {
            "run": run,
            "title": f"{TITLES[run.snapshot.level]}: {run.snapshot.corpus}",
            "href": site.links.run(run.key),
            "tables": tables_of(run)[:1],
            "progress": progress_data(run),
        }
        for run in site.library.runs
    ]
    return {"cards": cards, "title": "Runs", "watch": None}


def overview(site: Site, run: OpenRun) -> Data:
    """What was measured, the table of systems, how values spread."""
    level, summary = run.snapshot.level, run.summary
    head = run_head(site, run, "")
    return head | {
        "title": f"{TITLES[level]}: {run.snapshot.corpus}",
        "lead": LEADS[level],
        "tables": tables_of(run),
        "is_final": summary is not None and not summary.problem,
        "problem": summary.problem if summary else "",
        "notes": summary.notes if summary else (),
        "signatures": summary.signatures if summary else (),
        "progress": progress_data(run),
        "spread": spread(run),
        "facts": _facts(run),
        "searched": site.links.run(run.key, "contexts") if level != "token" else None,
        "watch": head["watch"] or (None if summary else site.links.run(run.key, "progress.json")),
    }


def tables_of(run: OpenRun) -> list[Table]:
    """The run's results; means alone while intervals are being worked out."""
    if run.summary is not None and run.summary.tables:
        return list(run.summary.tables)
    seen = run.snapshot
    shown = [one for one in seen.measures if not one.key.startswith(("n_", "mean_"))][:6]
    rows = tuple(
        (name, *(number(own.mean(one.key), one.digits) for one in shown), str(len(own.places)))
        for name, own in seen.systems.items()
        if any(own.mean(one.key) is not None for one in shown)
    )
    if not rows:
        return []
    columns = ("system", *(one.heading for one in shown), ITEMS[seen.level])
    return [Table("Systems", columns, rows, ("Means; intervals are being worked out.",))]


def spread(run: OpenRun) -> Data | None:
    """How often each value of the first measure occurs, a line a system."""
    seen = run.snapshot
    if not seen.measures:
        return None
    measure, frame = seen.measures[0], Frame(width=720, height=260)
    counts = {name: _shares(own.values[measure.key]) for name, own in seen.systems.items()}
    # People come first, in their own colour; where they have no curve it is left to them.
    names = sorted((name for name, own in counts.items() if len(own)), key=_is_after_people)
    drawn = {name: counts[name] for name in names}
    top = max((float(own.max()) for own in drawn.values()), default=0.0) or 1.0
    x_axis, y_axis = Axis.over(0.0, 1.0), Axis.over(0.0, top)
    lines = [
        {
            "name": name,
            "points": " ".join(
                f"{frame.x((i + 0.5) / len(own))},{frame.y(y_axis.share(float(y)))}"
                for i, y in enumerate(own)
            ),
        }
        for name, own in drawn.items()
    ]
    return {
        "frame": frame,
        "lines": lines,
        "first_slot": 0 if any(map(is_control, drawn)) else 1,
        "x_ticks": ticks(x_axis, frame.x),
        "y_ticks": ticks(y_axis, frame.y),
        "x_label": measure.heading,
        "y_label": f"share of {ITEMS[seen.level]}",
        "about": measure.about,
    }


def _is_after_people(name: str) -> bool:
    return not is_control(name)


def _shares(values: Floats) -> Floats:
    bins = histogram(values, 25)
    if not bins or bins[0].low < 0 or bins[-1].high > 1:
        return np.zeros(0)
    counts = np.array([one.count for one in bins], dtype=np.float64)
    shares: Floats = counts / counts.sum()
    return shares


def _facts(run: OpenRun) -> list[tuple[str, str]]:
    manifest, seen = run.manifest, run.snapshot
    facts = [("corpus", f"{seen.corpus} #{seen.corpus_sha256[:12]}")]
    if seen.level != "token":
        facts.append((ITEMS[seen.level], f"{len(seen.items)} in {len(seen.items.groups)} groups"))
    for key in _FACTS:
        value = manifest.get(key)
        if value not in (None, [], ""):
            facts.append(
                (key, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
            )
    return [*facts, ("aleatoric", str(manifest["versions"]["aleatoric"]))]


ABOUT = (
    "Points below the line are over-confident. Thin bars: where a calibrated model's points would "
    "lie with as many tokens. Grey steps: how many tokens."
)


def tokens(site: Site, run: OpenRun, params: Params) -> Data:
    """The diagrams of one system."""
    curves = run.summary.curves if run.summary else {}
    system = _chosen(run, params)
    head = run_head(site, run, "tokens")
    own = curves[system].pictures if system else ()
    return head | {
        "title": f"Reliability of {system}" if system else "Reliability",
        "system": system,
        "systems": list(curves),
        "diagrams": [_diagram(one) for one in own if isinstance(one, Reliability)],
        "about": ABOUT,
        "here": site.links.run(run.key, "tokens"),
        "csv": site.links.run(run.key, "tokens.csv"),
        "problem": run.summary.problem if run.summary else "",
        "watch": head["watch"] or (None if curves else site.links.run(run.key, "progress.json")),
    }


def tokens_csv(run: OpenRun, params: Params) -> Answer:
    """The bins of a system's diagrams."""
    system = _chosen(run, params)
    if not system or run.summary is None:
        raise NotFoundError("This run has no reliability data yet.")
    heading = ["diagram", "from", "to", "confidence", "accuracy", "low", "high", "tokens"]
    pictures = run.summary.curves[system].pictures
    rows = (row for own in pictures if isinstance(own, Reliability) for row in _bins(own))
    return Answer(CSV, csv_lines(heading, rows), filename="reliability.csv")


def _chosen(run: OpenRun, params: Params) -> str:
    curves = run.summary.curves if run.summary else {}
    name = one(params, "system") or next(iter(curves), "")
    if curves and name not in curves:
        raise NotFoundError(f"This run has no system “{name}” with tokens read.")
    return name if curves else ""


def _bins(own: Reliability) -> Iterator[tuple[object, ...]]:
    columns = (own.confidence, own.accuracy, own.low, own.high, own.counts)
    for low, high, *rest in zip(own.edges[:-1], own.edges[1:], *columns, strict=True):
        yield (own.title, low, high, *rest)


def _diagram(own: Reliability) -> Data:
    frame = Frame(width=400, height=360)
    axis = Axis.over(0.0, 1.0)
    most = max(own.counts, default=1.0) or 1.0
    return {
        "title": own.title,
        "frame": frame,
        "x_ticks": ticks(axis, frame.x),
        "y_ticks": ticks(axis, frame.y),
        "x_label": "confidence",
        "y_label": "accuracy",
        "name": own.title,
        "bins": [_bin(frame, row, most) for row in _bins(own) if row[-1]],
    }


def _bin(frame: Frame, row: tuple[object, ...], most: float) -> Data:
    low, high, confidence, accuracy, *ends, count = (float(str(value)) for value in row[1:])
    whole = frame.y(0) - frame.y(1)
    label = f"confidence {confidence:.3f}, accuracy {accuracy:.3f}, {count:.0f} tokens"
    return {
        "x": frame.x(low) + 0.5,
        "width": frame.x(high) - frame.x(low) - 1,
        "count_height": round(0.35 * whole * count / most, 1),
        "px": frame.x(confidence),
        "py": frame.y(accuracy),
        "ends": [frame.y(end) for end in ends if not math.isnan(end)],
        "label": f"{low:.2f} to {high:.2f}: {label}",
    }
