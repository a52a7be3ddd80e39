"""A perfect model's scores on simulated truth lie between the floor's ends, near its estimate.

More families, sizes and items: `python -m benchmarks.floors`.
"""

from __future__ import annotations

import pytest

from benchmarks.floors import calibration, distances

N_ITEMS = 1000
"""An item's floor has a standard deviation of .18 at 20 people: the mean's noise must be small."""


@pytest.mark.parametrize("family", ["short", "long", "steep"])
@pytest.mark.parametrize(
    ("n_human", "n_model"), [(20, 20), (20, None), (40, 40), (40, 1000), (100, 1000)]
)
def test_the_floor_of_a_distance_is_where_a_perfect_model_stands(
    family: str, n_human: int, n_model: int | None
) -> None:
    for found in distances(family, n_human, n_model, N_ITEMS):
        assert found.low <= found.true <= found.high, found
        assert found.value == pytest.approx(found.true, abs=0.02), found


def test_the_floor_of_js_holds_for_huge_supports_and_an_exact_model() -> None:
    (js,) = (f for f in distances("huge", 20, None, 1000) if f.metric == "js")
    assert js.value == pytest.approx(js.true, abs=0.02), js


@pytest.mark.parametrize(("n_human", "n_model"), [(5, 10), (20, 10), (20, 1000), (40, 40)])
def test_the_floor_of_calibration_holds_where_contexts_of_a_passage_are_alike(
    n_human: int, n_model: int
) -> None:
    for one in calibration("passages", n_human, n_model, 3000):
        assert one.low <= one.true <= one.high, one
        if n_human >= 20:
            assert one.value == pytest.approx(one.true, abs=0.02), one


@pytest.mark.parametrize(
    ("family", "n_human", "n_model"), [("mixed", 20, 20), ("flat", 40, 40), ("short", 40, None)]
)
def test_the_floor_of_calibration_holds_where_first_choices_are_clear_and_where_they_are_not(
    family: str, n_human: int, n_model: int | None
) -> None:
    for one in calibration(family, n_human, n_model, 3000):
        assert one.low <= one.true <= one.high, one
        assert one.value == pytest.approx(one.true, abs=0.02), one


def test_the_floor_of_calibration_is_near_where_truths_are_of_no_known_kind() -> None:
    """Nearly even ones: halves of the people agree less often than those of any Zipf-like truth."""
    for one in calibration("even", 100, 1000, 3000):
        assert one.low <= one.true <= one.high, one
        assert one.value == pytest.approx(one.true, abs=0.03), one
