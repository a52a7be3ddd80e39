"""How far is a calibration error on a small sample from the error on all data? (Table 4)

The paper says "test samples" and does not say whether those are sentences or tokens. Both units
are offered: subsets of tokens give about the printed values, subsets of sentences do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenTable
from aleatoric.errors import UsageError
from aleatoric.metrics.calibration import (
    N_COLUMNS,
    bin_index,
    bin_sums,
    ece_of,
    equal_width_edges,
    token_columns,
)
from aleatoric.rng import stream
from aleatoric.studies.figure_data import Line, Lines, Mark, plain
from aleatoric.types import Floats, Study, Table

SIZES = (10, 50, 500, 1000)
RUNS = 10
TOKENS, DOCUMENTS = "tokens", "documents"
_FIGURES = {TOKENS: "tab4_stability", DOCUMENTS: "tab4_stability_documents"}
Subsets = dict[int, list[NDArray[np.intp]]]
"""Size -> the numbers of the units in each subset."""
SubsetError = Callable[[NDArray[np.intp]], float]
"""Numbers of units -> the error of the tokens they hold."""


@dataclass(frozen=True)
class Spread:
    """An error on subsets of one size: its mean and standard deviation over runs.

    `distance` is |mean − the value on all units|.
    """

    size: int
    mean: float
    deviation: float
    distance: float


class Pair(NamedTuple):
    """A confidence and an accuracy for each token."""

    confidence: Floats
    accuracy: Floats


def run(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: Table 4 of the paper with tokens and with documents as the unit of a subset."""
    pairs = {
        "ECE": Pair(table.confidence, table.correct),
        "e-ECE": Pair(table.plain.confidence, table.plain.accuracy),
    }
    n_tokens, n_documents = len(table.unit), int(table.unit.max()) + 1
    if n_tokens < SIZES[0]:
        raise UsageError(f"stability needs at least {SIZES[0]} tokens; there are {n_tokens}.")
    full = {name: error_of_tokens(pair, bins)(np.arange(n_tokens)) for name, pair in pairs.items()}
    by_token = {name: error_of_tokens(pair, bins) for name, pair in pairs.items()}
    by_document = {
        name: error_of_documents(sums_by_unit(table.unit, *pair, bins))
        for name, pair in pairs.items()
    }
    tables, pictures = [], {}
    units = ((TOKENS, n_tokens, by_token), (DOCUMENTS, n_documents, by_document))
    for unit, n_units, errors in units:
        sizes = [size for size in SIZES if size <= n_units]
        subsets = draw_subsets(n_units, sizes, seed)
        found = {name: spreads(own, full[name], subsets) for name, own in errors.items()}
        tables.append(_table(found, full, unit, n_units))
        if sizes:
            pictures[_FIGURES[unit]] = _picture(found, full, unit)
    return Study("stability", tuple(tables), pictures)


def draw_subsets(n_units: int, sizes: Sequence[int], seed: int) -> Subsets:
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


def error_of_documents(sums: Floats) -> SubsetError:
    """The ECE of a set of documents, from their bin sums."""
    return lambda chosen: float(ece_of(sums[chosen].sum(axis=0)))


def error_of_tokens(pair: Pair, bins: int) -> SubsetError:
    """The ECE of a set of tokens.

    >>> pair = Pair(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    >>> error_of_tokens(pair, bins=2)(np.array([0]))
    0.5
    """
    edges = equal_width_edges(bins)

    def error(chosen: NDArray[np.intp]) -> float:
        confidence, accuracy = pair.confidence[chosen], pair.accuracy[chosen]
        return float(ece_of(bin_sums(confidence, accuracy, bin_index(confidence, edges), bins)))

    return error


def spreads(error: SubsetError, full: float, subsets: Subsets) -> list[Spread]:
    """The spread of an error over subsets of each size; `full` is its value on all units.

    >>> sums = np.array([[[1.0, 0.5, 1.0, 1.0]], [[1.0, 0.5, 0.0, 0.0]]])
    >>> spreads(error_of_documents(sums), 0.0, {1: [np.array([0]), np.array([1])]})
    [Spread(size=1, mean=0.5, deviation=0.0, distance=0.5)]
    """
    found = []
    for size, chosen in subsets.items():
        values = np.array([error(own) for own in chosen])
        mean = float(values.mean())
        found.append(Spread(size, mean, float(values.std(ddof=1)), abs(mean - full)))
    return found


def _table(
    found: dict[str, list[Spread]], full: dict[str, float], unit: str, n_units: int
) -> Table:
    rows = [
        (str(sides[0].size), *(cell for own in sides for cell in _cells(own)))
        for sides in zip(*found.values(), strict=True)
    ]
    last = ("all", *(cell for own in full.values() for cell in (_percent(own), "", "")))
    notes: tuple[str, ...] = (
        f"Mean, standard deviation and distance of the mean to the value on all {n_units} {unit}, "
        f"in percent, over {RUNS} subsets of {unit} without replacement; ECE and e-ECE on the same "
        "subsets.",
        f"A subset of nearly all {unit} cannot differ much from them: its spread says little.",
    )
    if not rows:
        notes = (f"{n_units} {unit} are too few for subsets of {SIZES[0]}.",)
    columns = ("n", *(f"{name} {part}" for name in found for part in ("E", "σ", "Δ")))
    return Table(f"Stability, subsets of {unit}", columns, (*rows, last), notes)


def _cells(own: Spread) -> tuple[str, str, str]:
    return _percent(own.mean), _percent(own.deviation), _percent(own.distance)


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _picture(found: dict[str, list[Spread]], full: dict[str, float], unit: str) -> Lines:
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
    return Lines(f"Stability, subsets of {unit}", unit, "error in percent, ± 1 sd", lines, marks)
