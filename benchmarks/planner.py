"""Compare the planner's predicted standard errors with those of repeatedly simulated corpora.

    python -m benchmarks.planner [--runs 500] [--pilots 8]

Contexts of a group have similar distributions, with Zipf-like supports of 3 to 59 words; there is a
perfect model, a sharper one and a flatter one. For each pilot and each design, the command prints
the ratio of the predicted standard error (mean over pilots) to the simulated one. Up to twice the
pilot's people it must be within 15%, for any number of samples; beyond that a prediction is an
upper bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.data.simulated import sample, truth
from aleatoric.inference.planning import FAR, Context, Pilot
from aleatoric.rng import stream
from aleatoric.studies.plan import Grid, Target, make_plan
from aleatoric.studies.plan_from_run import context_of, source_of
from aleatoric.types import Case, Categorical, Item, Pair

Floats = NDArray[np.float64]
PEOPLE, SAMPLES = (5, 10, 20, 40, 80), (10, 40, 200, 1000)
PILOTS = ((40, 1000), (20, 40), (10, 200))
GROUPS, CONTEXTS = 20, 10
ALLOWED = 0.15


@dataclass(frozen=True)
class World:
    """Contexts with a known truth, in groups; another `number` is another corpus."""

    number: int
    temperature: float
    groups: int
    contexts: int = CONTEXTS

    def __iter__(self) -> Iterator[tuple[str, Categorical, Categorical]]:
        for place in range(self.groups * self.contexts):
            group = f"world{self.number}group{place // self.contexts}"
            context = f"{group} context{place}"
            yield context, truth(context), truth(context, self.temperature)


def distances(world: World, rng: np.random.Generator) -> Floats:
    """The mean TVD of one simulated run at every pair of sizes."""
    total = np.zeros((len(PEOPLE), len(SAMPLES)))
    for _, people, model in world:
        own, other = (
            np.stack([rng.multinomial(n, side.probs) / n for n in sizes])
            for side, sizes in ((people, PEOPLE), (model, SAMPLES))
        )
        total += 1 - np.minimum(own[:, None], other[None]).sum(axis=-1)
    mean: Floats = total / (world.groups * world.contexts)
    return mean


def simulated_errors(temperature: float, runs: int) -> Floats:
    """Standard deviations of the mean over simulated runs."""
    means = [
        distances(World(run, temperature, GROUPS), stream(0, "run", run, str(temperature)))
        for run in range(runs)
    ]
    errors: Floats = np.std(means, axis=0, ddof=1)
    return errors


def pilot(world: World, people: int, samples: int) -> Pilot:
    """A pilot run in a world."""
    return Pilot(tuple(_context(*one, people, samples) for one in world))


def _context(
    context: str, people: Categorical, model: Categorical, n: int, n_model: int
) -> Context:
    rng = stream(1, "pilot", context, n, n_model)
    human = Categorical.from_counts(sample(people, n, rng))
    own = Categorical.from_counts(sample(model, n_model, rng))
    group = context.partition(" ")[0]
    return context_of([Case(Item(context, group, context, ()), Pair(context, group, human, own))])


def predicted_errors(found: Pilot) -> Floats:
    """What the planner predicts at every pair of sizes."""
    plan = make_plan(source_of("", found), Target(), Grid(PEOPLE, SAMPLES, (GROUPS,)))
    return np.array([row.se for row in plan.rows]).reshape(len(PEOPLE), len(SAMPLES))


def main() -> None:
    """Print the ratios, and fail where one is too far from 1."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--pilots", type=int, default=8)
    parser.add_argument("--pilot-groups", type=int, default=60)
    options = parser.parse_args()
    worst = 0.0
    for temperature in (1.0, 0.5, 2.0):
        truths = simulated_errors(temperature, options.runs)
        for people, samples in PILOTS:
            worlds = (
                World(10_000 + i, temperature, options.pilot_groups) for i in range(options.pilots)
            )
            found = [predicted_errors(pilot(world, people, samples)) / truths for world in worlds]
            worst = max(worst, _report(np.array(found), temperature, people, samples))
    print(f"largest error of the mean prediction within its range: {worst:.0%}")
    if worst > ALLOWED:
        raise SystemExit(f"a prediction is more than {ALLOWED:.0%} off")


def _report(ratios: Floats, temperature: float, people: int, samples: int) -> float:
    """Print one pilot's ratios; the largest error within the range that is promised."""
    mean = ratios.mean(axis=0)
    print(f"model at temperature {temperature:g}, pilot of {people} people and {samples} samples")
    print("  people   " + "".join(f"{n:>10}" for n in SAMPLES) + "  samples")
    for n, row in zip(PEOPLE, mean, strict=True):
        print(f"  {n:>6}   " + "".join(f"{ratio:>10.2f}" for ratio in row))
    promised = np.array(PEOPLE) <= FAR * people
    single = np.abs(ratios[:, promised] - 1)
    print(f"  a single pilot is within 15% in {np.mean(single <= ALLOWED):.0%} of predictions")
    print(f"  mean ratios: {mean[promised].min():.2f} to {mean[promised].max():.2f}", end="")
    print(f", of upper bounds up to {mean[~promised].max(initial=0):.2f}")
    return float(np.abs(mean[promised] - 1).max())


if __name__ == "__main__":
    main()
