"""Time a permutation test for each of 2687 contexts, and a comparison of two systems on them.

40 people per context, against 40 and against 1000 samples; Zipf-like answers.
"""

from __future__ import annotations

import time

import numpy as np

from aleatoric.inference.control import N_PERMUTATIONS, fits, one_population
from aleatoric.inference.paired import paired
from aleatoric.metrics.reduction import Mean
from aleatoric.rng import stream

CONTEXTS, PASSAGES, PEOPLE, SEED = 2687, 55, 40, 0
VOCABULARY, STEEPNESS = 20_000, 1.25


def main() -> None:
    """Print the seconds of each kind of test over all contexts."""
    for draws in (40, 1000):
        seconds, exact = _sampled(draws)
        print(
            f"{CONTEXTS} contexts, {PEOPLE} people v {draws} draws: {seconds:.1f} s "
            f"({exact} exact, the others {N_PERMUTATIONS} permutations)"
        )
    print(f"{CONTEXTS} contexts, {PEOPLE} people v known probabilities: {_known():.1f} s")
    print(f"two systems on {CONTEXTS} contexts of {PASSAGES} passages: {_paired():.2f} s")


def _weights() -> np.ndarray:
    weights = np.arange(1, VOCABULARY + 1) ** -STEEPNESS
    return np.asarray(weights / weights.sum())


def _sampled(draws: int) -> tuple[float, int]:
    weights, taken, exact = _weights(), 0.0, 0
    for i in range(CONTEXTS):
        rng = stream(SEED, "speed", draws, i)
        people, model = rng.multinomial(PEOPLE, weights), rng.multinomial(draws, weights)
        start = time.perf_counter()
        test = one_population(people, model, rng)
        taken += time.perf_counter() - start
        exact += test is not None and test.exact
    return taken, exact


def _known() -> float:
    weights, taken = _weights()[:500], 0.0
    for i in range(CONTEXTS):
        rng = stream(SEED, "speed", "known", i)
        people = rng.multinomial(PEOPLE, weights / weights.sum())
        start = time.perf_counter()
        fits(people, weights, 1 - float(weights.sum()), rng)
        taken += time.perf_counter() - start
    return taken


def _paired() -> float:
    rng = stream(SEED, "speed", "paired")
    sides = [{"tvd": rng.random((CONTEXTS, 1))} for _ in range(2)]
    groups = [str(i * PASSAGES // CONTEXTS) for i in range(CONTEXTS)]
    start = time.perf_counter()
    paired(sides[0], sides[1], groups, Mean("tvd"), SEED)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
