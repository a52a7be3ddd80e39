"""Plan from a pilot: the variances of a saved run of words or of texts.

Values of texts are unbiased for any numbers of texts, so only their noise depends on these numbers:
nothing is extrapolated from samples of other sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.inference import components, noise
from aleatoric.inference.components import Parts, ShapedDistances, Weights, parts_of
from aleatoric.inference.noise import Side, Sides, Size, VarianceParts, split_variance
from aleatoric.inference.planning import (
    Context,
    Crowding,
    Design,
    Pilot,
    PilotSpread,
    Sizes,
    Variances,
    between_and_within,
    group_columns,
)
from aleatoric.levels.base import NAMED, level_of, unfinished_notes
from aleatoric.levels.text import Text
from aleatoric.levels.text_scoring import CHUNK, PERSONS_KEY, Scorer
from aleatoric.levels.text_variability import Group, score_blocks
from aleatoric.levels.word import NextWords, cases, model_systems
from aleatoric.levels.word_results import has_persons
from aleatoric.probes.base import is_code
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.studies import notes_on
from aleatoric.studies.plan import Known, PlanSource, around
from aleatoric.types import Case, Categorical, Floats, Ints

_NO_SPREAD = 1e-12
ENOUGH = "two answers of people and draws of the model"
"""What a context must have."""
_Page = tuple[list[str], Ints, Floats, Parts]
"""Groups of some inputs, their numbers of texts on both sides, their values and their parts."""


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

    @property
    def design(self) -> Design:
        """The pilot's own sizes."""
        groups = np.bincount(self.groups)
        n, m = np.median(self.sizes, axis=0).astype(int).tolist()
        return Design(n, m, len(groups), Crowding.of(groups))

    def spreads(
        self, people: Sequence[int], samples: Sequence[Size]
    ) -> Mapping[Sizes, PilotSpread]:
        """The spread of values at every pair of sizes, on which only their noise depends."""
        table, spreads = self.table, dict[Sizes, PilotSpread]()
        within = float(between_and_within(table.sum(axis=0))[1])
        contexts = max(0.0, within - float(sum(part.mean() for part in self.own_noise())))
        for n, m in product(people, samples):
            if m is None:
                raise UsageError("--samples exact: texts are always drawn; give numbers of texts.")
            parts = (self.parts.people(n).mean(), self.parts.draws(n, m).mean())
            noises = [max(0.0, float(part)) for part in parts]
            scale = (contexts + sum(noises)) / within if within else 1.0
            spreads[n, m] = PilotSpread(table, 1.0, scale, *noises)
        return spreads

    def extrapolates(self, people: int, samples: Size) -> tuple[bool, bool]:
        """Never: values are unbiased for any numbers of texts."""
        return False, False

    def split(self) -> VarianceParts | None:
        """The noise of the pilot's own mean by source."""
        return split_variance(self.values, self.groups, *self.own_noise())


def text_pilot(store: Store, names: Sequence[str], metric: str | None) -> TextPilot:
    """Return the values and noise of a metric for one system, or for a difference of two."""
    metric, probe = _checked_metric(store, metric)
    weights = Weights.of(metric.partition("/")[0])
    needed = "4 texts" if weights.human or weights.model else "2 texts"
    enough = f"{needed} on each side that {metric} compares, all with distances"
    pages = list(_pages(store, names, probe, weights))
    if not pages:
        problem = f"no input has {enough}"
        raise UsageError(f"{store.path}: {problem}; plan from a run with more texts per input.")
    names_of, sizes, values_of, parts = zip(*pages, strict=True)
    groups = np.unique(np.concatenate(names_of), return_inverse=True)[1]
    values = np.concatenate(values_of)
    kept = _kept("inputs", enough, len(values), store.n_items)
    check_spread(str(store.path), "inputs", groups.tolist(), values.tolist(), kept)
    n_left_out = store.n_items - len(values)
    return TextPilot(metric, values, Parts.joined(parts), np.concatenate(sizes), groups, n_left_out)


def text_source(
    name: str, pilot: TextPilot, correlation: float | None, notes: tuple[str, ...]
) -> PlanSource:
    """The variances of a pilot of texts; only sizes that change them are tried by default."""
    n, m = np.median(pilot.sizes, axis=0).astype(int).tolist()
    by_people, by_draws = (part.any() for part in pilot.own_noise())
    tried = around(n) if by_people else (n,), around(m) if by_draws else (m,)
    source = source_of(name, pilot, correlation, (*_notes(pilot), *notes), pilot.split(), *tried)
    used = len(pilot.values)
    return replace(source, subset=_subset("inputs", used, used + pilot.n_left_out))


def _notes(pilot: TextPilot) -> Iterator[str]:
    yield from notes_on("plan_texts")
    if pilot.n_left_out:
        n, total = pilot.n_left_out, pilot.n_left_out + len(pilot.values)
        yield f"{n} of {total} inputs have too few texts, or pairs without a distance: left out."


def _kept(items: str, enough: str, n: int, total: int) -> str:
    """Say how few items have what the plan needs; empty if all have it."""
    return (
        "" if n == total else f"only {n} of {total} {items} {'has' if n == 1 else 'have'} {enough}"
    )


def _subset(items: str, n: int, total: int) -> str:
    return "" if n == total else f" over the {n} of {total} {items} that the plan uses"


def check_spread(
    run: str, items: str, groups: Sequence[object], values: Sequence[float], kept: str = ""
) -> None:
    """Refuse a pilot that says nothing about how items or their groups differ.

    `kept` says how many items are left if some lack what the plan needs.
    """
    if len(set(groups)) < 2:
        problem = f"its {items} are in one group"
        if kept:
            problem = f"{kept}, all in one group" if len(groups) > 1 else kept
        raise UsageError(
            f"{run}: {problem}, which says nothing about how groups differ; use a pilot "
            f"{f'with such {items} in' if kept else 'of'} several groups, or --assume."
        )
    if np.ptp(values) < _NO_SPREAD:
        problem = f"{kept}, and all of these" if kept else f"all its {items}"
        raise UsageError(
            f"{run}: {problem} have the same value, which says nothing about how they "
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


def _pages(store: Store, names: Sequence[str], probe: str, weights: Weights) -> Iterator[_Page]:
    """Yield inputs with the same numbers of texts, as `_Page`."""
    scorer = Scorer.of({**store.manifest, "probes": [probe]}, (), store)
    walk = StoredTexts(store).walk()
    while chunk := list(islice(walk, CHUNK)):
        for group in score_blocks(scorer.texts(chunk, names), names, scorer.probes, {}).groups:
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
                yield groups, np.tile((n, m), (len(rows), 1)), values[rows], parts


def _difference(values: Sequence[Floats]) -> Floats:
    return values[0] - values[1] if len(values) == 2 else values[0]


def _systems(group: Group, n_systems: int, m: int) -> list[ShapedDistances]:
    """Return the distances of people and of each system's first `m` texts, by the only probe."""
    n = group.sizes[0]
    squares = [group.with_people(i)[0] for i in range(n_systems)] or [group.distances[0]]
    models = slice(n, n + m)
    return [ShapedDistances(d[:, :n, :n], d[:, models, models], d[:, models, :n]) for d in squares]


MOST_OTHER_WORDS = 60
"""The number of likely words that only a model gives and that people might give."""


def source_of(
    name: str,
    pilot: Pilot | TextPilot,
    correlation: float | None = None,
    notes: tuple[str, ...] = (),
    split: VarianceParts | None = None,
    people: tuple[int, ...] = (),
    samples: tuple[Size, ...] = (),
) -> PlanSource:
    """The variances of a pilot; with a `correlation`, of its difference to an assumed system."""

    def known(people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Known]:
        return {
            (n, m): Known(_parts(spread, correlation), spread, *pilot.extrapolates(n, m))
            for (n, m), spread in pilot.spreads(people, samples).items()
        }

    return PlanSource(name, pilot.design, known, notes, split, people, samples)


def _parts(spread: PilotSpread, correlation: float | None) -> Variances:
    parts = spread.parts(spread.table.sum(axis=0))
    return parts if correlation is None else parts.paired(correlation)


def pilot_source(
    store: Store,
    system: str | None,
    against: str | None,
    correlation: float | None,
    differs: bool,
    seed: int,
    metric: str | None = None,
) -> PlanSource:
    """A run as a pilot: for one system's metric, or for a difference of two if `differs`.

    The metric of words is TVD; that of texts is one of `inference.components.STATISTICS`.
    """
    level = level_of(store)
    if not isinstance(level, NextWords | Text):
        problem = "is not a run of words or texts"
        raise UsageError(f"{store.path}: {problem}; plan needs one, or --assume.")
    if isinstance(level, NextWords) and metric not in (None, "tvd"):
        raise UsageError(f"{store.path}: plan is for tvd at this level; leave out --metric.")
    if of_people := (metric or "").startswith("mean_H/"):
        _check_no_system(metric or "", system, against, differs)
    names = [] if of_people else _chosen(store, system, against, differs)
    if len(names) == 2 and correlation is not None:
        raise UsageError(
            f"{store.path}: has both systems, and so their correlation; leave out --correlation."
        )
    knows_persons = has_persons(store) or store.meta(PERSONS_KEY)
    notes = [*(notes_on("plan_persons") if knows_persons else ()), *unfinished_notes(store)]
    assumes_second = differs and len(names) == 1
    correlation = (0.5 if correlation is None else correlation) if assumes_second else None
    if assumes_second:
        items = "contexts" if isinstance(level, NextWords) else "inputs"
        assumed = {"first": names[0], "correlation": correlation, "items": items}
        notes += notes_on("assumed_second", **assumed)
    label = f"{' − '.join(names) or 'people'} in {store.path.name}"
    if isinstance(level, Text):
        pilot = text_pilot(store, names, metric)
        return text_source(f"{pilot.metric} of {label}", pilot, correlation, tuple(notes))
    contexts = tuple(_contexts(store, names))
    _check(contexts, store)
    if n_left_out := store.n_items - len(contexts):
        notes.append(f"{n_left_out} of {store.n_items} contexts do not have {ENOUGH}: left out.")
    split = None if len(names) == 2 else _split(contexts)
    explained = (*notes_on("plan_words"), *notes)
    source = source_of(f"TVD of {label}", Pilot(contexts, seed), correlation, explained, split)
    return replace(source, subset=_subset("contexts", len(contexts), store.n_items))


def _check(contexts: Sequence[Context], store: Store) -> None:
    """Refuse a pilot that says nothing about how contexts differ."""
    if not contexts:
        problem = f"{store.path}: no context has {ENOUGH}"
        raise UsageError(f"{problem}; use another pilot, or --assume.")
    values = [noise.distance(context.seen) for context in contexts]
    kept = _kept("contexts", ENOUGH, len(contexts), store.n_items)
    check_spread(str(store.path), "contexts", [c.group for c in contexts], values, kept)


def _split(contexts: Sequence[Context]) -> VarianceParts | None:
    """The noise of the pilot's own mean TVD by source: people, model samples, contexts."""
    people, model = np.array([noise.side_variances(context.seen) for context in contexts]).T
    numbers = {group: i for i, group in enumerate(dict.fromkeys(c.group for c in contexts))}
    groups = np.array([numbers[context.group] for context in contexts])
    distances = np.array([noise.distance(context.seen) for context in contexts])
    return noise.split_variance(distances, groups, people, model)


def _check_no_system(metric: str, system: str | None, against: str | None, differs: bool) -> None:
    if differs or system is not None or against is not None:
        problem = f"--metric {metric} is of people alone"
        raise UsageError(f"{problem}; leave out --system, --against and --difference.")


def _chosen(store: Store, system: str | None, against: str | None, differs: bool) -> list[str]:
    models = model_systems(store)
    for name in (system, against):
        if name is not None and name not in models:
            listed = ", ".join(models) or "none"
            raise UsageError(f"{store.path}: has no model {name!r}; its models: {listed}.")
    if not models:
        of_people = ", or use --metric mean_H/PROBE" if isinstance(level_of(store), Text) else ""
        fix = f"give one to aleatoric {level_of(store).name}{of_people}, or --assume"
        raise UsageError(f"{store.path}: has no model to plan for; {fix}.")
    if system is None and len(models) > 1 and not (differs and len(models) == 2):
        raise UsageError(f"{store.path}: name one system with {NAMED}: {', '.join(models)}.")
    first = system or models[0]
    if against is None and differs and len(models) == 2:
        against = next(name for name in models if name != first)
    return [first, against] if against is not None else [first]


def _contexts(store: Store, names: Sequence[str]) -> Iterator[Context]:
    """The contexts that every named system has answered, with at least two answers of people."""
    by_system = [
        {case.item.id: case for case in cases(store, name) if len(case.item.responses) >= 2}
        for name in names
    ]
    for item_id in by_system[0]:
        answered = [by_id[item_id] for by_id in by_system if item_id in by_id]
        if len(answered) == len(names):
            yield context_of(answered)


def context_of(answered: Sequence[Case]) -> Context:
    """One context of a pilot, with one system or two."""
    pair = answered[0].pair
    models = [case.pair.model for case in answered]
    human, *rest = (Side.of(side, pair.human.support) for side in (pair.human, *models))
    return Context(pair.item_id, pair.group, Sides(human, tuple(rest)), _truth(pair.human, models))


def _truth(people: Categorical, models: Sequence[Categorical]) -> Sides:
    """The assumed true distributions of a context, in which people may give unseen words.

    Their mass is the Good-Turing estimate, spread over the models' other words in the models'
    proportions, or put on a word of its own if the models have no others.
    """
    n = people.n or 1
    unseen = min(sum(round(p * n) == 1 for p in people.probs), n - 1) / n
    others = _other_words(people, models)
    mean = np.array(list(others.values())) if others else np.ones(1)
    words = [*people.support, *(others or ("\0other",))]
    shares = np.array([*people.probs]) * (1 - unseen)
    mass = np.concatenate([shares, unseen * mean / mean.sum()])
    shares_of = [np.array([model.as_dict().get(word, 0.0) for word in words]) for model in models]
    return Sides(Side(mass, None), tuple(Side(probs, None) for probs in shares_of))


def _other_words(people: Categorical, models: Sequence[Categorical]) -> dict[str, float]:
    """The most likely words that only models give, with their probability summed over models."""
    human, totals = people.as_dict(), dict[str, float]()
    for model in models:
        for word, p in model.as_dict().items():
            if word not in human and p > 0:
                totals[word] = totals.get(word, 0.0) + p
    return dict(sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_OTHER_WORDS])
