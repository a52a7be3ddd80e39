"""TVD between people, and between people and a model, on the same random halves of the people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    """(cases, splits) TVDs; one half of the people is the target, the other plays the model."""

    cases: tuple[Case, ...]
    model: Floats
    """The model against the target half."""
    oracle: Floats
    """The other half against the target half."""
    oracle_all: Floats
    """The other half against all people."""

    @property
    def groups(self) -> list[str]:
        """The group of each case, the unit of resampling."""
        return [case.pair.group for case in self.cases]


def split_tvds(cases: Iterable[Case], seed: int, n_splits: int = N_SPLITS) -> SplitTVDs:
    """The TVDs of all cases with at least two answers, on the splits that scoring uses."""
    if not (usable := tuple(case for case in cases if len(case.item.responses) >= 2)):
        raise UsageError("this study needs a context with at least two answers; there is none.")
    tvds = np.array([_tvds(case, seed, n_splits) for case in usable])
    return SplitTVDs(usable, tvds[:, 0], tvds[:, 1], tvds[:, 2])


def halves_of(case: Case, seed: int, n_splits: int = N_SPLITS) -> control.Halves:
    """The random halves of a case's people, the same as in scoring."""
    return words_and_halves(case.item.id, case.item.responses, seed, n_splits)[1]


@lru_cache(maxsize=4096)  # the studies of all systems split the same people
def words_and_halves(
    item_id: str, responses: tuple[str, ...], seed: int, n_splits: int = N_SPLITS
) -> tuple[list[str], control.Halves]:
    """People's words, in the order of their counts in the halves, and the random halves."""
    by_word = human_counts(responses)
    codes = np.repeat(np.arange(len(by_word)), np.array(list(by_word.values())))
    orders = control.independent_orders(len(codes), n_splits, seed, item_id)
    return list(by_word), control.split_all([codes], [orders])


def model_tvd(model: Categorical, words: Iterable[str], targets: Floats) -> Floats:
    """TVD of a model to each row of `targets`, shares of `words`; its other mass is disjoint."""
    shares = np.array([model.as_dict().get(word, 0.0) for word in words])
    outside = max(0.0, sum(model.probs) + model.rest - float(shares.sum()))
    distance: Floats = (np.abs(targets - shares).sum(axis=1) + outside) / 2
    return distance


def mean_interval(values: Floats, groups: Sequence[str], seed: int) -> Interval | None:
    """The group-bootstrap interval of a mean of values in [0, 1], cut at these bounds."""
    sums = GroupSums()
    sums.add(list(groups), np.column_stack([values, np.ones(len(values))]))
    interval = resample(sums.table, lambda total: total[:, 0] / total[:, 1], seed).interval
    return interval and cut_at(interval, float(np.mean(values)), 0.0, 1.0)


def interval_text(interval: Interval | None, form: str = ".3f") -> str:
    """`[low, high]`, or a dash if there is no interval."""
    return "–" if interval is None else f"[{interval.low:{form}}, {interval.high:{form}}]"


def interval_note(interval: Interval | None) -> str:
    """The note of a table about its intervals."""
    if interval is None:
        return "No interval: it needs two groups whose values differ."
    return f"[low, high]: {interval.level:.0%} interval, {interval.method}."


def _tvds(case: Case, seed: int, n_splits: int) -> Floats:
    words, halves = words_and_halves(case.item.id, case.item.responses, seed, n_splits)
    model = model_tvd(case.pair.model, words, halves.target.counts / halves.target.n)
    return np.array([model, *_oracle_tvds(case.item.id, case.item.responses, seed, n_splits)])


@lru_cache(maxsize=4096)  # as above
def _oracle_tvds(
    item_id: str, responses: tuple[str, ...], seed: int, n_splits: int
) -> tuple[Floats, Floats]:
    """The TVDs of one half of the people to the other half, and to all people."""
    halves = words_and_halves(item_id, responses, seed, n_splits)[1]
    target, player = halves.target.counts, halves.player.counts
    return tvd_of_counts(target, player), tvd_of_counts(target + player, player)
