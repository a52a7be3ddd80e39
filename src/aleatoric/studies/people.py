"""People against people and against a model, on the same random halves: what the studies share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference import control
from aleatoric.inference.bootstrap import resample
from aleatoric.inference.estimate import GroupSums, cut_at
from aleatoric.metrics.distances import tvd_of_counts
from aleatoric.nextword.answers import human_counts
from aleatoric.types import Case, Categorical, Floats, Interval

N_SPLITS = 20


@dataclass(frozen=True)
class SplitTVDs:
    """TVDs of every case under every random split; all arrays are (cases, splits).

    One half of the people is the target (oracle 1), the other plays a model (oracle 2).
    """

    cases: tuple[Case, ...]
    model: Floats
    """The model against the target half."""
    oracle: Floats
    """The other half against the target half."""
    oracle_all: Floats
    """The other half against all people."""

    @property
    def groups(self) -> list[str]:
        """Each case's group, the unit of resampling."""
        return [case.pair.group for case in self.cases]


def split_tvds(cases: Iterable[Case], seed: int, n_splits: int = N_SPLITS) -> SplitTVDs:
    """The TVDs of all cases with at least two answers, on the splits that scoring uses.

    >>> from aleatoric.types import Item, Pair
    >>> people = Categorical.from_counts({"a": 2, "b": 2})
    >>> item = Item("1:2", "1", "There", ("a", "a", "b", "b"))
    >>> found = split_tvds([Case(item, Pair("1:2", "1", people, people))], seed=0, n_splits=3)
    >>> found.model.shape, found.oracle.shape
    ((1, 3), (1, 3))
    """
    usable = tuple(case for case in cases if len(case.item.responses) >= 2)
    if not usable:
        raise UsageError("this study needs a context with at least two answers; there is none.")
    found = np.array([_tvds(case, seed, n_splits) for case in usable])
    return SplitTVDs(usable, found[:, 0], found[:, 1], found[:, 2])


def halves_of(case: Case, seed: int, n_splits: int = N_SPLITS) -> control.Halves:
    """The random halves of a case's people, the same as in scoring."""
    counts = np.array(list(human_counts(case.item.responses).values()))
    codes = np.repeat(np.arange(len(counts)), counts)
    orders = control.independent_orders(len(codes), n_splits, seed, case.item.id)
    return control.split_halves(codes, orders)


def model_tvd(model: Categorical, words: Sequence[str], targets: Floats) -> Floats:
    """TVD of a model to target shares, a row each, that lie on `words` alone.

    Mass of the model outside those words, assigned or not, is disjoint from the targets.

    >>> model = Categorical(("a", "z"), (0.5, 0.25), rest=0.25)
    >>> model_tvd(model, ["a", "b"], np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.5, 0.5]
    """
    known = model.as_dict()
    own = np.array([known.get(word, 0.0) for word in words])
    outside = max(0.0, sum(model.probs) + model.rest - float(own.sum()))
    distance: Floats = (np.abs(targets - own).sum(axis=1) + outside) / 2
    return distance


def mean_interval(values: Floats, groups: Sequence[str], seed: int) -> Interval | None:
    """The interval over groups of a mean of values between 0 and 1; it ends at these bounds.

    >>> found = mean_interval(np.array([0.0, 1.0, 0.0, 1.0]), ["a", "a", "b", "c"], seed=0)
    >>> 0 <= found.low < 0.5 < found.high <= 1
    True
    """
    sums = GroupSums()
    sums.add(list(groups), np.column_stack([values, np.ones(len(values))]))
    found = resample(sums.table, lambda total: total[:, 0] / total[:, 1], seed).interval
    return found and cut_at(found, float(np.mean(values)), 0.0, 1.0)


def interval_note(interval: Interval | None) -> str:
    """The note of a table on its intervals.

    >>> interval_note(Interval(0.1, 0.2, 0.95, "group bootstrap, student"))
    '[low, high]: 95% interval, group bootstrap, student.'
    """
    if interval is None:
        return "No interval: it needs two groups whose values differ."
    return f"[low, high]: {interval.level:.0%} interval, {interval.method}."


def _tvds(case: Case, seed: int, n_splits: int) -> Floats:
    halves = halves_of(case, seed, n_splits)
    target, player = halves.target.counts, halves.player.counts
    words = list(human_counts(case.item.responses))
    model = model_tvd(case.pair.model, words, target / halves.target.n)
    oracle = tvd_of_counts(target, player)
    return np.array([model, oracle, tvd_of_counts(target + player, player)])
