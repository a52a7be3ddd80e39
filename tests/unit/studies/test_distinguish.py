"""The study of which contexts distinguish a model from people."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aleatoric.data.simulated import truth
from aleatoric.errors import UsageError
from aleatoric.studies import distinguish
from aleatoric.types import Case, Categorical, Pair


def share(found: distinguish.Distinguished) -> float:
    return found.share(found.adjusted, seed=0)[0]


@pytest.mark.long
def test_flat_model_is_distinguished_and_perfect_model_is_not(
    flat_model: list[Case], perfect_model: list[Case]
) -> None:
    assert share(distinguish.distinguish(flat_model, seed=0)) > 0.3
    assert share(distinguish.distinguish(perfect_model, seed=0)) <= 0.01
    assert share(distinguish.distinguish_people(flat_model, seed=0)) <= 0.01


def test_exact_probabilities_are_tested_by_sampling(flat_model: list[Case]) -> None:
    def exact(case: Case, temperature: float) -> Case:
        pair = case.pair
        model = truth(case.item.context, temperature)
        return Case(case.item, Pair(pair.item_id, pair.group, pair.human, model))

    right = distinguish.distinguish([exact(case, 1.0) for case in flat_model], seed=0)
    wrong = distinguish.distinguish([exact(case, 4.0) for case in flat_model], seed=0)
    assert share(right) <= 0.01
    assert share(wrong) > 0.3
    assert not any(test.exact for test in right.tests if test)


def test_test_does_not_depend_on_the_other_cases(flat_model: list[Case]) -> None:
    together = distinguish.distinguish(flat_model[:20], seed=0).p_values
    backwards = distinguish.distinguish(flat_model[19::-1], seed=0).p_values
    assert together == backwards[::-1]


def test_study_has_control_interval_and_figure(flat_model: list[Case]) -> None:
    study = distinguish.run(flat_model, seed=0)
    table, farthest = study.tables
    assert [row[0] for row in table.rows] == ["model", "people, half v half"]
    assert "[" in table.rows[0][2]
    assert len(farthest.rows) == distinguish.N_SHOWN
    assert "distinguish_p_values" in study.figures


def test_no_interval_if_all_contexts_agree(make_case: Callable[..., Case]) -> None:
    model = Categorical.from_counts({"a": 4})
    found = distinguish.distinguish([make_case("1:2", {"a": 3}, model)] * 2, seed=0)
    assert found.p_values == [1.0, 1.0]
    assert found.share(found.adjusted, seed=0)[1] is None


def test_single_participant_gives_no_control(make_case: Callable[..., Case]) -> None:
    case = make_case("1:2", {"a": 1}, Categorical.from_counts({"b": 4}))
    study = distinguish.run([case], seed=0)
    assert [row[0] for row in study.tables[0].rows] == ["model"]
    with pytest.raises(UsageError, match="there is none"):
        distinguish.run([], seed=0)
