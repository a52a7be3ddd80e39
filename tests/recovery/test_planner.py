"""The planner predicts the standard errors of simulated runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aleatoric.data.simulated import sample, truth
from aleatoric.inference.bootstrap import t_quantile
from aleatoric.inference.planning import Pilot
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob, results
from aleatoric.rng import stream
from aleatoric.runs.run import Store
from aleatoric.studies.plan import Grid, Target, make_plan
from aleatoric.studies.plan_from_run import context_of, pilot_source, source_of
from aleatoric.types import Case, Categorical, Item, Pair

PEOPLE, SAMPLES = (5, 20, 40), (10, 100)
GROUPS, CONTEXTS = 15, 8
N_PASSAGES = 20
SIMULATED_GROUPS, PILOT_GROUPS = 1000, 120


def world(number: int, groups: int, temperature: float) -> Iterator[tuple[str, str, list]]:
    """Contexts in homogeneous groups, with Zipf-like human and model distributions."""
    for place in range(groups * CONTEXTS):
        group = f"world{number}group{place // CONTEXTS}"
        context = f"{group} context{place}"
        yield context, group, [truth(context), truth(context, temperature)]


def simulated_errors(temperature: float) -> np.ndarray:
    """Groups are independent and equally large: the spread of many groups' means tells more of a
    run's standard error than the spread of as many groups taken together in runs does."""
    means = np.zeros((SIMULATED_GROUPS, len(PEOPLE), len(SAMPLES)))
    rng = stream(0, "groups")
    for place, (_, _, (people, model)) in enumerate(world(0, SIMULATED_GROUPS, temperature)):
        own = np.stack([rng.multinomial(n, people.probs) / n for n in PEOPLE])
        other = np.stack([rng.multinomial(n, model.probs) / n for n in SAMPLES])
        means[place // CONTEXTS] += 1 - np.minimum(own[:, None], other[None]).sum(-1)
    errors: np.ndarray = (means / CONTEXTS).std(axis=0, ddof=1) / np.sqrt(GROUPS)
    return errors


def pilot(temperature: float, people: int, samples: int) -> Pilot:
    contexts = []
    for context, group, sides in world(10_000, PILOT_GROUPS, temperature):
        rng = stream(1, "pilot", context)
        human, model = (
            Categorical.from_counts(sample(side, n, rng))
            for side, n in zip(sides, (people, samples), strict=True)
        )
        case = Case(Item(context, group, context, ()), Pair(context, group, human, model))
        contexts.append(context_of([case]))
    return Pilot(tuple(contexts))


@pytest.mark.long
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_predicted_standard_errors_are_within_15_percent(temperature: float) -> None:
    found = source_of("pilot", pilot(temperature, people=20, samples=100))
    plan = make_plan(found, Target(), Grid(PEOPLE, SAMPLES, (GROUPS,)))
    predicted = np.array([row.se for row in plan.rows]).reshape(len(PEOPLE), len(SAMPLES))
    ratios = predicted / simulated_errors(temperature)
    print(f"\ntemperature {temperature}: predicted over simulated SE {ratios.round(3).tolist()}")
    assert np.abs(ratios - 1).max() < 0.15
    # Forty people are twice the pilot's: that is said.
    assert [row.extrapolated for row in plan.rows] == [False] * 4 + [True] * 2


@pytest.mark.long
def test_predicted_error_of_provo_design_matches_bootstrap(provo: Path, tmp_path: Path) -> None:
    models = (f"recorded:{provo / 'gpt2_temp05.jsonl.gz'}",)
    with gzip.open(provo / "provo_cloze.jsonl.gz", "rt") as lines:
        kept = [line for line in lines if json.loads(line)["passage"] <= N_PASSAGES]
    (tmp_path / "corpus.jsonl").write_text("".join(kept))
    with run_job(WordJob(f"provo:{tmp_path / 'corpus.jsonl'}", models), tmp_path / "run") as store:
        found = next(r for r in results(store) if r.system != "oracle" and r.metric == "tvd")
        source = pilot_source(store, None, None, None, False, 0)
        (row,) = make_plan(source, Target(), Grid((40,), (40,), (source.around.groups,))).rows
    interval = found.estimate.interval
    assert interval is not None
    bootstrapped = (interval.high - interval.low) / (2 * t_quantile(0.975, N_PASSAGES - 1))
    print(f"\nProvo: planner {row.se:.5f}, group bootstrap {bootstrapped:.5f}")
    assert row.se == pytest.approx(bootstrapped, rel=0.15)


@pytest.mark.long
def test_planned_power_matches_simulated_power(tmp_path: Path) -> None:
    """Two systems of a pilot; runs of the planned size find the difference as often as promised."""
    job = WordJob(
        "simulated:contexts=1500,people=20,passage=10", ("toy:temperature=0.5", "toy"), samples=20
    )
    with run_job(job, tmp_path / "run") as store:
        source = pilot_source(store, None, None, None, True, 0)
        target = Target(power=0.8, difference=_difference(store))
        (row,) = make_plan(source, target, Grid((20,), (20,))).rows
        seen = _share_seen(store, row.design.groups)
    assert row.power == pytest.approx(0.8, abs=0.05)
    # Groups are drawn from the pilot's own, so the difference is there to be seen.
    assert seen == pytest.approx(row.power, abs=0.08)


def _differences(store: Store) -> np.ndarray:
    first, second = ("toy:temperature=0.5", "toy")
    sums: dict[str, list[float]] = {}
    for a, b in zip(store.rows(first, "tvd"), store.rows(second, "tvd"), strict=True):
        sums.setdefault(a.group, []).append((a.value or 0.0) - (b.value or 0.0))
    return np.array([np.mean(values) for values in sums.values()])


def _difference(store: Store) -> float:
    return float(_differences(store).mean())


def _share_seen(store: Store, groups: int) -> float:
    by_group = _differences(store)
    rng = np.random.default_rng(0)
    spread = by_group.std(ddof=1) / np.sqrt(groups)
    drawn = rng.choice(by_group, size=(4000, groups)).mean(axis=1)
    return float((np.abs(drawn) > 1.96 * spread).mean())
