"""The oracle's learning curve: measured values and extrapolation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from marks import sampled

from aleatoric.data.simulated import sample, truth
from aleatoric.errors import UsageError
from aleatoric.metrics.distances import tvd
from aleatoric.rng import stream
from aleatoric.studies import sample_size
from aleatoric.studies.figure_data import Lines
from aleatoric.studies.sample_size import learning_curve, measure, model_at, people_at
from aleatoric.types import Case, Categorical, Pair

CONTEXTS, PEOPLE = 300, 40


def cases_at(make_case: Callable[..., Case], temperature: float) -> list[Case]:
    found = []
    for i in range(CONTEXTS):
        item_id, context = f"{i // 10}:{i}", f"passage{i // 10} the baba {i}"
        answers = sample(truth(context), PEOPLE, stream(2, "people", item_id))
        model = sample(truth(context, temperature), 100, stream(2, "model", item_id))
        found.append(make_case(item_id, answers, Categorical.from_counts(model), context))
    return found


def expected(m: int, temperature: float) -> tuple[float, float]:
    """Both curves at a size, from the known truth."""
    people, model = [], []
    for i in range(CONTEXTS):
        context, rng = f"passage{i // 10} the baba {i}", stream(3, "expected", i)
        p, q = truth(context).probs, truth(context, temperature).probs
        a, b, c = (rng.multinomial(m, side, size=20) / m for side in (p, p, q))
        people.append((1 - np.minimum(a, b).sum(axis=1)).mean())
        model.append((1 - np.minimum(a, c).sum(axis=1)).mean())
    return float(np.mean(people)), float(np.mean(model))


@pytest.mark.parametrize("temperature", sampled([1.0, 0.5, 2.0], [1.0]))
def test_curves_and_extrapolations_recover_truth(
    make_case: Callable[..., Case], temperature: float
) -> None:
    curves = measure(cases_at(make_case, temperature), seed=0)
    assert curves.sizes[0] == 2
    assert curves.sizes[-1] == PEOPLE // 2
    points = {p.size: p for p in sample_size._points(curves, seed=0)}
    for size, slack in ((2, 0.02), (20, 0.02), (40, 0.03), (100, 0.04)):
        people, model = expected(size, temperature)
        assert points[size].people == pytest.approx(people, abs=slack)
        assert points[size].model == pytest.approx(model, abs=slack)
    contexts = [f"passage{i // 10} the baba {i}" for i in range(CONTEXTS)]
    own = [tvd(Pair("", "", truth(c), truth(c, temperature))) for c in contexts]
    print(
        f"\ntemperature {temperature}: endless {points[None].model:.3f}, truth {np.mean(own):.3f}"
    )
    assert points[None].model == pytest.approx(np.mean(own), abs=0.07)
    assert points[None].people == 0.0


def test_perfect_model_curve_falls_with_oracle(make_case: Callable[..., Case]) -> None:
    points = list(sample_size._points(measure(cases_at(make_case, 1.0), 0), 0))
    assert all(abs(point.model - point.people) < 0.02 for point in points[:-1])
    assert points[-1].model < 0.08


def test_curves_match_manual_computation(make_case: Callable[..., Case]) -> None:
    model = Categorical(("a", "z"), (0.5, 0.5))
    cases = [make_case(f"{i}:1", {"a": 8}, model) for i in range(3)]
    curves = measure(cases, seed=0)
    people, own = curves.means(curves.sums.sum(axis=0))
    assert people.tolist() == [0.0] * len(curves.sizes)
    assert own == pytest.approx(np.full(len(curves.sizes), 0.5), abs=0.15)


def test_extrapolation_is_no_steeper_than_a_square_root() -> None:
    sizes = np.array([2.0, 4.0, 8.0, 16.0])
    falling = np.array([0.6, 0.5, 0.35, 0.18])  # steeper and steeper
    far = [float(people_at(sizes, falling, m)) for m in (64.0, 256.0)]
    assert far[0] / far[1] == pytest.approx(2.0)


def test_model_distance_is_never_negative() -> None:
    people = np.array([[0.6, 0.5, 0.4, 0.3]])
    assert model_at(people, people / 2, np.array([0.0])).tolist() == pytest.approx([0.0], abs=1e-6)


def test_study_has_one_row_per_size_and_a_figure(make_case: Callable[..., Case]) -> None:
    study = learning_curve(cases_at(make_case, 0.5), seed=0)
    (table,) = study.tables
    assert [row[0] for row in table.rows][-3:] == ["40*", "100*", "∞*"]
    figure = study.figures["learning_curve"]
    assert isinstance(figure, Lines)
    assert [len(line.low) for line in figure.lines] == [len(table.rows) - 1] * 2


def test_one_group_has_no_interval(make_case: Callable[..., Case]) -> None:
    cases = [make_case(f"1:{i}", {"a": 6, "b": 6}, Categorical(("a",), (1.0,))) for i in range(4)]
    (table,) = learning_curve(cases, seed=0).tables
    assert all(row[2] == "–" for row in table.rows)


def test_too_few_answers_are_rejected(make_case: Callable[..., Case]) -> None:
    cases = [make_case("1:2", {"a": 3, "b": 2}, Categorical(("a",), (1.0,)))]
    with pytest.raises(UsageError, match="at least 8 answers"):
        learning_curve(cases, seed=0)
    with pytest.raises(UsageError, match="at least 8 answers"):
        learning_curve([], seed=0)
