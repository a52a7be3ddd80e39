"""The sentences below comparisons and tables of systems."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aleatoric.inference.estimate import bounded
from aleatoric.inference.paired import IDENTICAL, Paired, PermutationTest
from aleatoric.reporting.comparisons import summary
from aleatoric.reporting.views import view_of
from aleatoric.reporting.words import closest
from aleatoric.result_types import Result
from aleatoric.studies.compare import Compared, Comparison, is_dependent
from aleatoric.studies.compare_statistics import order_of
from aleatoric.types import Estimate, Interval, Signature


def pair(metric: str, first: str, second: str, value: float, p: float | None) -> Comparison:
    interval = Interval(value - 0.01, value + 0.01, 0.95, "t") if p is not None else None
    test = PermutationTest(p, 9999, False) if p is not None else None
    return Comparison(metric, first, second, Paired(Estimate(value, interval, 9, 9), test, None), p)


def said(*pairs: Comparison, dependent: Mapping[str, tuple[str, ...]] | None = None) -> str:
    metric = pairs[0].metric
    order = {metric: order_of(metric, pairs)}
    compared = Compared(pairs, {}, {}, order, {}, 0.05, (), dependent=dependent or {})
    return " ".join(summary(compared))


def test_the_best_of_two_by_a_metric_that_is_higher_if_better() -> None:
    for first, second, value in (("a", "b", 0.07), ("b", "a", -0.07)):
        assert said(pair("overlap", first, second, value, 0.0001)) == (
            "a has the highest overlap: 0.070 [0.060, 0.080] higher than b (adjusted p < .001)."
        )


def test_the_best_of_two_by_a_metric_that_is_lower_if_better() -> None:
    for first, second, value in (("a", "b", -0.07), ("b", "a", 0.07)):
        assert said(pair("sq_distance", first, second, value, 0.012)) == (
            "a has the lowest sq_distance: 0.070 [0.060, 0.080] lower than b (adjusted p = .012)."
        )


def test_nothing_is_significant() -> None:
    two = pair("overlap", "a", "b", 0.07, 0.3)
    assert said(two) == "The difference in overlap is not significant at 0.05 (adjusted p = .300)."
    three = (pair("overlap", "a", "c", 0.08, 0.2), pair("overlap", "b", "c", 0.01, 0.9))
    assert said(two, *three) == (
        "No difference in overlap is significant at 0.05 (smallest adjusted p = .200)."
    )


def test_the_first_two_of_three_do_not_differ() -> None:
    pairs = (
        pair("overlap", "a", "b", 0.01, 0.3),
        pair("overlap", "a", "c", 0.2, 0.001),
        pair("overlap", "b", "c", 0.19, 0.001),
    )
    assert said(*pairs) == (
        "a has the highest overlap, but does not differ significantly from b: "
        "0.010 [0.000, 0.020] higher than b (adjusted p = .300)."
    )
    assert said(*(pair("overlap", c.first, c.second, c.value or 0, 0.001) for c in pairs)) == (
        "a has the highest overlap: 0.010 [0.000, 0.020] higher than b, the next best "
        "(adjusted p = .001)."
    )


def test_without_a_test_the_order_is_not_certain() -> None:
    assert said(pair("overlap", "a", "b", 0.07, None)) == (
        "a has the highest overlap, but no test is possible, so that the order is not certain."
    )


def test_equal_systems_are_not_ranked() -> None:
    equal = Paired(Estimate(0.0, None, 9, 9), None, None, IDENTICAL)
    assert said(Comparison("e_ece", "a", "b", equal)) == "a and b have the same values of e_ece."


def test_equal_systems_at_the_top_are_named_together() -> None:
    equal = Paired(Estimate(0.0, None, 9, 9), None, None, IDENTICAL)
    for metric, value, which in (("overlap", 0.2, "higher"), ("energy/lexical-1", -0.2, "lower")):
        pairs = (
            Comparison(metric, "a", "b", equal),
            pair(metric, "a", "c", value, 0.001),
            pair(metric, "b", "c", value, 0.001),
        )
        assert said(*pairs) == f"a and b have the same {metric} on all items; no other is {which}."


def test_metric_that_was_not_asked_for_and_does_not_lead_names_no_best_system() -> None:
    pairs = (pair("tvd", "a", "b", -0.07, 0.001),)
    order = {"tvd": order_of("tvd", pairs)}
    assert [*summary(Compared(pairs, {}, {}, order, {}, 0.05, (), secondary=("tvd",)))] == []


@pytest.mark.parametrize("metric", ["agreement_M", "dmu_M/lexical-1"])
def test_a_metric_without_a_direction_ranks_nothing(metric: str) -> None:
    assert said(pair(metric, "a", "b", 0.07, 0.001)) == ""


def test_systems_that_depend_on_the_people_are_not_ranked() -> None:
    pairs = (
        pair("overlap", "a", "b", 0.1, 0.001),
        pair("overlap", "a", "c", 0.2, 0.001),
        pair("overlap", "b", "c", 0.1, 0.001),
    )
    assert said(*pairs, dependent={"overlap": ("a",)}) == (
        "Not ranked by overlap, because the answers seem to depend on people's: a. b has the "
        "highest overlap: 0.100 [0.090, 0.110] higher than c (adjusted p = .001)."
    )


def test_energy_below_0_excludes_a_system_from_that_energy_only() -> None:
    found = {"energy/length": ("a",), "overlap": ()}
    compared = Compared((), {}, {}, {}, {}, 0.05, (), dependent=found)
    assert compared.not_ranked("energy/length") == ("a",)
    assert compared.not_ranked("energy/lexical-1") == compared.not_ranked("tvd") == ()


def test_one_of_many_energies_below_0_is_no_sign_of_dependence() -> None:
    estimate = Estimate(-0.1, Interval(-0.19, -0.01, 0.95, "t"), 30, 30)
    result = Result("a", "energy/length", SIGNATURE, estimate)
    assert is_dependent(result)
    assert not is_dependent(result, n_tests=20)


@pytest.mark.parametrize(("low", "is_called"), [(0.99, False), (1.004, False), (1.05, True)])
def test_an_overlap_slightly_above_1_is_no_sign_of_dependence(low: float, is_called: bool) -> None:
    """A few percent of perfect models have a 95% interval above 1 by chance."""
    estimate = Estimate(1.1, Interval(low, 1.2, 0.95, "t"), 300, 60)
    assert is_dependent(Result("half", "overlap", SIGNATURE, estimate)) == is_called


SIGNATURE = Signature("c", "0" * 64, "m", "none", "recorded", {}, "5", 0, "overlap", "1")


def overlaps(**values: float) -> dict[str, Result]:
    estimates = {name: Estimate(value, None, 9, 9) for name, value in values.items()}
    return {name: Result(name, "overlap", SIGNATURE, e) for name, e in estimates.items()}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": 0.9, "b": 0.8}, "a has the highest overlap with people (0.900 of 1)"),
        ({"a": 0.9, "b": 0.9}, "a and b have the same overlap with people (0.900 of 1)"),
        ({"a": 0.1 + 0.2, "b": 0.3}, "a and b have the same overlap with people (0.300 of 1)"),
        (
            {"a": 0.9, "b": 0.8, "c": 0.9},
            "a and c have the highest overlap with people (0.900 of 1)",
        ),
    ],
)
def test_without_a_comparison_the_highest_overlap_is_named(
    values: dict[str, float], expected: str
) -> None:
    tests = "; aleatoric compare tests the differences between systems."
    assert closest(overlaps(**values), None) == f"{expected}{tests}"


def test_equal_overlaps_are_not_ranked_by_a_comparison() -> None:
    values, letters = {"overlap": {"a": 0.9, "b": 0.9}}, {"overlap": {"a": "a", "b": "a"}}
    compared = Compared((), values, {"overlap": 9}, {"overlap": ("a", "b")}, letters, 0.05, ())
    said = closest(overlaps(a=0.9, b=0.9), compared)
    assert said == "a and b have the same overlap with people (0.900 of 1)."


@pytest.mark.parametrize(
    ("high", "shown"), [(3.05, "3.025"), (3.6, "3.000–3.600"), (4.5, "–"), (None, "–")]
)
def test_log_loss_is_a_range_where_its_bounds_are_far_apart(high: float | None, shown: str) -> None:
    # Beyond 1 nat it is not reported.
    middle = None if high is None or high > 4 else (3.0 + high) / 2
    values = {"log_loss": middle, "log_loss_low": 3.0, "log_loss_high": high}
    signature = Signature("c", "0", "m", "ancestral", "exact", {}, "exact", 0, "log_loss", "0")
    by_metric = {
        ("m", name): Result("m", name, signature, Estimate(value, None, 9, 9))
        for name, value in values.items()
    }
    columns, (row,) = view_of("word").system_rows(by_metric, {})
    place = [column.heading for column in columns].index("log loss ↓")
    assert row[place].text == shown


def test_systems_with_the_same_ece_are_not_ranked() -> None:
    def found(**values: float) -> str:
        signature = Signature("c", "0", "m", "none", "forced", {}, "exact", 0, "ece", "0")
        pairs = ((name, Estimate(value, None, 9, 9)) for name, value in values.items())
        results = [Result(name, "ece", signature, estimate) for name, estimate in pairs]
        return view_of("token").finding(results)

    assert found(a=0.1, b=0.2).startswith("Of 2 systems, a is best calibrated: its ECE is 10.00%")
    assert found(a=0.1, b=0.1, c=0.2) == "Of 3 systems, a and b have the lowest ECE: 10.00%."


def test_interval_of_a_bound_of_log_loss_is_not_negative() -> None:
    interval = Interval(-0.2, 0.4, 0.95, "t")
    cut = bounded(Estimate(0.1, interval, 9, 9), "log_loss_low").interval
    assert cut is not None
    assert (cut.low, cut.high) == (0.0, 0.4)


def test_table_of_systems_has_variability_at_same_length_where_it_is_measured() -> None:
    signature = Signature("c", "0", "m", "d", "e", {}, "10", 0, "", "1")
    by_metric = {
        ("bot", name): Result("bot", name, signature, Estimate(value, None, 9, 3))
        for name, value in (("energy/p", 0.1), ("dmu_M/p", 0.2), ("dmu_M_same_length/p", 0.05))
    }
    columns, (row,) = view_of("text").system_rows(by_metric, {})
    shown = {column.heading: cell.text for column, cell in zip(columns, row, strict=True)}
    assert (shown["μM − μH"], shown["at same length"]) == ("0.200", "0.050")
    del by_metric["bot", "dmu_M_same_length/p"]
    columns, _ = view_of("text").system_rows(by_metric, {})
    assert "at same length" not in [column.heading for column in columns]
