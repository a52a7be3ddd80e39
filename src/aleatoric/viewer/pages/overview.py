"""The list of runs, and the front page of one."""

from __future__ import annotations

import numpy as np

from aleatoric.report.numbers import number
from aleatoric.types import Floats, Table
from aleatoric.viewer.library import OpenRun
from aleatoric.viewer.pages.common import (
    ITEMS,
    LEADS,
    TITLES,
    Data,
    Frame,
    Site,
    progress_data,
    run_head,
    ticks,
)
from aleatoric.viewer.plots import Axis, histogram
from aleatoric.viewer.snapshot import is_control

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
