"""Split TVDs compared with a naive implementation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from aleatoric.metrics.distances import tvd
from aleatoric.studies.people import halves_of, model_tvd, split_tvds
from aleatoric.types import Case, Categorical, Pair


def test_split_tvds_match_metric_on_each_split(flat_model: list[Case]) -> None:
    cases = flat_model[:20]
    found = split_tvds(cases, seed=3, n_splits=4)
    for i, case in enumerate(cases):
        halves, words = halves_of(case, 3, 4), case.pair.human.support
        for s in range(4):
            target, player = (
                Categorical(words, tuple(half.counts[s] / half.n))
                for half in (halves.target, halves.player)
            )
            everyone = case.pair.human
            assert found.model[i, s] == pytest.approx(tvd(Pair("", "", target, case.pair.model)))
            assert found.oracle[i, s] == pytest.approx(tvd(Pair("", "", target, player)))
            assert found.oracle_all[i, s] == pytest.approx(tvd(Pair("", "", everyone, player)))


def test_single_answer_cannot_be_split(make_case: Callable[..., Case]) -> None:
    model = Categorical.from_counts({"a": 3})
    cases = [make_case("1:1", {"a": 1}, model), make_case("1:2", {"a": 2}, model)]
    assert [case.item.id for case in split_tvds(cases, seed=0).cases] == ["1:2"]


def test_unassigned_mass_counts_as_disjoint() -> None:
    exact = Categorical(("a",), (0.25,), rest=0.75)
    assert model_tvd(exact, ["a"], np.array([[1.0]])).tolist() == [0.75]
