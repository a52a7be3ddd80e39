"""Leave-one-participant-out jackknife compared with scoring again; two-way intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from aleatoric.inference.bootstrap import jackknife_error
from aleatoric.inference.estimate import GroupSums, Reduction, estimate
from aleatoric.inference.persons import (
    METHOD,
    METRICS,
    STATISTICS,
    PersonSums,
    changes_of_columns,
    changes_without_each,
    covering_persons,
    read_changes,
)
from aleatoric.metrics.agreement import Agreement, AgreementGap, Overlap, log_loss
from aleatoric.metrics.distances import tvd
from aleatoric.metrics.reduction import FiniteMean, Mean
from aleatoric.nextword.answers import human_counts
from aleatoric.types import Categorical, Floats, Pair

WORDS = "abcde"
Answers = dict[tuple[str, int], dict[str, str]]
"""(group, number of the item) -> person -> word."""
REDUCTIONS: dict[str, Reduction] = {
    "overlap": Overlap(),
    "agreement_gap": AgreementGap(),
    "log_loss": FiniteMean("log_loss", "confidence"),
    **{name: Mean(name) for name in ("sq_distance", "agreement_H", "agreement_C", "tvd")},
}


def scored(words: list[str], model: Categorical) -> dict[str, float | None]:
    pair = Pair("", "", Categorical.from_counts(human_counts(words)), model)
    agreement = Agreement.of(pair)
    assert agreement is not None
    return {
        **agreement.columns(),
        "log_loss": log_loss(pair.human, model),
        "tvd": tvd(pair),
        "confidence": 1.0,
    }


def random_model(rng: np.random.Generator) -> Categorical:
    return Categorical(tuple(WORDS), tuple(rng.dirichlet(np.ones(len(WORDS))).tolist()))


def random_panel(
    seed: int, share: float = 0.7, habit: float = 0.5
) -> tuple[Answers, dict[tuple[str, int], Categorical]]:
    """Seven groups of three items and nine people, each of whom answers some of the items."""
    rng = np.random.default_rng(seed)
    habits = rng.dirichlet(np.full(len(WORDS), habit), 9)
    answers: Answers = {}
    for group in "ABCDEFG":
        for item in range(3):
            asked = [p for p in range(9) if rng.random() < share or p < 4]
            answers[group, item] = {
                f"p{p}": str(rng.choice(list(WORDS), p=habits[p])) for p in asked
            }
    return answers, {key: random_model(rng) for key in answers}


def sums_of(
    answers: Answers, models: dict[tuple[str, int], Categorical], r: Reduction
) -> GroupSums:
    rows = [scored(list(own.values()), models[key]) for key, own in answers.items()]
    chunk = {name: np.array([[row[name]] for row in rows], dtype=np.float64) for name in rows[0]}
    sums = GroupSums()
    sums.add([group for group, _ in answers], r.columns(chunk))
    return sums


def changes_of(answers: Answers, models: dict[tuple[str, int], Categorical]) -> Floats:
    sums = PersonSums()
    for (group, item), own in answers.items():
        found = changes_without_each(list(own.values()), models[group, item].as_dict())
        sums.add("m", group, list(own), found)
    return read_changes(sums.facts()["m"])


def value_of(answers: Answers, models: dict[tuple[str, int], Categorical], r: Reduction) -> float:
    return float(r.values(sums_of(answers, models, r).table.sum(axis=0))[0])


@pytest.mark.parametrize("n", [3, 4, 10])
def test_leave_one_out_changes_match_rescoring(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        words, model = [str(w) for w in rng.choice(list(WORDS), n)], random_model(rng)
        whole = scored(words, model)
        without = [scored(words[:p] + words[p + 1 :], model) for p in range(n)]
        found = changes_without_each(words, model.as_dict())
        for column, name in enumerate(STATISTICS):
            expected = np.array([own[name] for own in without], dtype=np.float64)
            assert found[:, column] == pytest.approx(expected - expected.mean(), abs=1e-12)
            if name != "tvd":  # which is larger on average with fewer people
                assert found[:, column] == pytest.approx(expected - whole[name], abs=1e-12)


def test_value_undefined_without_participant_counts_as_unchanged() -> None:
    assert not changes_without_each(["a"], {"a": 1.0}).any()
    agreement, *others = changes_without_each(["a", "b"], {"a": 0.75, "b": 0.25}).T
    assert not agreement.any()
    assert all(own.any() for own in others)
    assert not changes_without_each(["a", "b", "b"], {"a": 1.0})[:, 2].any()  # infinite log loss
    assert not changes_without_each(["a", "b", "b"], {"a": 1.0}, False)[:, :2].any()
    assert not changes_without_each(["a", "b", "b"], None)[:, 1:].any()


def test_every_metric_is_covered_by_these_tests() -> None:
    assert REDUCTIONS.keys() == set(METRICS)


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "tvd"])
@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_values_match_rescoring(metric: str, seed: int) -> None:
    answers, models = random_panel(seed)
    r = REDUCTIONS[metric]
    total = sums_of(answers, models, r).table.sum(axis=0)
    columns = changes_of_columns(changes_of(answers, models), r)
    persons = list(dict.fromkeys(p for own in answers.values() for p in own))
    found = r.values(total + columns.sum(axis=0))[:, 0]
    expected = [
        value_of(
            {k: {p: w for p, w in own.items() if p != left} for k, own in answers.items()},
            models,
            r,
        )
        for left in persons
    ]
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["overlap", "sq_distance", "agreement_H", "log_loss"])
def test_variance_matches_naive_jackknife(metric: str) -> None:
    """Leave out each group, each participant, and each participant's answers within one group."""
    answers, models = random_panel(5, habit=0.05)
    models = dict.fromkeys(
        models, models["A", 0]
    )  # so that persons have the same effect everywhere
    r = REDUCTIONS[metric]
    centre = value_of(answers, models, r)
    persons, groups = {p for own in answers.values() for p in own}, {g for g, _ in answers}

    def without(drop_group: str | None, drop_person: str | None) -> float:
        left = {
            key: {
                p: w
                for p, w in own.items()
                if not (p == drop_person and drop_group in (None, key[0]))
            }
            for key, own in answers.items()
            if not (drop_person is None and key[0] == drop_group)
        }
        return value_of(left, models, r)

    over_groups = jackknife_error(np.array([without(g, None) for g in groups]))
    assert over_groups is not None
    over_persons = sum((without(None, p) - centre) ** 2 for p in persons)
    over_cells = sum((without(g, p) - centre) ** 2 for g in groups for p in persons)
    n = len(persons)
    shared = (n - 1) / n * (over_persons - over_cells)
    assert shared > 0
    sums = sums_of(answers, models, r)
    interval = covering_persons(estimate(sums, r, 0), sums, r, changes_of(answers, models)).interval
    assert interval is not None
    assert interval.method == METHOD
    reach = stats.t.ppf(0.975, min(len(groups), n) - 1) * math.sqrt(over_groups**2 + shared)
    # Skewness moves one end out and leaves the other.
    ends = centre - interval.low, interval.high - centre
    assert min(ends) == pytest.approx(reach, rel=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_nested_participants_do_not_change_group_interval(metric: str) -> None:
    answers, models = random_panel(2)
    answers = {k: {f"{k[0]}{p}": w for p, w in own.items()} for k, own in answers.items()}
    r = REDUCTIONS[metric]
    sums = sums_of(answers, models, r)
    groups = estimate(sums, r, 0)
    both = covering_persons(groups, sums, r, changes_of(answers, models))
    assert groups.interval is not None
    assert both.interval is not None
    assert both.interval.low == pytest.approx(groups.interval.low, abs=1e-12)
    assert both.interval.high == pytest.approx(groups.interval.high, abs=1e-12)


def test_two_way_interval_is_not_narrower_than_group_interval() -> None:
    for seed in range(20):
        answers, models = random_panel(seed, share=0.2)
        changes = changes_of(answers, models)
        for r in REDUCTIONS.values():
            sums = sums_of(answers, models, r)
            groups = estimate(sums, r, 0)
            both = covering_persons(groups, sums, r, changes).interval
            assert groups.interval is not None
            assert both is not None
            width = groups.interval.high - groups.interval.low
            assert both.high - both.low >= 0.9 * width  # the skewness may move an end less


def test_number_of_participant_units_is_bounded() -> None:
    sums = PersonSums()
    for item in range(300):
        persons = [f"{item}:{p}" for p in range(5)]
        sums.add("m", str(item % 7), persons, np.ones((5, len(STATISTICS))))
    cells = read_changes(sums.facts()["m"])
    assert cells.shape == (7, 1000, len(STATISTICS) + 1)
    assert cells.sum(axis=(0, 1)).tolist() == [1500.0] * 5


def test_no_interval_or_one_participant_leaves_estimate_unchanged() -> None:
    answers, models = random_panel(1)
    r = REDUCTIONS["tvd"]
    one_group = {key: own for key, own in answers.items() if key[0] == "A"}
    sums = sums_of(one_group, models, r)
    found = estimate(sums, r, 0)
    assert covering_persons(found, sums, r, changes_of(one_group, models)) == found
    alone = PersonSums()
    alone.add("m", "A", ["p1"], np.zeros((1, len(STATISTICS))))
    whole = sums_of(answers, models, r)
    found = estimate(whole, r, 0)
    assert covering_persons(found, whole, r, read_changes(alone.facts()["m"])) == found


def test_two_participants_are_sufficient() -> None:
    answers, models = random_panel(1)
    answers = {key: {p: own[p] for p in ("p0", "p1")} for key, own in answers.items()}
    r = REDUCTIONS["tvd"]
    sums = sums_of(answers, models, r)
    interval = covering_persons(estimate(sums, r, 0), sums, r, changes_of(answers, models)).interval
    assert interval is not None
    assert interval.method == METHOD
