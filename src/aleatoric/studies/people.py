"""TVD between people, and between people and a model, on the same random halves of the people.

The study `biased` compares a model's word probabilities with both halves (App. A, Table 2, Fig. 5).
The paper's biased estimator renormalizes a model's log-probabilities over a support: words that are
likely under the model, the original and all human words (`--estimator biased`, or recorded). A live
model with exact probabilities has no such bias: its mass on other words counts as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference import control
from aleatoric.inference.bootstrap import resample
from aleatoric.inference.control import Half
from aleatoric.inference.estimate import GroupSums, cut_at
from aleatoric.metrics.agreement import mode
from aleatoric.metrics.calibration import ece, equal_width_edges
from aleatoric.metrics.distances import tvd, tvd_of_counts
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.rules import bare
from aleatoric.result_types import Study, Table
from aleatoric.studies import TEXTS, notes_on
from aleatoric.studies.figure_data import TVD_EDGES, histograms
from aleatoric.types import Case, Categorical, Estimate, Floats, Interval

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
    table = sums.table
    interval = resample(
        table, lambda total: total[:, 0] / total[:, 1], seed, sizes=table[:, 1]
    ).interval
    return interval and cut_at(interval, float(np.mean(values)), 0.0, 1.0)


def interval_text(interval: Interval | None, form: str = ".3f") -> str:
    """`[low, high]`, or a dash if there is no interval."""
    return "–" if interval is None else f"[{interval.low:{form}}, {interval.high:{form}}]"


def with_interval(estimate: Estimate) -> str:
    """Return the value of an estimate with its interval, or a dash if it is undefined."""
    if estimate.value is None:
        return "–"
    ends = f" {interval_text(estimate.interval)}" if estimate.interval else ""
    return f"{estimate.value:.3f}{ends}"


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


class BestWords(NamedTuple):
    """Confidence and correctness of most probable words, (cases, splits); NaN if undefined."""

    confidence: Floats
    original: Floats
    human: Floats


def run(cases: Iterable[Case], seed: int) -> Study:
    """The study: TVD and ECE of the model and of both halves of the people, each to all people."""
    cases = list(cases)
    if not cases or any(case.pair.model.n is not None for case in cases):
        raise UsageError(
            "biased needs log-probabilities of words; this system has samples: use --estimator "
            "biased, or record rows with logprobs."
        )
    tvds = split_tvds(cases, seed)
    model = np.array([tvd(case.pair) for case in tvds.cases])
    is_biased = all(case.renormalised for case in cases)
    wording = TEXTS["biased"]["renormalized" if is_biased else "exact"]
    samples = {wording["row"]: model, "oracle 2": tvds.oracle_all.ravel()}
    picture = histograms(wording["title"], "TVD to all people", samples, TVD_EDGES)
    return Study("biased", (_table(tvds, model, seed, wording),), {"fig5_biased": picture})


def model_answers(cases: Sequence[Case]) -> BestWords:
    """The mode of each case's model, against the original word and the people's majority."""
    best = [[mode(case.pair.model)] for case in cases]
    confidence = np.array([max(case.pair.model.probs) for case in cases])[:, None]
    return BestWords(confidence, *_correct(cases, best))


def half_answers(cases: Sequence[Case], halves: Sequence[Half]) -> BestWords:
    """The majority of one half of the people in each case and split."""
    words = [list(human_counts(case.item.responses)) for case in cases]
    best = [[w[i] for i in half.majority] for w, half in zip(words, halves, strict=True)]
    confidence = np.array([half.counts.max(axis=1) / half.n for half in halves])
    return BestWords(confidence, *_correct(cases, best))


def _correct(cases: Sequence[Case], answers: list[list[str]]) -> tuple[Floats, Floats]:
    original, human = [], []
    for case, row in zip(cases, answers, strict=True):
        majority, target = mode(case.pair.human), bare(case.item.original or "")
        is_original = [float(target != "" and bare(answer) == target) for answer in row]
        original.append([np.nan] * len(row) if case.item.original is None else is_original)
        human.append([float(answer == majority) for answer in row])
    return np.array(original), np.array(human)


def _table(tvds: SplitTVDs, model: Floats, seed: int, wording: dict[str, str]) -> Table:
    halves = [halves_of(case, seed) for case in tvds.cases]
    interval = mean_interval(model, tvds.groups, seed)
    shown = f" {interval_text(interval)}" if interval else ""
    first = half_answers(tvds.cases, [half.target for half in halves])
    second = half_answers(tvds.cases, [half.player for half in halves])
    rows = (
        (wording["row"], f"{model.mean():.3f}{shown}", *_eces(model_answers(tvds.cases))),
        ("oracle 1", f"{_target_to_all(tvds).mean():.3f}", *_eces(first)),
        ("oracle 2", f"{tvds.oracle_all.mean():.3f}", *_eces(second)),
    )
    notes = (
        *notes_on("biased", n=len(tvds.cases), n_splits=tvds.oracle.shape[1]),
        wording["note"],
        *notes_on("oracles"),
        interval_note(interval),
    )
    columns = ("system", "TVD", "ECE original", "ECE human")
    return Table(wording["title"], columns, rows, notes)


def _target_to_all(tvds: SplitTVDs) -> Floats:
    """TVD of the target half to all people, a mixture of the halves along which TVD is linear."""
    n = np.array([len(case.item.responses) for case in tvds.cases])
    distance: Floats = tvds.oracle * ((n - n // 2) / n)[:, None]
    return distance


def _eces(answers: BestWords) -> Iterator[str]:
    """ECE against the original and against people, where defined, as means over splits."""
    for correct in (answers.original, answers.human):
        usable = np.isfinite(correct[:, 0])
        pairs = zip(answers.confidence[usable].T, correct[usable].T, strict=True)
        values = [ece(*pair, equal_width_edges()) for pair in pairs]
        defined = [value for value in values if value is not None]
        yield f"{np.mean(defined):.3f}" if defined else "–"
