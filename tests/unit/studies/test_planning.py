"""Study planning: arithmetic of designs, and the plan command."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aleatoric.errors import UsageError
from aleatoric.inference.noise import (
    Side,
    Sides,
    distance,
    noise,
    side_variances,
    split_variance,
    subsampled,
)
from aleatoric.inference.planning import (
    Context,
    Crowding,
    Design,
    Pilot,
    PilotSpread,
    Variances,
    between_and_within,
    design_effect,
    error_for_power,
    error_for_width,
    error_interval,
    group_columns,
    groups_needed,
    power,
    standard_error,
    width,
)
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.reporting.plan import plan_picture, plan_table
from aleatoric.studies.plan import Assumptions, Grid, Target, assumed_source, make_plan, zipf

variances = st.floats(0.0, 0.3)


@settings(deadline=None)
@given(variances, variances, variances, variances, st.floats(0.001, 0.2))
def test_groups_needed_is_sufficient_and_minimal(
    groups: float, contexts: float, people: float, samples: float, error: float
) -> None:
    parts = Variances(groups, contexts, people, samples)
    needed = groups_needed(parts, Design(40, 10, 1, Crowding(5.0, 7.0)), error)
    design = Design(40, 10, needed, Crowding(5.0, 7.0))
    assert standard_error(parts, design) <= error * (1 + 1e-9)
    if needed > 2:
        fewer = Design(40, 10, needed - 1, design.crowding)
        assert standard_error(parts, fewer) > error * (1 - 1e-9)


def test_standard_error_with_unequal_group_sizes() -> None:
    """Var(Σ values) = Σ_g (m_g² · groups + m_g · the rest); the mean size is not enough."""
    sizes = np.array([1, 2, 9])
    parts = Variances(0.02, 0.05, 0.01, 0.03)
    variance = (0.02 * (1 + 4 + 81) + 0.09 * (1 + 2 + 9)) / 12**2
    design = Design(40, 10, 3, Crowding.of(sizes))
    assert standard_error(parts, design) == pytest.approx(math.sqrt(variance))
    assert design_effect(parts, design.crowding) == pytest.approx(12 * variance / parts.total)


def test_numbers_of_answers_and_draws_in_a_design() -> None:
    design = Design(40, 10, 3, Crowding(2.5, 4.0))
    assert (design.contexts, design.answers, design.draws) == (8, 320, 80)
    assert replace(design, samples=None).draws is None
    assert design.crowding.resized(5.0) == Crowding(5.0, 8.0)


def test_variance_components_of_paired_difference() -> None:
    """People and contexts are shared, samples are not: 2 (1 - correlation) and 2 times each."""
    parts = Variances(0.1, 0.2, 0.3, 0.4)
    found = parts.paired(0.75)
    assert astuple(found) == pytest.approx((0.05, 0.1, 0.15, 0.8))
    assert (parts.total, parts.correlation) == pytest.approx((1.0, 0.1))
    assert Variances(0.0, 0.0, 0.0, 0.0).correlation == 0


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_width_and_power_match_normal_mean(level: float) -> None:
    reach = stats.norm.ppf((1 + level) / 2)
    assert width(0.03, level) == pytest.approx(2 * reach * 0.03)
    assert error_for_width(0.2, level) == pytest.approx(0.1 / reach)
    for difference in (0.05, -0.05, 0.0):
        shift = difference / 0.03
        expected = stats.norm.cdf(-reach - shift) + stats.norm.sf(reach - shift)
        assert power(0.03, difference, level) == pytest.approx(expected)
    assert power(0.0, 0.1, level) == 1


@settings(deadline=None)
@given(st.floats(0.06, 0.99), st.floats(0.001, 0.5))
def test_error_for_power_gives_requested_power(asked: float, difference: float) -> None:
    assert power(error_for_power(asked, difference), difference) == pytest.approx(asked, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_variances_match_naive_anova(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [rng.normal(rng.normal(0, 2), 1, size=rng.integers(1, 6)) for _ in range(8)]
    between, within = between_and_within(
        np.array([group_columns(values[:, None]) for values in groups]).sum(axis=0)
    )
    values, n = np.concatenate(groups), sum(map(len, groups))
    inside = sum(((v - v.mean()) ** 2).sum() for v in groups) / max(1, n - 8)
    among = sum(len(v) * (v.mean() - values.mean()) ** 2 for v in groups) / 7
    size = (n - sum(len(v) ** 2 for v in groups) / n) / 7
    if n > 8 and among > inside:
        assert within == pytest.approx(inside)
        assert between == pytest.approx((among - inside) / size)
    else:
        assert between == 0
        assert within == pytest.approx(values.var(ddof=1))


def table_of(*groups: list[float]) -> np.ndarray:
    return np.array([group_columns(np.array(own)[:, None]) for own in groups])


@pytest.mark.parametrize(
    ("groups", "between", "within"),
    [
        ([[0.0, 2.0], [4.0, 6.0]], 7.0, 2.0),  # mean squares 16 and 2, two contexts per group
        ([[0.0, 2.0], [7.0]], 16.5, 2.0),  # mean squares 24 and 2, 4/3 contexts per group
        ([[0.0], [4.0]], 0.0, 8.0),  # one context each: all of it lies within
        ([[1.0, 3.0]], 0.0, 2.0),  # one group
        ([[0.0, 4.0], [0.0, 4.0]], 0.0, 16 / 3),  # equal groups
        ([[0.5]], 0.0, 0.0),
    ],
)
def test_variances_match_manual_computation(
    groups: list[list[float]], between: float, within: float
) -> None:
    found = between_and_within(table_of(*groups).sum(axis=0))
    assert [float(part) for part in found] == pytest.approx([between, within])


def test_repeated_values_are_averaged() -> None:
    found = group_columns(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert found.tolist() == [1, 2, 4, (4 + 6) / 2, (10 + 20) / 2, (16 + 36) / 4]


@pytest.mark.parametrize(
    ("people", "samples", "parts"),
    [
        # Within groups 2 · .5 = 1, of which noise cannot be more than all.
        (0.25, 0.5, Variances(14.0, 0.25, 0.25, 0.5)),
        (2.0, 6.0, Variances(14.0, 0.0, 0.25, 0.75)),
        (0.0, 0.0, Variances(14.0, 1.0, 0.0, 0.0)),
    ],
)
def test_variance_components_of_pilot_match_manual_computation(
    people: float, samples: float, parts: Variances
) -> None:
    spread = PilotSpread(table_of([0.0, 2.0], [4.0, 6.0]), 2.0, 0.5, people, samples)
    sums = spread.table.sum(axis=0)
    assert spread.parts(sums) == parts
    # Five groups of three contexts, four as a context sees them: (14 · 4 + 1) / 15.
    design = Design(10, 10, 5, Crowding(3.0, 4.0))
    assert float(spread.errors(sums, design)) == pytest.approx(math.sqrt(57 / 15))


@pytest.mark.parametrize(
    ("groups", "variance", "free"),
    [
        # Mean squares 16 (1 degree of freedom) and 2 (2) with weights 2/15 and (1 - 2)/15.
        ([[0.0, 2.0], [4.0, 6.0]], 2.0, 4 / ((32 / 15) ** 2 + (2 / 15) ** 2 / 2)),
        ([[0.0], [4.0], [2.0]], 4 / 15, 2),  # one context each
        ([[0.0, 4.0], [0.0, 4.0]], 16 / 45, 1),  # groups differ no more than by chance
    ],
)
def test_interval_of_standard_error_matches_manual_computation(
    groups: list[list[float]], variance: float, free: float
) -> None:
    spread = PilotSpread(table_of(*groups), 1.0, 1.0, 0.0, 0.0)
    found = error_interval(spread, Design(10, 10, 5, Crowding(3.0, 4.0)), 0.9)
    assert found is not None
    ends = [math.sqrt(variance * free / stats.chi2.ppf(share, free)) for share in (0.95, 0.05)]
    assert (found.low, found.high, found.level) == pytest.approx((*ends, 0.9))
    flat = PilotSpread(table_of([1.0, 1.0], [1.0, 1.0]), 1.0, 1.0, 0.0, 0.0)
    assert error_interval(flat, Design(10, 10, 5, Crowding(3.0, 4.0))) is None


def coin(name: str, group: str, people: int | None, *draws: int | None) -> Context:
    """A fair coin for people and each model, with the given sample sizes."""
    half = np.array([0.5, 0.5])
    seen = [Side(half if n is None else half * n, n) for n in (people, *draws)]
    truth = Sides(Side(half, None), (Side(half, None),) * len(draws))
    return Context(name, group, Sides(seen[0], tuple(seen[1:])), truth)


def test_typical_sizes_of_pilot() -> None:
    assert coin("1", "a", 8, 9, 7).samples == 7
    assert coin("1", "a", 8, None, 7).samples == 7
    assert coin("1", "a", 8, None, None).samples is None
    assert (coin("1", "a", 8, 9).people, coin("1", "a", None, 9).people) == (8, 0)
    contexts = (coin("1", "a", 8, 20), coin("2", "a", 10, None), coin("3", "b", 12, 30))
    pilot = Pilot((*contexts, coin("4", "a", 30, 40)))
    assert (pilot.people, pilot.samples, pilot.n_groups, pilot.seed) == (11, 30, 2, 0)
    assert pilot.crowding == Crowding(2.0, 2.5)
    beyond = [(11, [30]), (12, [30]), (11, [30, 31]), (11, [None]), (5, [9])]
    assert [pilot.is_beyond(*sizes) for sizes in beyond] == [False, True, True, True, False]
    assert (pilot.is_far(22), pilot.is_far(23)) == (False, True)
    exact = Pilot((coin("1", "a", 8, None), coin("2", "b", 8, None)))
    assert (exact.samples, exact.is_beyond(8, [None, 50])) == (None, False)


def test_four_times_the_participants_quarter_the_variance() -> None:
    contexts = [coin(str(i), "ab"[i % 2], 20, None) for i in range(150)]
    found = Pilot(tuple(contexts), seed=1).spreads([20, 80], [None])
    assert (found[20, None].between, found[20, None].within) == (1.0, 1.0)
    assert found[80, None].within == pytest.approx(0.25, rel=0.2)
    assert found[20, None].samples == pytest.approx(0.0, abs=1e-12)
    # The variance of |X/n - 1/2|, about (1 - 2/π) / 4n.
    chances = stats.binom.pmf(np.arange(81), 80, 0.5)
    gaps = np.abs(np.arange(81) / 80 - 0.5)
    variance = chances @ gaps**2 - (chances @ gaps) ** 2
    assert found[80, None].people == pytest.approx(variance, rel=0.15)


def test_noise_is_separated_by_source() -> None:
    rng = np.random.default_rng(0)
    people, model = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(12))
    sides = Sides(Side(people, None), (Side(model, None),))
    found = noise(sides, [30], [50], rng, times=200)
    a, b = (rng.multinomial(n, side, size=20_000) / n for n, side in ((30, people), (50, model)))
    distances = 1 - np.minimum(a, b).sum(axis=1)
    assert found.mean[0, 0] == pytest.approx(distances.mean(), abs=0.01)
    total = found.people + found.samples
    assert total[0, 0] == pytest.approx(distances.var(), rel=0.15)
    only_people = 1 - np.minimum(a, model).sum(axis=1)
    exact = noise(sides, [30], [None], rng, times=200)
    assert exact.samples[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert exact.people[0, 0] == pytest.approx(only_people.var(), rel=0.25)


def test_two_models_are_compared_by_difference() -> None:
    people, first, second = (
        Side(np.array(p), None) for p in ([1.0, 0.0], [0.5, 0.5], [0.25, 0.75])
    )
    sides, rng = Sides(people, (first, second)), np.random.default_rng(0)
    assert distance(sides) == -0.25
    assert (noise(sides, [3], [None], rng).mean == -0.25).all()
    assert (subsampled(sides, [3], [None], rng, times=2) == -0.25).all()


@pytest.mark.long
def test_few_crossed_samples_estimate_both_variances_without_bias() -> None:
    rng = np.random.default_rng(3)
    people, model = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    sides = Sides(Side(people, None), (Side(model, None),))
    found = [noise(sides, [6], [9], rng, times=3) for _ in range(4000)]
    # All samples of both sizes, with their probabilities.
    shares, chances = zip(
        *(samples_of(n, side) for n, side in ((6, people), (9, model))), strict=True
    )
    distances = 1 - np.minimum(shares[0][:, None], shares[1][None]).sum(axis=2)
    by_people = distances @ chances[1]
    mean = chances[0] @ by_people
    total = chances[0] @ (distances - mean) ** 2 @ chances[1]
    of_people = chances[0] @ (by_people - mean) ** 2
    assert np.mean([own.mean for own in found]) == pytest.approx(mean, abs=0.005)
    assert np.mean([own.people for own in found]) == pytest.approx(of_people, rel=0.06)
    assert np.mean([own.samples for own in found]) == pytest.approx(total - of_people, rel=0.06)


def samples_of(n: int, probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shares of every sample of `n` of three words, and their probabilities."""
    every = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    return every / n, stats.multinomial.pmf(every, n, probs)


def test_subsamples_match_samples_of_smaller_size() -> None:
    rng = np.random.default_rng(1)
    people, model = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    parts, anew = [], []
    for _ in range(1500):
        seen = Sides(
            Side(rng.multinomial(40, people).astype(float), 40),
            (Side(rng.multinomial(60, model).astype(float), 60),),
        )
        parts.append(subsampled(seen, [10], [15], rng, times=1)[0, 0, 0])
        a, b = rng.multinomial(10, people) / 10, rng.multinomial(15, model) / 15
        anew.append(1 - np.minimum(a, b).sum())
    assert np.mean(parts) == pytest.approx(np.mean(anew), abs=0.012)
    assert np.var(parts) == pytest.approx(np.var(anew), rel=0.15)


@settings(deadline=None)
@given(st.integers(1, 200), st.floats(0.0, 1.0))
def test_zipf_has_requested_entropy(support: int, share: float) -> None:
    asked = share * math.log2(support)
    probs = zipf(support, asked)
    known = probs[probs > 0]
    assert float(-(known * np.log2(known)).sum()) == pytest.approx(asked, abs=1e-3)


def test_assumed_error_is_monotone_in_every_size() -> None:
    source = assumed_source(Assumptions())
    rows = make_plan(source, Target(), Grid((10, 40, 160), (10, 1000, None), (20,))).rows
    errors = np.array([row.se for row in rows]).reshape(3, 3)
    assert (np.diff(errors, axis=0) <= 1e-6).all()
    assert (np.diff(errors, axis=1) <= 1e-6).all()


def test_figure_meets_target_where_table_does() -> None:
    plan = make_plan(assumed_source(Assumptions()), Target(se=0.02), Grid((40,), (100,)))
    (line,) = plan_picture(plan).pictures[0].lines  # type: ignore[union-attr]
    (row,) = plan.rows
    at = np.interp(row.design.contexts, line.x, line.y)
    assert at == pytest.approx(row.se, rel=0.02)
    assert "meets" in plan_table(plan).columns


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(se=0.01, width=0.1), "one target"),
        (Target(power=0.8), "--difference"),
        (Target(se=-1.0), "--se"),
        (Target(se=float("nan")), "--se"),
        (Target(power=0.01, difference=0.1), "--power"),
        (Target(level=1.0), "--level"),
    ],
)
def test_invalid_targets_are_rejected(target: Target, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        target.check()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pilot") / "run"
    job = WordJob(
        "simulated:contexts=60,people=12,passage=6", ("toy", "toy:temperature=2"), samples=30
    )
    with run_job(job, folder):
        return folder


def test_plan_command_prints_plans_and_draws_figures(
    cli: Callable, run: Path, tmp_path: Path
) -> None:
    figure = tmp_path / "plan.png"
    ran = cli("plan", run, "--system", "toy", "--se", 0.01, "--json", "--figure", figure)
    assert ran.status == 0, ran.err
    plans = json.loads(ran.out)["plans"]
    assert all(one["meets_target"] and one["se"] <= 0.01 for one in plans)
    assert {one["people"] for one in plans} == {6, 12, 24}
    assert figure.read_bytes().startswith(b"\x89PNG")
    again = cli("plan", run, "--system", "toy", "--se", 0.01, "--json")
    assert again.out == ran.out


def test_plan_warns_if_the_pilot_has_persons(cli: Callable, run: Path, tmp_path: Path) -> None:
    """The plan assumes other people in every group, and does not know what a panel shares."""
    rows = [
        {
            "id": f"{i}",
            "group": f"g{i % 4}",
            "context": f"c{i}",
            "responses": [{"person": p, "answer": "ab"[(i + j) % 2]} for j, p in enumerate("xyz")],
        }
        for i in range(12)
    ]
    corpus, answers = tmp_path / "people.jsonl", tmp_path / "model.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = [{"id": f"{i}", "samples": {"a": 1 + i, "b": 2}} for i in range(12)]
    answers.write_text("".join(json.dumps(row) + "\n" for row in samples))
    job = WordJob(str(corpus), (f"recorded:{answers}",))
    run_job(job, tmp_path / "panel").close()
    warned = cli("plan", tmp_path / "panel", "--se", 0.05)
    assert "the plan assumes other people in every group" in " ".join(warned.out.split())
    plain = cli("plan", run, "--system", "toy", "--se", 0.05)
    assert "other people" not in plain.out + plain.err


@pytest.mark.parametrize("layout", ["terminal", "markdown", "latex", "csv"])
def test_plan_command_supports_every_format(cli: Callable, run: Path, layout: str) -> None:
    ran = cli("plan", run, "--power", 0.8, "--difference", 0.05, "--format", layout)
    assert ran.status == 0, ran.err
    assert "power" in ran.out


def test_difference_from_one_system_states_assumed_correlation(cli: Callable) -> None:
    alone = cli("plan", "--assume", "icc=0.1", "--difference", 0.05, "--groups", 20, "--json")
    assert "correlated at 0.5" in alone.out
    assert all(0 < one["power"] <= 1 for one in json.loads(alone.out)["plans"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a run"),
        (("--assume", "height=3"), "no assumption 'height'"),
        (("--assume", "sd=x"), "is not a number"),
        (("--assume", "icc=1.5"), "icc=1.5 cannot be"),
        (("--assume", "sd=0.1", "--samples", "few"), "--samples 'few'"),
        (("--assume", "sd=0.1", "--se", "0"), "--se 0"),
    ],
)
def test_invalid_usage_raises_one_line_error(
    cli: Callable, arguments: tuple[str, ...], message: str
) -> None:
    ran = cli("plan", *arguments)
    assert ran.status == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


@given(st.floats(-300, -0.1), st.floats(0.06, 0.999), st.sampled_from([0.95, 0.999]))
def test_error_for_power_holds_for_any_difference(log: float, asked: float, level: float) -> None:
    difference = 10**log
    assert power(error_for_power(asked, difference, level), difference, level) == (
        pytest.approx(asked, abs=1e-6)
    )


def test_power_just_above_alpha_is_solvable() -> None:
    for level in (0.5, 0.9, 0.95, 0.99):
        asked = math.nextafter(1 - level, 1)
        assert 1 < error_for_power(asked, 0.1, level) < math.inf


def test_wide_supports_give_same_result_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    source = assumed_source(Assumptions(support=300, entropy=6.0))
    whole = source.known([5, 10], [7, None])
    monkeypatch.setattr("aleatoric.inference.noise._AT_ONCE", 300)
    assert source.known([5, 10], [7, None]) == whole


def test_correlation_known_from_run_is_rejected(cli: Callable, run: Path) -> None:
    ran = cli("plan", run, "--difference", 0.05, "--correlation", 0.3)
    assert (ran.status, ran.out) == (2, "")
    assert "leave out --correlation" in ran.err


def test_invalid_pilots_are_rejected(cli: Callable, run: Path, tmp_path: Path) -> None:
    ran = cli("plan", run, "--se", 0.01)
    assert ran.status == 2
    assert "--system" in ran.err
    ran = cli("plan", run, "--system", "gpt5", "--se", 0.01)
    assert "has no model 'gpt5'" in ran.err
    job = WordJob("simulated:contexts=5,people=12", ("toy",), samples=30)
    with run_job(job, tmp_path / "one"):
        pass
    ran = cli("plan", tmp_path / "one", "--se", 0.01)
    assert ran.status == 2
    assert "one group" in ran.err


def test_pilot_variance_components_match_naive_jackknife() -> None:
    people, model = np.array([5, 3, 1, 0]), np.array([2, 2, 0, 6])

    def left_out(counts: np.ndarray, other: np.ndarray) -> float:
        values = []
        for word in np.repeat(np.arange(4), counts):
            fewer = counts - np.eye(4, dtype=int)[word]
            values.append(1 - np.minimum(fewer / fewer.sum(), other / other.sum()).sum())
        return (len(values) - 1) / len(values) * float(((values - np.mean(values)) ** 2).sum())

    # Only people's words are listed: the model's last word lies outside.
    seen = Sides(Side(people[:3].astype(float), 9), (Side(model[:3].astype(float), 10),))
    expected = pytest.approx((left_out(people, model), left_out(model, people)))
    assert side_variances(seen) == expected
    one = Sides(Side(np.array([1.0]), 1), (Side(np.array([0.5]), None),))
    assert side_variances(one) == (0.0, 0.0)
    # Two different answers: without one, the distance to 3/4 and 1/4 is 1/4 or 3/4.
    two = Sides(Side(np.array([1.0, 1.0]), 2), (Side(np.array([0.75, 0.25]), None),))
    assert side_variances(two) == pytest.approx((1 / 16, 0.0))


def test_variance_of_mean_by_source() -> None:
    """Groups {1, 2} and {6}: the mean is 3, the residuals -3 and 3."""
    own, groups = np.array([1.0, 2.0, 6.0]), np.array([0, 0, 1])
    found = split_variance(own, groups, np.full(3, 0.9), np.full(3, 1.8))
    assert found is not None
    total = 2 * (9 + 9) / 9
    assert astuple(found) == pytest.approx((total, 0.3, 0.6, total - 0.9))
    assert found.standard_error == pytest.approx(math.sqrt(total))
    assert split_variance(own, np.zeros(3, int), own, own) is None
    nothing = np.zeros(0)
    assert split_variance(nothing, nothing.astype(int), nothing, nothing) is None


def test_plan_from_pilot_shows_variance_components(cli: Callable, run: Path) -> None:
    ran = cli("plan", run, "--system", "toy", "--se", 0.01)
    assert "The pilot's own SE is 0.0" in ran.out
    found = json.loads(cli("plan", run, "--system", "toy", "--se", 0.01, "--json").out)
    parts = found["pilot_variance"]
    assert parts["people"] > 0
    assert parts["model"] > 0
    sources = parts["people"] + parts["model"] + parts["contexts"]
    assert sources == pytest.approx(parts["total"])


def test_interval_of_predicted_error_contains_it() -> None:
    rng = np.random.default_rng(0)
    groups, size, alike = 15, 20, 0.1
    design = Design(10, 10, groups, Crowding(size, size))
    true = math.sqrt((alike * size + 1 - alike) / (groups * size))
    held = 0
    for _ in range(300):
        centres = rng.normal(0, math.sqrt(alike), (groups, 1))
        values = centres + rng.normal(0, math.sqrt(1 - alike), (groups, size))
        table = np.array([group_columns(own[:, None]) for own in values])
        interval = error_interval(PilotSpread(table, 1.0, 1.0, 0.0, 0.0), design)
        held += interval.low <= true <= interval.high
    assert 0.92 <= held / 300 <= 0.98


def test_many_more_participants_than_pilot_give_upper_bound(cli: Callable, run: Path) -> None:
    people = [part for n in (12, 24, 25) for part in ("--people", n)]
    asked = ("plan", run, "--system", "toy", "--groups", 20, "--samples", 30, *people)
    plans = json.loads(cli(*asked, "--json").out)["plans"]
    assert [one["extrapolated"] for one in plans] == [False, True, True]
    assert [one["upper_bound"] for one in plans] == [False, False, True]
    assert cli(*asked).out.count("≤ 0.") == 1


def test_a_tiny_pilot_gives_no_negative_share() -> None:
    from aleatoric.reporting.plan import _listed

    assert _listed({"people": 0.3, "samples": 0.1, "contexts": -0.1}) == (
        "people 75%, samples 25%, contexts 0%"
    )
    assert _listed({"people": 0.0, "contexts": 0.0}) == "people 0%, contexts 0%"


def test_designs_of_a_few_groups_are_warned_about() -> None:
    source = assumed_source(Assumptions())
    few = make_plan(source, Target(), Grid((40,), (100,), (3, 20)))
    (note,) = [note for note in few.notes if note.startswith("warning: widths and power")]
    assert "with 3, an interval by Student's t is 2.2 times as wide" in note  # 4.303 / 1.960
    enough = make_plan(source, Target(), Grid((40,), (100,), (10, 20)))
    assert not any(note.startswith("warning") for note in enough.notes)
