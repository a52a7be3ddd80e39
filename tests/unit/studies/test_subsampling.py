"""Subsampling of model draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.studies import sample_size
from aleatoric.studies.figure_data import Histograms
from aleatoric.studies.people import halves_of, model_tvd
from aleatoric.types import Case, Categorical


def test_errors_decrease_with_sample_size(flat_model: list[Case]) -> None:
    errors = [sample_size.errors_at(size, flat_model, seed=0) for size in sample_size.SIZES]
    means = [error.mean for error in errors]
    assert means == sorted(means, reverse=True)
    # A small sample misses words that people gave: it looks worse than the model is.
    assert errors[0].bias > errors[-1].bias > 0


def test_full_sample_has_no_error(make_case: Callable[..., Case]) -> None:
    model = Categorical.from_counts({"a": 30, "b": 10, "z": 2})
    case = make_case("1:2", {"a": 5, "b": 3, "c": 2}, model)
    gaps = sample_size._gaps(case, 42, seed=0)
    assert gaps == pytest.approx(np.zeros_like(gaps))


def test_gaps_match_manual_subsamples(make_case: Callable[..., Case]) -> None:
    model = Categorical.from_counts({"z": 60, "a": 60})
    case = make_case("1:2", {"a": 4, "b": 4}, model)
    rng = sample_size.stream(0, "subsampling", 10, "1:2")
    shares = sample_size._subsamples(model, ["a", "b"], 10, rng)
    target = halves_of(case, 0).target
    goals = target.counts / target.n
    small = np.array(
        [
            model_tvd(Categorical(("a", "z"), (a, 1 - a)), ["a", "b"], goal[None, :])[0]
            for (a, _), goal in zip(shares, goals, strict=True)
        ]
    )
    expected = small - model_tvd(model, ["a", "b"], goals)
    assert sample_size._gaps(case, 10, seed=0) == pytest.approx(expected)


def test_subsamples_of_listed_words_match_subsamples_of_all_words() -> None:
    model = Categorical.from_counts({"z": 25, "a": 50, "y": 15, "b": 20, "x": 10})
    rng = np.random.default_rng(0)
    listed = [sample_size._subsamples(model, ["b", "c", "a"], 12, rng) for _ in range(500)]
    everything = rng.multivariate_hypergeometric([25, 50, 15, 20, 10], 12, 10_000) / 12
    found, expected = np.concatenate(listed), everything[:, [3, 1]]
    assert not found[:, 1].any()
    assert found[:, [0, 2]].mean(axis=0) == pytest.approx(expected.mean(axis=0), abs=0.005)
    assert np.cov(found[:, [0, 2]].T) == pytest.approx(np.cov(expected.T), abs=0.001)


def test_study_has_one_row_per_size_and_a_figure(flat_model: list[Case]) -> None:
    study = sample_size.subsampling(flat_model, seed=0)
    (table,) = study.tables
    assert [row[0] for row in table.rows] == ["10", "20", "40", "100"]
    figure = study.figures["fig11_subsampling"]
    assert isinstance(figure, Histograms)
    widths = np.diff(figure.edges)
    for heights in figure.heights.values():
        assert float(np.dot(heights, widths)) == pytest.approx(1.0)


def test_study_reports_number_of_contexts(
    flat_model: list[Case], perfect_model: list[Case]
) -> None:
    """Only contexts with enough draws are used; their number is reported."""
    (table,) = sample_size.subsampling(flat_model, seed=0).tables
    assert table.title == "Subsampling, all 200 contexts"
    error = sample_size.errors_at(10, flat_model, seed=0)
    assert table.rows[0][2] == f"{np.std(error.by_case, ddof=1):.5f}"
    (one,) = sample_size.subsampling([*flat_model[:1], *perfect_model], seed=0).tables
    assert one.title == "Subsampling, 1 of 201 contexts"
    assert one.rows[0][2:4] == ("–", "–")
    assert any("says nothing about the corpus" in note for note in one.notes)


def test_small_or_exact_systems_are_rejected(perfect_model: list[Case]) -> None:
    with pytest.raises(UsageError, match="more than 100 draws"):
        sample_size.subsampling(perfect_model, seed=0)
