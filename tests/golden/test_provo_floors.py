"""Value, interval, floor and excess of the recorded Provo systems.

Origin: the unbiased squared distances of people (-.0007) and GPT-2 (.105) were computed from the
recordings by other code; people against people are a perfect model, so their excess must vanish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from aleatoric.words.calibration_floor import (
    CORRECT,
    Learnt,
    Tally,
    calibration_floors,
    saved_values,
)
from numpy.typing import NDArray

from aleatoric.corpora.provo import load
from aleatoric.metrics.calibration import Bins, ece, equal_width_edges
from aleatoric.pipeline import WordJob, results, run_word
from aleatoric.streams import stream
from aleatoric.types import Floor, Item, Result
from aleatoric.words.distributions import human_counts

SYSTEMS = ("gpt2", "gpt2_temp05", "bloom")


@pytest.fixture(scope="module")
def found(
    provo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], Result]]:
    models = tuple(f"recorded:{provo / system}.jsonl.gz" for system in SYSTEMS)
    job = WordJob(str(provo / "provo_cloze.jsonl.gz"), models)
    with run_word(job, tmp_path_factory.mktemp("run") / "run") as store:
        yield {(r.system, r.metric): r for r in results(store)}


@pytest.mark.parametrize("system", ["oracle", *SYSTEMS])
def test_every_distance_has_an_interval_a_floor_and_an_excess(found, system: str) -> None:
    for metric in ("tvd", "js"):
        own = found[system, metric]
        assert own.estimate.interval.low < own.estimate.value < own.estimate.interval.high
        assert own.floor.low <= own.floor.value <= own.floor.high
        assert own.excess == own.estimate.value - own.floor.value


def test_people_stand_at_their_floor(found) -> None:
    own = found["oracle", "tvd"]
    assert own.floor.low < own.estimate.value < own.floor.high
    assert own.excess == pytest.approx(0, abs=0.005)
    assert found["oracle", "js"].excess == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize(
    ("system", "value", "excess"),
    [("gpt2", 0.619, 0.32), ("gpt2_temp05", 0.607, 0.25), ("bloom", 0.611, 0.25)],
)
def test_models_stand_far_above_theirs(found, system: str, value: float, excess: float) -> None:
    own = found[system, "tvd"]
    assert own.estimate.value == pytest.approx(value, abs=0.002)
    assert own.excess == pytest.approx(excess, abs=0.02)
    assert own.estimate.value > own.floor.high


def test_unbiased_squared_distances(found) -> None:
    assert found["oracle", "sq_distance"].estimate.value == pytest.approx(-0.0007, abs=0.001)
    assert found["gpt2", "sq_distance"].estimate.value == pytest.approx(0.105, abs=0.001)


def test_debiased_tvd_of_people_is_zero_and_of_models_below_their_tvd(found) -> None:
    assert found["oracle", "tvd_debiased"].estimate.value == pytest.approx(0, abs=0.005)
    for system in SYSTEMS:
        debiased, plain = (found[system, m].estimate.value for m in ("tvd_debiased", "tvd"))
        assert 0.2 < debiased < plain


def test_half_of_the_people_stands_at_the_floor_of_calibration_that_the_other_half_tells(
    provo: Path,
) -> None:
    """Twenty people are a perfect model of twenty others; their floor knows the others alone.

    It lies .018 too high in the mean of six splits: people's answers tie more than a law of ranks
    with noise does (docs/intervals.md).
    """
    items = list(load(provo / "provo_cloze.jsonl.gz").items)
    errors, floors = zip(*(_error_and_floor(items, number) for number in range(6)), strict=True)
    for error, floor in zip(errors, floors, strict=True):
        assert floor.low < error < floor.high
    assert np.mean([floor.value for floor in floors]) == pytest.approx(np.mean(errors), abs=0.02)


def _error_and_floor(items: Sequence[Item], number: int) -> tuple[float | None, Floor]:
    """ECE of a random half of each item's people against the others, and its floor."""
    rng = stream(0, "halves", number)
    rows = []
    for item in items:
        answers = rng.permutation(list(Counter(human_counts(item.responses)).elements()))
        n, numbers = len(answers) // 2, np.unique(answers, return_inverse=True)[1]
        people, model = (
            np.bincount(own, minlength=len(answers)) for own in (numbers[:n], numbers[n : 2 * n])
        )
        right = _any_first(people, rng) == _any_first(model, rng)
        told = {"n_human": n, "n_model": n, "confidence": model.max() / n}
        told |= dict.fromkeys(CORRECT.values(), right)
        rows.append(told | saved_values(people[people > 0], number, item.id))
    columns = {name: np.array([[float(row[name])] for row in rows]) for name in rows[0]}
    tally = Tally()
    tally.add(columns)
    floor = calibration_floors(tally, Bins(equal_width_edges()), Learnt())["ece_human"]
    return ece(
        columns["confidence"][:, 0], columns["correct_human"][:, 0], equal_width_edges()
    ), floor


def _any_first(counts: NDArray[np.int64], rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(counts == counts.max())))
