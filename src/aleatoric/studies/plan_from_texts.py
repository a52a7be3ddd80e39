"""Plan from a pilot of texts: the variances of mean distances in a saved text-level run.

Values are unbiased for any numbers of texts, so only their noise depends on these numbers: nothing
is extrapolated from samples of other sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.inference import components
from aleatoric.inference.components import Distances, Parts, Weights, parts_of
from aleatoric.inference.noise import Size, VarianceParts, split_variance
from aleatoric.inference.planning import (
    Crowding,
    Design,
    PilotSpread,
    Sizes,
    Variances,
    between_and_within,
    group_columns,
)
from aleatoric.levels.text_scoring import CHUNK, Scorer
from aleatoric.levels.text_variability import Group, score_blocks
from aleatoric.probes.base import is_code
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.studies.plan import Known, PlanSource, around
from aleatoric.types import Floats, Ints

_NO_SPREAD = 1e-12
_EXPLAINED = (
    "people: references per input; samples: generated texts per input; contexts: inputs. "
    "[low, high]: uncertainty of the SE given the pilot's number of groups (95%)."
)


@dataclass(frozen=True)
class TextPilot:
    """Values of a metric on the inputs of a run, and the parts of their noise, one per input."""

    metric: str
    values: Floats
    parts: Parts
    sizes: Ints
    """Numbers of people's texts and of generated texts, (inputs, 2)."""
    groups: Ints
    n_left_out: int

    @property
    def table(self) -> Floats:
        """Sums by group of the values, for an analysis of variance."""
        ends = np.cumsum(np.bincount(self.groups))[:-1]
        members = np.split(self.values[np.argsort(self.groups, kind="stable")], ends)
        return np.array([group_columns(values[:, None]) for values in members])

    def own_noise(self) -> tuple[Floats, Floats]:
        """The variance of each value by people and by draws, at the pilot's own sizes."""
        n, m = self.sizes.T
        return self.parts.people(n), self.parts.draws(n, m)

    def split(self) -> VarianceParts | None:
        """The noise of the pilot's own mean by source."""
        return split_variance(self.values, self.groups, *self.own_noise())


def text_pilot(store: Store, names: Sequence[str], metric: str | None) -> TextPilot:
    """Return the values and noise of a metric for one system, or for a difference of two."""
    metric, probe = _checked_metric(store, metric)
    weights = Weights.of(metric.partition("/")[0])
    pages = list(_pages(store, names, probe, weights))
    if not pages:
        needed = "4 texts" if weights.human or weights.model else "2 texts"
        problem = f"no input has {needed} on each side that {metric} compares, all with distances"
        raise UsageError(f"{store.path}: {problem}; plan from a run with more texts per input.")
    groups = np.unique([group for page in pages for group in page.groups], return_inverse=True)[1]
    values = np.concatenate([page.values for page in pages])
    check_spread(str(store.path), "inputs", groups.tolist(), values.tolist())
    return TextPilot(
        metric,
        values,
        Parts.joined([page.parts for page in pages]),
        np.concatenate([np.tile(page.sizes, (len(page.values), 1)) for page in pages]),
        groups,
        store.n_items - len(values),
    )


def text_source(
    name: str, pilot: TextPilot, correlation: float | None, notes: tuple[str, ...]
) -> PlanSource:
    """The variances of a pilot; with a `correlation`, of its difference to an assumed system."""
    table, (n, m) = pilot.table, np.median(pilot.sizes, axis=0).astype(int).tolist()
    between, within = (float(part) for part in between_and_within(table.sum(axis=0)))
    contexts = max(0.0, within - float(sum(part.mean() for part in pilot.own_noise())))

    def known(people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Known]:
        return {(n, m): at_sizes(n, m) for n, m in product(people, samples)}

    def at_sizes(n: int, m: Size) -> Known:
        if m is None:
            raise UsageError("--samples exact: texts are always drawn; give numbers of texts.")
        noises = (pilot.parts.people(n).mean(), pilot.parts.draws(n, m).mean())
        people, draws = (max(0.0, float(part)) for part in noises)
        parts = Variances(between, contexts, people, draws)
        scale = (contexts + people + draws) / within if within else 1.0
        spread = PilotSpread(table, 1.0, scale, people, draws)
        return Known(parts if correlation is None else parts.paired(correlation), spread)

    n_groups = len(table)
    design = Design(n, m, n_groups, Crowding.of(np.bincount(pilot.groups)))
    by_people, by_draws = (part.any() for part in pilot.own_noise())
    return PlanSource(
        name,
        design,
        known,
        (*_notes(pilot), *notes),
        pilot.split(),
        around(n) if by_people else (n,),
        around(m) if by_draws else (m,),
    )


def _notes(pilot: TextPilot) -> Iterator[str]:
    yield _EXPLAINED
    if pilot.n_left_out:
        n, total = pilot.n_left_out, pilot.n_left_out + len(pilot.values)
        yield f"{n} of {total} inputs have too few texts, or pairs without a distance: left out."


def check_spread(run: str, items: str, groups: Sequence[object], values: Sequence[float]) -> None:
    """Refuse a pilot that says nothing about how items or their groups differ."""
    if len(set(groups)) < 2:
        raise UsageError(
            f"{run}: its {items} are in one group, which says nothing about how groups differ; "
            "use a pilot of several groups, or --assume."
        )
    if np.ptp(values) < _NO_SPREAD:
        raise UsageError(
            f"{run}: all its {items} have the same value, which says nothing about how they "
            "differ; use another pilot, or --assume."
        )


def _checked_metric(store: Store, metric: str | None) -> tuple[str, str]:
    probes = [name for name in store.manifest["probes"] if not is_code(name)]
    if metric is None:
        if not probes:
            problem = "all its probes are user code, which plan does not call"
            raise UsageError(f"{store.path}: {problem}; use a run with another probe.")
        metric = f"energy/{probes[0]}"
    statistic, _, probe = metric.partition("/")
    if statistic not in components.STATISTICS or probe not in probes:
        names = ", ".join(components.STATISTICS)
        fix = f"use one of {names}, a slash and one of {', '.join(probes)}"
        raise UsageError(f"{store.path}: cannot plan for --metric {quoted(metric, 60)}; {fix}.")
    return metric, probe


@dataclass(frozen=True)
class _Page:
    """Inputs with the same numbers of texts."""

    groups: list[str]
    sizes: tuple[int, int]
    values: Floats
    parts: Parts


def _pages(store: Store, names: Sequence[str], probe: str, weights: Weights) -> Iterator[_Page]:
    scorer = Scorer.of({**store.manifest, "probes": [probe]}, (), store)
    walk = StoredTexts(store).walk()
    while chunk := list(islice(walk, CHUNK)):
        items = scorer.texts(chunk, names)
        for group in score_blocks(items, names, scorer.probes, {}).groups:
            n, *drawn = group.sizes
            m = min(drawn, default=0)
            if not weights.enough(n, m):
                continue
            systems = _systems(group, len(names), m)
            values = _difference([system.value(weights) for system in systems])
            rows = np.flatnonzero(np.isfinite(values))
            if len(rows):
                systems = [system.of(rows) for system in systems]
                groups = [chunk[row].item.group for row in group.rows[rows]]
                parts = parts_of(systems, weights)
                yield _Page(groups, (n, m), values[rows], parts)


def _difference(values: Sequence[Floats]) -> Floats:
    return values[0] - values[1] if len(values) == 2 else values[0]


def _systems(group: Group, n_systems: int, m: int) -> list[Distances]:
    """Return the distances of people and of each system's first `m` texts, by the only probe."""
    n = group.sizes[0]
    squares = [group.with_people(i)[0] for i in range(n_systems)] or [group.distances[0]]
    models = slice(n, n + m)
    return [Distances(d[:, :n, :n], d[:, models, models], d[:, models, :n]) for d in squares]
