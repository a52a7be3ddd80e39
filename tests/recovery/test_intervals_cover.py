"""A small, fixed-seed form of `benchmarks/coverage.py`; its noise is accounted for, not allowed."""

from __future__ import annotations

import pytest

from aleatoric.analyses.recovery import Design, coverage

N_SIMULATIONS, N_REPLICATES = 120, 300
NOISE = 3 * (0.95 * 0.05 / N_SIMULATIONS) ** 0.5
MEANS = ("tvd", "tvd_debiased", "sq_distance", "js")


@pytest.mark.parametrize("design", [Design(20, 40, passages=20), Design(40, 100, passages=10)])
def test_studentised_intervals_hold_the_truth(design: Design) -> None:
    for one in coverage(design, N_SIMULATIONS, 1, N_REPLICATES, ("student",), MEANS):
        assert one.held >= 0.95 - NOISE, one


def test_with_few_groups_the_studentised_interval_covers_more_than_the_percentile() -> None:
    design = Design(20, 40, passages=6)
    methods = ("student", "percentile")
    found = {
        (c.metric, c.method): c.held
        for c in coverage(design, N_SIMULATIONS, 2, N_REPLICATES, methods, MEANS)
    }
    for metric in MEANS:
        assert found[metric, "student"] >= found[metric, "percentile"]
