"""Two systems side by side, of one run or of two runs of the same corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aleatoric.levels.word_scoring import HUMAN
from aleatoric.report.explorer.common import (
    ITEMS,
    Data,
    Frame,
    Listing,
    Site,
    cell_address,
    cloud_plot,
    csv_heading,
    csv_rows,
    groups_of,
    listed,
    run_head,
)
from aleatoric.report.explorer.library import OpenRun
from aleatoric.report.explorer.plots import cloud
from aleatoric.report.explorer.rendering import CSV, Answer, NotFoundError, csv_lines
from aleatoric.report.explorer.snapshot import (
    Columns,
    Measure,
    Params,
    is_control,
    one,
    parse,
    select,
)
from aleatoric.types import Floats

A, B, DIFFERENCE, GAP = "a", "b", "difference", "gap"


@dataclass(frozen=True)
class Named:
    """A system of a run, as readers and addresses name it."""

    run: OpenRun
    system: str
    label: str

    @property
    def key(self) -> str:
        """Its name in addresses."""
        return f"{self.run.key}:{self.system}"

    @property
    def columns(self) -> Columns:
        """Its measures."""
        return self.run.snapshot.systems[self.system]


@dataclass(frozen=True)
class Compared:
    """Two systems by one measure, and the list of the items that both have."""

    first: Named
    second: Named
    measure: Measure
    listing: Listing


def candidates(site: Site, run: OpenRun) -> list[Named]:
    """The systems that can be compared with those of a run, its own first, models before controls.

    A name that two runs share is told apart by the run's.
    """
    runs = site.library.beside(run)
    pairs = [(one, name) for one in runs for name in one.snapshot.systems if name != HUMAN]
    names = [name for _, name in pairs]
    named = [
        Named(own, name, name if names.count(name) == 1 else f"{name} ({own.name})")
        for own, name in pairs
    ]
    return sorted(named, key=lambda one: is_control(one.system))


def compare_two(site: Site, params: Params) -> Compared | None:
    """The comparison that an address asks for; `None` where there are no two systems."""
    run = _run(site, params)
    known = candidates(site, run)
    if len(known) < 2:
        return None
    first = _named(known, one(params, A)) or known[0]
    second = _named(known, one(params, B)) or next(own for own in known if own != first)
    seen = first.run.snapshot
    measure = seen.measure(one(params, "measure")) or seen.measures[0]
    return Compared(first, second, measure, _listing(site, first, second, measure, params))


def joined(first: Columns, second: Columns, key: str) -> Columns:
    """Both systems' values of a measure on their common items, and how far they are apart.

    >>> x = Columns("x", np.array([0, 1]), {"tvd": np.array([0.5, 0.25])})
    >>> y = Columns("y", np.array([1, 2]), {"tvd": np.array([0.75, 0.5])})
    >>> {name: own.tolist() for name, own in joined(x, y, "tvd").values.items()}
    {'a': [0.25], 'b': [0.75], 'difference': [-0.5], 'gap': [0.5]}
    """
    # Of an item with several rows the first one stands for it.
    places = [np.unique(own.places, return_index=True) for own in (first, second)]
    common, one_at, other_at = np.intersect1d(
        places[0][0], places[1][0], assume_unique=True, return_indices=True
    )
    a = first.values[key][places[0][1][one_at]]
    b = second.values[key][places[1][1][other_at]]
    values = {A: a, B: b, DIFFERENCE: a - b, GAP: np.abs(a - b)}
    return Columns("", common.astype(np.int64), values)


def compare(site: Site, params: Params) -> Data:
    """The scatter of both systems, and a page of the items on which they differ."""
    run = _run(site, params)
    head, found = run_head(site, run, "compare"), compare_two(site, params)
    if found is None:
        return head | {"title": "Compare", "found": None}
    own = found.listing
    return {
        **head,
        **listed(own),
        "title": f"{found.first.label} v {found.second.label}",
        "found": found,
        "known": candidates(site, run),
        "measures": own.run.snapshot.measures,
        "groups": groups_of(own.run),
        "items": ITEMS[own.run.snapshot.level],
        "means": [own.columns.mean(key) for key in (A, B, DIFFERENCE)],
        "lower": _share_lower(own.columns.values[DIFFERENCE]),
        "plot": _plot(found),
        "csv": site.links.to("compare.csv"),
        "clear": own.at(own.fixed),
        "is_narrowed": len(own.rows) < len(own.columns.places),
        "swap": own.at(_swapped(found)),
    }


def compare_csv(site: Site, params: Params) -> Answer:
    """Both systems on what is filtered, in the order shown."""
    found = compare_two(site, params)
    if found is None:
        raise NotFoundError("There are no two systems to compare.")
    names = [found.first.label, found.second.label, DIFFERENCE, f"|{DIFFERENCE}|"]
    heading = csv_heading(found.listing, names)
    return Answer(CSV, csv_lines(heading, csv_rows(found.listing)), filename="compare.csv")


def _listing(site: Site, first: Named, second: Named, measure: Measure, params: Params) -> Listing:
    run, query = first.run, parse(params, GAP)
    columns = joined(first.columns, second.columns, measure.key)
    return Listing(
        run=run,
        columns=columns,
        shown=_shown(first, second, measure),
        query=query,
        rows=select(columns, run.snapshot.items, query, run.tags),
        fixed=(("a", first.key), ("b", second.key), ("measure", measure.key)),
        at=lambda pairs: site.links.to("compare", params=pairs),
        item_at=lambda pairs: site.links.run(run.key, "context", params=pairs),
    )


def _shown(first: Named, second: Named, measure: Measure) -> tuple[Measure, ...]:
    what = measure.heading
    headings = {
        A: (first.label, f"{what} of {first.label}"),
        B: (second.label, f"{what} of {second.label}"),
        DIFFERENCE: ("difference", f"{what} of the first less that of the second"),
        GAP: ("|difference|", "how far the two are apart"),
    }
    return tuple(
        replace(measure, key=key, heading=heading, about=about)
        for key, (heading, about) in headings.items()
    )


def _run(site: Site, params: Params) -> OpenRun:
    key = one(params, A).partition(":")[0] or one(params, "run") or "0"
    run = site.library.find(key)
    if run is None:
        raise NotFoundError("There is no such run.")
    return run


def _named(known: Sequence[Named], key: str) -> Named | None:
    return next((own for own in known if own.key == key), None)


def _share_lower(differences: Floats) -> float | None:
    known = differences[np.isfinite(differences)]
    return float(((known < 0) + 0.5 * (known == 0)).mean()) if len(known) else None


def _plot(found: Compared) -> Data:
    own = found.listing
    seen = cloud(own.columns.values[A], own.columns.values[B], own.rows, same_axis=True)
    labels = (found.first.label, found.second.label)
    frame = Frame(width=460, height=460, bottom=44)
    plot = cloud_plot(seen, labels, (A, B), cell_address(own), frame)
    about = (
        f"Each mark is an item by its {found.measure.heading}; above the line the second system's "
        "is higher. Click a mark to see its item; large marks are several."
    )
    return plot | {"diagonal": True, "about": about, "name": " v ".join(labels)}


def _swapped(found: Compared) -> list[tuple[str, str]]:
    return [("a", found.second.key), ("b", found.first.key), ("measure", found.measure.key)]
