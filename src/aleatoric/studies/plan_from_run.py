"""A saved run as a pilot for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference.noise import (
    Side,
    Sides,
    Size,
    VarianceParts,
    distance,
    side_variances,
    split_variance,
)
from aleatoric.inference.planning import Context, Crowding, Pilot, Sizes
from aleatoric.levels.base import level_of
from aleatoric.levels.word import cases, model_systems
from aleatoric.runs import Store
from aleatoric.studies.plan import Known
from aleatoric.types import Case, Categorical

_NO_SPREAD = 1e-12
MOST_OTHER_WORDS = 60
"""Of the words that only a model gives: the likeliest ones, which people might yet give."""


@dataclass(frozen=True)
class PilotSource:
    """A pilot run; `correlation` makes a difference between two systems of the one it has."""

    name: str
    pilot: Pilot
    correlation: float | None = None
    notes: tuple[str, ...] = ()
    split: VarianceParts | None = None
    """Where the noise of the pilot's own mean comes from."""

    @property
    def people(self) -> int:
        """The pilot's people a context."""
        return self.pilot.people

    @property
    def samples(self) -> Size:
        """The pilot's draws a context."""
        return self.pilot.samples

    @property
    def groups(self) -> int:
        """The pilot's groups."""
        return self.pilot.n_groups

    @property
    def crowding(self) -> Crowding:
        """How the pilot's contexts lie in groups."""
        return self.pilot.crowding

    def prepared(self, people: Sequence[int], samples: Sequence[Size]) -> Mapping[Sizes, Known]:
        """Variances at each pair of sizes, with the groups' sums behind them."""
        found = {}
        for (n, m), spread in self.pilot.spreads(people, samples).items():
            parts = spread.parts(spread.table.sum(axis=0))
            if self.correlation is not None:
                parts = parts.paired(self.correlation)
            how = (self.pilot.is_beyond(n, [m]), self.pilot.is_far(n))
            found[n, m] = Known(parts, spread, *how)
        return found


def pilot_source(
    store: Store,
    system: str | None,
    against: str | None,
    correlation: float | None,
    differs: bool,
    seed: int,
) -> PilotSource:
    """A run as a pilot: of one system's TVD, or of the difference of two where that `differs`."""
    if level_of(store).name != "word":
        raise UsageError(f"{store.path}: is no word-level run; plan needs one, or --assume.")
    names = _chosen(store, system, against, differs)
    if len(names) == 2 and correlation is not None:
        raise UsageError(
            f"{store.path}: has both systems, and so their correlation; leave out --correlation."
        )
    contexts = tuple(_contexts(store, names))
    _check(contexts, str(store.path))
    notes = [_EXPLAINED]
    if not differs or len(names) == 2:
        correlation = None
    elif correlation is None:
        correlation = 0.5
    if correlation is not None:
        notes.append(
            f"The second system of the difference is assumed: as noisy as {names[0]}, and "
            f"correlated with it at {correlation:g} over contexts and people."
        )
    label = f"{names[0]} − {names[1]}" if len(names) == 2 else names[0]
    name = f"TVD of {label} in {store.path.name}"
    split = None if len(names) == 2 else pilot_split(contexts)
    return PilotSource(name, Pilot(contexts, seed), correlation, tuple(notes), split)


def _check(contexts: Sequence[Context], run: str) -> None:
    """Refuse a pilot from which nothing can be learnt of how contexts differ."""
    if not contexts:
        raise UsageError(
            f"{run}: no context has two answers of people and draws of the model; use another "
            "pilot, or --assume."
        )
    if len({context.group for context in contexts}) < 2:
        raise UsageError(
            f"{run}: its contexts lie in one group, which says nothing of how groups differ; use a "
            "pilot of several groups, or --assume."
        )
    if np.ptp([distance(context.seen) for context in contexts]) < _NO_SPREAD:
        raise UsageError(
            f"{run}: all its contexts have the same value, which says nothing of how they differ; "
            "use another pilot, or --assume."
        )


def pilot_split(contexts: Sequence[Context]) -> VarianceParts | None:
    """Where the noise of the pilot's own mean TVD comes from: people, model samples, contexts."""
    people, model = np.array([side_variances(context.seen) for context in contexts]).T
    numbers = {group: i for i, group in enumerate(dict.fromkeys(c.group for c in contexts))}
    groups = np.array([numbers[context.group] for context in contexts])
    values = np.array([distance(context.seen) for context in contexts])
    return split_variance(values, groups, people, model)


_EXPLAINED = (
    "[low, high]: what the pilot's number of groups leaves open of the SE (95%). *: sizes are "
    "larger than the pilot's, and the SE is extrapolated; ≤: by far, and it is at most about this."
)


def _chosen(store: Store, system: str | None, against: str | None, differs: bool) -> list[str]:
    known = model_systems(store)
    for name in (system, against):
        if name is not None and name not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(f"{store.path}: has no model {name!r}; its models: {listed}.")
    if not known:
        raise UsageError(f"{store.path}: has no model to plan for; give one to word, or --assume.")
    if system is None and len(known) > 1 and not (differs and len(known) == 2):
        raise UsageError(f"{store.path}: name one system with --system: {', '.join(known)}.")
    first = system or known[0]
    if against is None and differs and len(known) == 2:
        against = next(name for name in known if name != first)
    return [first, against] if against is not None else [first]


def _contexts(store: Store, names: Sequence[str]) -> Iterator[Context]:
    """The contexts that every named system has answered, with at least two answers of people."""
    by_system = [
        {case.item.id: case for case in cases(store, name) if len(case.item.responses) >= 2}
        for name in names
    ]
    for item_id in by_system[0]:
        found = [own[item_id] for own in by_system if item_id in own]
        if len(found) == len(names):
            yield context_of(found)


def context_of(found: Sequence[Case]) -> Context:
    """One context of a pilot, with one system or two.

    >>> from aleatoric.types import Item, Pair
    >>> people, model = Categorical.from_counts({"a": 3, "b": 1}), Categorical(("a",), (1.0,))
    >>> case = Case(Item("1:2", "1", "There", ("a",) * 4), Pair("1:2", "1", people, model))
    >>> context_of([case]).truth.people.mass.tolist()
    [0.5625, 0.1875, 0.25]
    """
    pair = found[0].pair
    models = [case.pair.model for case in found]
    words = list(pair.human.support)
    seen = Sides(_side(pair.human, words), tuple(_side(model, words) for model in models))
    return Context(pair.item_id, pair.group, seen, _truth(pair.human, models))


def _side(distribution: Categorical, words: Sequence[str]) -> Side:
    shares = np.array([distribution.as_dict().get(word, 0.0) for word in words])
    n = distribution.n
    return Side(shares if n is None else np.rint(shares * n), n)


def _truth(people: Categorical, models: Sequence[Categorical]) -> Sides:
    """What is taken to lie behind a context: people may yet give words that nobody gave.

    As much as Good and Turing leave for them, on the models' words in the models' proportions; on
    a word of its own where the models have no others.
    """
    n = people.n or 1
    once = sum(round(p * n) == 1 for p in people.probs)
    unseen = min(once, n - 1) / n
    others = _other_words(people, models)
    mean = np.array(list(others.values())) if others else np.ones(1)
    words = [*people.support, *(others or ("\0other",))]
    shares = np.array([*people.probs]) * (1 - unseen)
    mass = np.concatenate([shares, unseen * mean / mean.sum()])
    known = [np.array([model.as_dict().get(word, 0.0) for word in words]) for model in models]
    return Sides(Side(mass, None), tuple(Side(own, None) for own in known))


def _other_words(people: Categorical, models: Sequence[Categorical]) -> dict[str, float]:
    """The likeliest words that only models give, with their probability summed over models."""
    own, found = people.as_dict(), dict[str, float]()
    for model in models:
        for word, p in model.as_dict().items():
            if word not in own and p > 0:
                found[word] = found.get(word, 0.0) + p
    likely = sorted(found, key=lambda word: (-found[word], word))[:MOST_OTHER_WORDS]
    return {word: found[word] for word in likely}
