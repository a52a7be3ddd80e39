"""k% replacement: curve, test and criteria."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import ks_2samp

from aleatoric.errors import UsageError
from aleatoric.studies import replacement
from aleatoric.studies.figure_data import Panels
from aleatoric.studies.people import split_tvds
from aleatoric.types import Case


def test_curve_ends_at_model_and_people(flat_model: list[Case]) -> None:
    tvds = split_tvds(flat_model, seed=0)
    found = replacement.replace(tvds.model, tvds.oracle, tvds.groups, seed=0)
    first, last = found.points[0], found.points[-1]
    assert (first.k, last.k, len(found.points)) == (0.0, 1.0, 21)
    assert first.tvd == pytest.approx(tvds.model.mean())
    assert last.tvd == pytest.approx(tvds.oracle.mean())
    assert (last.ks, last.p) == (0.0, 1.0)
    assert first.ks == pytest.approx(
        np.mean(
            [ks_2samp(m, o).statistic for m, o in zip(tvds.model.T, tvds.oracle.T, strict=True)]
        )
    )


def test_distances_decrease_with_replaced_share(flat_model: list[Case]) -> None:
    tvds = split_tvds(flat_model, seed=0)
    found = replacement.replace(tvds.model, tvds.oracle, tvds.groups, seed=0)
    ks = [point.ks for point in found.points]
    assert all(before > after for before, after in pairwise(ks))
    for criterion in found.criteria:
        assert criterion.interval is not None
        assert 0.5 < criterion.interval.low <= criterion.k <= criterion.interval.high <= 1


def test_perfect_model_needs_no_replacement(perfect_model: list[Case]) -> None:
    tvds = split_tvds(perfect_model, seed=0)
    found = replacement.replace(tvds.model, tvds.oracle, tvds.groups, seed=0)
    significant = next(c for c in found.criteria if c.name == "not significant")
    assert significant.k < 0.1


def test_criterion_requires_all_larger_shares_to_pass() -> None:
    # Within the limit at 0.25, beyond it again at 0.5: only what stays within counts.
    distances = np.array([[0.3, 0.1, 0.2, 0.05, 0.0]])
    shares = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    assert replacement._smallest(distances, shares, 0.15).tolist() == [0.75]
    assert replacement._smallest(distances, shares, 0.5).tolist() == [0.0]


def test_one_group_has_no_interval(flat_model: list[Case]) -> None:
    tvds = split_tvds(flat_model[:10], seed=0)
    found = replacement.replace(tvds.model, tvds.oracle, tvds.groups, seed=0)
    assert all(criterion.interval is None for criterion in found.criteria)
    assert all(point.interval is None for point in found.points)


def test_study_has_tables_and_figure(flat_model: list[Case]) -> None:
    study = replacement.run(flat_model, seed=0)
    assert [len(table.rows) for table in study.tables] == [21, 2]
    assert all(len(row) == len(table.columns) for table in study.tables for row in table.rows)
    figure = study.figures["fig14_replacement"]
    assert isinstance(figure, Panels)
    assert study == replacement.run(flat_model, seed=0)


def test_no_usable_context_raises_one_line_error() -> None:
    with pytest.raises(UsageError, match="at least two answers"):
        replacement.run([], seed=0)
