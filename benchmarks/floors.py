"""Where a perfect model stands on simulated truth, and where its floor says that it does.

    python -m benchmarks.floors [ITEMS]

Truths are Zipf-like; those of `passages` come in passages whose contexts are alike, as the corpora
of `benchmarks.coverage` do; `flat` ones have no clear first choice, `mixed` ones are of all kinds,
`even` ones are nearly uniform over 60 words. A line for each family and sizes: the true mean, the
estimate's error, and whether the ends hold the truth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.analyses.recovery import Design, simulate
from aleatoric.inference import floor
from aleatoric.inference.perfect import TARGETS
from aleatoric.metrics.calibration import Bins, ece, equal_width_edges
from aleatoric.streams import stream
from aleatoric.words.calibration_floor import (
    CORRECT,
    Learnt,
    Tally,
    calibration_floors,
    saved_values,
)

Floats = NDArray[np.float64]
FAMILIES = {
    "short": (5, 60, 0.6, 2.0),
    "long": (200, 1000, 0.8, 1.6),
    "steep": (10, 500, 1.5, 3.0),
    "flat": (20, 200, 0.2, 0.8),
    "mixed": (5, 500, 0.3, 2.5),
    "huge": (19_000, 20_000, 0.8, 1.3),
}
"""Fewest and most words, flattest and steepest fall."""
SIZES = (
    (5, 10),
    (10, 40),
    (20, 10),
    (20, 20),
    (20, 1000),
    (20, None),
    (40, 40),
    (40, 1000),
    (40, None),
    (100, 10),
    (100, 100),
    (100, 1000),
)
_REPEATS = 4
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Found:
    """A perfect model's mean score, and the floor's estimate and ends."""

    metric: str
    true: float
    value: float
    low: float
    high: float
    noise: float
    """The standard error of the estimate's error."""


def distances(family: str, n_human: int, n_model: int | None, n_items: int) -> Iterator[Found]:
    """The floors of TVD and JS, as means over items."""
    rng = stream(0, family, n_human, n_model or 0)
    rows: dict[str, list[tuple[float, ...]]] = {"tvd": [], "js": []}
    asked, perfect = [], []
    for number, probs in enumerate(truths(rng, family, n_items)):
        perfect.append(_perfect(probs, n_human, n_model, rng))
        counts = rng.multinomial(n_human, probs)
        own_rng = stream(0, family, n_human, n_model or 0, number)
        asked.append(floor.Asked(counts[counts > 0], n_human, n_model, own_rng))
    for (people, model), found in zip(perfect, floor.floors_of(asked), strict=True):
        for name, own in rows.items():
            score = float(floor.DISTANCES[name](people.ravel(), model.ravel(), _NONE).sum())
            score /= _REPEATS
            own.append((score, found[name].value, found[name].low, found[name].high))
    for name, own in rows.items():
        table = np.array(own)
        noise = float((table[:, 1] - table[:, 0]).std()) / n_items**0.5
        true, value, low, high = table.mean(axis=0).tolist()
        yield Found(name, true, value, low, high, noise)


def calibration(family: str, n_human: int, n_model: int | None, n_items: int) -> Iterator[Found]:
    """The floors of the calibration errors of as many items."""
    rng = stream(0, "calibration", family, n_human, n_model or 0)
    true, saved = [], []
    for number, probs in enumerate(truths(rng, family, n_items)):
        true.append([_answered(probs, n_human, n_model, rng) for _ in range(_REPEATS)])
        counts = rng.multinomial(n_human, probs)
        saved.append(saved_values(counts[counts > 0], 0, str(number)))
    columns = {name: np.array([[own[name]] for own in saved], dtype=float) for name in saved[0]}
    sizes = {"n_human": n_human, "n_model": n_model or np.nan, "confidence": 1.0}
    sizes |= dict.fromkeys(CORRECT.values(), 1.0)
    columns |= {name: np.full((n_items, 1), float(size)) for name, size in sizes.items()}
    tally = Tally()
    tally.add(columns)
    estimated = calibration_floors(tally, Bins(equal_width_edges()), Learnt())
    table = np.array(true)
    for number, target in enumerate(TARGETS, start=1):
        errors = [_ece(table[:, i, 0], table[:, i, number]) for i in range(_REPEATS)]
        one = estimated[f"ece_{target}"]
        ends = (one.value or 0.0, one.low or 0.0, one.high or 0.0)
        yield Found(f"ece_{target}", float(np.mean(errors)), *ends, 0.0)


def truths(rng: np.random.Generator, family: str, n_items: int) -> Iterator[Floats]:
    """So many distributions of a family."""
    if family == "passages":
        drawn = simulate(Design(1, 1, perfect=True), n_items // 7, rng)  # 7 contexts at least
        return iter(drawn.human_truth[:n_items])
    return (truth(rng, family) for _ in range(n_items))


def truth(rng: np.random.Generator, family: str) -> Floats:
    """A Zipf-like distribution of a family."""
    if family == "even":
        even: Floats = rng.dirichlet(np.full(60, 5.0))
        return even
    low, high, flattest, steepest = FAMILIES[family]
    weights = np.arange(1.0, rng.integers(low, high) + 1) ** -rng.uniform(flattest, steepest)
    probs: Floats = weights / weights.sum()
    return probs


def _perfect(
    probs: Floats, n_human: int, n_model: int | None, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    people = rng.multinomial(n_human, probs, _REPEATS) / n_human
    if n_model is None:
        return people, np.broadcast_to(probs, people.shape)
    return people, rng.multinomial(n_model, probs, _REPEATS) / n_model


def _answered(
    probs: Floats, n_human: int, n_model: int | None, rng: np.random.Generator
) -> tuple[float, ...]:
    """A perfect model's confidence, and whether it met the next word and each majority."""
    model = rng.multinomial(n_model, probs) / n_model if n_model else probs
    answer = _first(model, rng)
    crowds = (rng.multinomial(n, probs) for n in (n_human, max(1, n_human // 2)))
    met = (answer == _first(crowd, rng) for crowd in crowds)
    return float(model.max()), rng.random() < probs[answer], *met


def _first(counts: NDArray[Any], rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(counts == counts.max())))


def _ece(confidence: Floats, right: Floats) -> float:
    return ece(confidence, right, equal_width_edges()) or 0.0


def main(n_items: int = 1000) -> None:
    """Print a line a family, sizes and metric."""
    for family in ("passages", *FAMILIES, "even"):
        for n_human, n_model in SIZES:
            few = n_items // 5 if family == "huge" else n_items
            found = [*distances(family, n_human, n_model, few)]
            found += calibration(family, n_human, n_model, few)
            sizes = f"{family:6} {n_human:>4} v {n_model or 'exact':>5}"
            print(sizes, " ".join(map(_cell, found)), flush=True)


def _cell(one: Found) -> str:
    held = "" if one.low <= one.true <= one.high else " OUTSIDE"
    return f"| {one.metric} {one.true:.3f} {one.value - one.true:+.3f}{held}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
