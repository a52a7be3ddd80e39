"""How far does a calibration error on few sentences stray from that on all? (Table 4)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.analyses.pictures import Line, Lines, Mark, plain
from aleatoric.errors import UsageError
from aleatoric.metrics.bins import N_COLUMNS, ece_of, token_columns
from aleatoric.metrics.calibration import bin_index, equal_width_edges
from aleatoric.streams import stream
from aleatoric.tokens.table import TokenTable
from aleatoric.types import Study, Table

Floats = NDArray[np.float64]
SIZES = (10, 50, 500, 1000)
RUNS = 10


@dataclass(frozen=True)
class Spread:
    """An error on subsets of one size: its mean and standard deviation over runs.

    `distance` is |mean − the value on all sentences|.
    """

    size: int
    mean: float
    deviation: float
    distance: float


def run(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: Table 4 of the paper for ECE and e-ECE, on the same subsets."""
    n_units = int(table.unit.max()) + 1
    sizes = [size for size in SIZES if size <= n_units]
    if not sizes:
        raise UsageError(f"stability needs at least {SIZES[0]} documents; there are {n_units}.")
    subsets = draw_subsets(n_units, sizes, seed)
    pairs = {
        "ECE": (table.confidence, table.correct),
        "e-ECE": (table.plain.confidence, table.plain.accuracy),
    }
    sums = {name: sums_by_unit(table.unit, *pair, bins) for name, pair in pairs.items()}
    full = {name: float(ece_of(own.sum(axis=0))) for name, own in sums.items()}
    found = {name: spreads(own, subsets) for name, own in sums.items()}
    picture = _picture(found, full)
    return Study("stability", (_table(found, full, n_units),), {"tab4_stability": picture})


def draw_subsets(
    n_units: int, sizes: Sequence[int], seed: int
) -> dict[int, list[NDArray[np.intp]]]:
    """`RUNS` subsets of each size, without replacement, each from a stream of its own.

    >>> subsets = draw_subsets(20, [10], seed=0)
    >>> len(subsets[10]), len(set(subsets[10][0].tolist()))
    (10, 10)
    """
    return {
        size: [
            stream(seed, "stability", size, number).choice(n_units, size, replace=False)
            for number in range(RUNS)
        ]
        for size in sizes
    }


def sums_by_unit(
    units: NDArray[np.int64], confidence: Floats, accuracy: Floats, bins: int
) -> Floats:
    """Bin sums of every unit, (units, bins, 4): errors of any subset follow without the tokens."""
    index = bin_index(confidence, equal_width_edges(bins)).astype(np.int64)
    shape = (int(units.max()) + 1, bins, N_COLUMNS)
    place = units * bins + index
    columns = token_columns(confidence, accuracy).T
    sums = [np.bincount(place, own, minlength=shape[0] * bins) for own in columns]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(shape)


def spreads(sums: Floats, subsets: dict[int, list[NDArray[np.intp]]]) -> list[Spread]:
    """The spread of ECE over subsets of each size.

    >>> sums = np.array([[[1.0, 0.5, 1.0, 1.0]], [[1.0, 0.5, 0.0, 0.0]]])
    >>> spreads(sums, {1: [np.array([0]), np.array([1])]})
    [Spread(size=1, mean=0.5, deviation=0.0, distance=0.5)]
    """
    full = float(ece_of(sums.sum(axis=0)))
    found = []
    for size, chosen in subsets.items():
        values = np.array([float(ece_of(sums[own].sum(axis=0))) for own in chosen])
        mean = float(values.mean())
        found.append(Spread(size, mean, float(values.std(ddof=1)), abs(mean - full)))
    return found


def _table(found: dict[str, list[Spread]], full: dict[str, float], n_units: int) -> Table:
    rows = [
        (str(sides[0].size), *(cell for own in sides for cell in _cells(own)))
        for sides in zip(*found.values(), strict=True)
    ]
    last = ("all", *(cell for own in full.values() for cell in (_percent(own), "", "")))
    notes = (
        f"Mean, standard deviation and distance of the mean to the value on all {n_units} units, "
        f"in percent, over {RUNS} subsets without replacement; ECE and e-ECE on the same subsets.",
        "A subset of nearly all units cannot differ much from them: its spread says little.",
    )
    columns = ("n", *(f"{name} {part}" for name in found for part in ("E", "σ", "Δ")))
    return Table("Stability", columns, (*rows, last), notes)


def _cells(own: Spread) -> tuple[str, str, str]:
    return _percent(own.mean), _percent(own.deviation), _percent(own.distance)


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _picture(found: dict[str, list[Spread]], full: dict[str, float]) -> Lines:
    lines = tuple(
        Line(
            name,
            plain([own.size for own in spreads]),
            plain([100 * own.mean for own in spreads]),
            plain([100 * (own.mean - own.deviation) for own in spreads]),
            plain([100 * (own.mean + own.deviation) for own in spreads]),
        )
        for name, spreads in found.items()
    )
    marks = tuple(Mark(f"{name}, all", y=100 * value) for name, value in full.items())
    return Lines("Stability", "documents or sentences", "error in percent, ± 1 sd", lines, marks)
