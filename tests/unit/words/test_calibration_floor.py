"""Floors of calibration errors where people are few, many, all alike or all different."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from aleatoric.metrics.calibration import Bins, equal_width_edges
from aleatoric.types import Floor
from aleatoric.words.calibration_floor import (
    COLUMNS,
    CORRECT,
    OLDER,
    TOO_STRANGE,
    UNSCORED,
    Learnt,
    Tally,
    calibration_floors,
    no_columns,
    saved_values,
)


def floors_of(
    crowds: Sequence[np.ndarray], draws: float, unscored: str | None = None
) -> dict[str, Floor]:
    told = [saved_values(own, 0, str(i)) for i, own in enumerate(crowds)]
    rows = {name: [own.get(name, np.nan) for own in told] for name in COLUMNS}
    rows |= {"n_human": [own.sum() for own in crowds], "n_model": [draws] * len(crowds)}
    rows |= {name: [1.0] * len(crowds) for name in ("confidence", *CORRECT.values())}
    if unscored:
        rows[CORRECT[unscored]] = [np.nan] * len(crowds)
    tally = Tally()
    for half in (slice(None, None, 2), slice(1, None, 2)):  # two pages, in an order of their own
        tally.add({name: np.array(own, dtype=np.float64)[half, None] for name, own in rows.items()})
    return calibration_floors(tally, Bins(equal_width_edges()), Learnt())


@pytest.mark.parametrize("people", [2, 40, 2000])
def test_a_perfect_model_of_people_who_agree_makes_no_error(people):
    found = floors_of([np.array([people])] * 200, np.nan)
    if people > 2:  # two may agree by chance
        assert found["ece_human"].value == pytest.approx(0, abs=0.01)
    assert found["ece_human"].low == 0


def test_many_people_who_never_agree_have_a_perfect_model_that_is_never_right():
    floor = floors_of([np.ones(100, dtype=int)] * 100, 40)["ece_human"]
    assert floor.low < 0.1
    assert floor.value < 0.15


def test_answers_of_one_person_count():
    """Against one person a perfect model is calibrated."""
    rng = np.random.default_rng(0)
    crowd = [np.sort(rng.multinomial(40, [0.5, 0.3, 0.1, 0.1])) for _ in range(300)]
    crowd = [own[own > 0] for own in crowd]
    alone = [np.array([1])] * 2700
    most, few = floors_of(crowd, 40)["ece_human"], floors_of([*crowd, *alone], 40)["ece_human"]
    assert most.value > 0.3
    assert few.value < 0.15


def test_the_order_of_items_and_of_answers_does_not_matter():
    crowds = [np.array([5, 3, 1, 1]), np.array([10]), np.array([4, 4, 2])] * 3
    told = [saved_values(own, 0, "a") for own in (np.array([1, 3, 5]), np.array([5, 1, 3]))]
    assert told[0] == told[1]
    assert floors_of(crowds, 10) == floors_of(crowds, 10)


def test_what_is_not_scored_has_no_floor_and_a_reason():
    found = floors_of([np.array([5, 3])] * 9, 10, unscored="original")
    assert found["ece_original"].value is None
    assert found["ece_original"].reason == UNSCORED
    assert found["ece_human"].value is not None
    assert {floor.reason for floor in no_columns().values()} == {OLDER}


def test_people_who_answer_as_under_no_kind_of_truth_have_no_floor():
    """Two words that share a fourth of the answers, all others said once, every time."""
    found = floors_of([np.array([12, 12] + [1] * 76)] * 50, 40)
    assert {floor.reason for floor in found.values()} == {TOO_STRANGE}


def test_no_end_passes_a_bound():
    floor = floors_of([np.array([3, 2])], 40)["ece_human"]
    assert 0 <= floor.low <= floor.value <= floor.high <= 1
