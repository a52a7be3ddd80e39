"""How far is the calibration error of a small sample from that of all data? (Table 4)

The paper does not say whether its "test samples" are sentences or tokens. Both are computed:
subsets of tokens give about the printed values, subsets of sentences do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenTable
from aleatoric.errors import UsageError
from aleatoric.metrics import calibration
from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies.figure_data import Guide, Lines, LineSeries, plain
from aleatoric.types import Floats

SIZES = (10, 50, 500, 1000)
RUNS = 10
TOKENS, DOCUMENTS = "tokens", "documents"
_FIGURES = {TOKENS: "tab4_stability", DOCUMENTS: "tab4_stability_documents"}
Subsets = dict[int, list[NDArray[np.intp]]]
"""Size -> the numbers of the units in each subset."""
SubsetError = Callable[[NDArray[np.intp]], float]
"""Numbers of units -> the error of the tokens they hold."""


class SubsetSpread(NamedTuple):
    """Mean and standard deviation of an error over subsets of one size."""

    size: int
    mean: float
    deviation: float
    distance: float
    """|mean − the value on all units|."""


def run(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: Table 4 of the paper with tokens and with documents as the unit of a subset."""
    pairs = {
        "ECE": (table.confidence, table.correct),
        "e-ECE": (table.plain.confidence, table.plain.accuracy),
    }
    n_tokens, n_documents = len(table.unit), int(table.unit.max()) + 1
    if n_tokens < SIZES[0]:
        raise UsageError(f"stability needs at least {SIZES[0]} tokens; there are {n_tokens}.")
    by_token = {name: error_of_tokens(*pair, bins) for name, pair in pairs.items()}
    full = {name: error(np.arange(n_tokens)) for name, error in by_token.items()}
    sums = {name: sums_by_unit(table.unit, *pair, bins) for name, pair in pairs.items()}
    by_document = {name: error_of_documents(by_unit) for name, by_unit in sums.items()}
    tables, pictures = [], {}
    units = ((TOKENS, n_tokens, by_token), (DOCUMENTS, n_documents, by_document))
    for unit, n_units, errors in units:
        sizes = [size for size in SIZES if size <= n_units]
        subsets = draw_subsets(n_units, sizes, seed)
        by_metric = {name: [*spreads(error, full[name], subsets)] for name, error in errors.items()}
        tables.append(_table(by_metric, full, unit, n_units))
        if sizes:
            pictures[_FIGURES[unit]] = _picture(by_metric, full, unit)
    return Study("stability", tuple(tables), pictures)


def draw_subsets(n_units: int, sizes: Sequence[int], seed: int) -> Subsets:
    """`RUNS` subsets of each size, drawn without replacement, each with its own random stream."""
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
    """Bin sums per unit, (units, bins, 4), from which the error of any subset follows."""
    n_units = int(units.max()) + 1
    place = units * bins + calibration.bin_index(confidence, calibration.equal_width_edges(bins))
    sums = calibration.bin_sums(confidence, accuracy, place, n_units * bins)
    return sums.reshape(n_units, bins, calibration.N_COLUMNS)


def error_of_documents(sums: Floats) -> SubsetError:
    """The ECE of a set of documents, from their bin sums."""
    return lambda chosen: float(calibration.ece_of(sums[chosen].sum(axis=0)))


def error_of_tokens(confidence: Floats, accuracy: Floats, bins: int) -> SubsetError:
    """The ECE of a set of tokens."""
    index = calibration.bin_index(confidence, calibration.equal_width_edges(bins))

    def error(chosen: NDArray[np.intp]) -> float:
        chosen_tokens = (confidence[chosen], accuracy[chosen], index[chosen])
        return float(calibration.ece_of(calibration.bin_sums(*chosen_tokens, bins)))

    return error


def spreads(error: SubsetError, full: float, subsets: Subsets) -> Iterator[SubsetSpread]:
    """The spread of an error over subsets of each size; `full` is its value on all units."""
    for size, chosen in subsets.items():
        values = np.array([error(subset) for subset in chosen])
        mean = float(values.mean())
        yield SubsetSpread(size, mean, float(values.std(ddof=1)), abs(mean - full))


def _table(
    by_metric: dict[str, list[SubsetSpread]], full: dict[str, float], unit: str, n_units: int
) -> Table:
    rows = [
        (str(spreads[0].size), *(f"{100 * number:.2f}" for s in spreads for number in s[1:]))
        for spreads in zip(*by_metric.values(), strict=True)
    ]
    last = ("all", *(cell for value in full.values() for cell in (f"{100 * value:.2f}", "", "")))
    notes: tuple[str, ...] = (
        f"Mean, standard deviation and distance of the mean to the value on all {n_units} {unit}, "
        f"in percent, over {RUNS} subsets of {unit} without replacement; ECE and e-ECE on the same "
        "subsets.",
        f"A subset of nearly all {unit} cannot differ much from them: its spread says little.",
    )
    if not rows:
        notes = (f"{n_units} {unit} are too few for subsets of {SIZES[0]}.",)
    columns = ("n", *(f"{name} {part}" for name in by_metric for part in ("E", "σ", "Δ")))
    return Table(f"Stability, subsets of {unit}", columns, (*rows, last), notes)


def _picture(by_metric: dict[str, list[SubsetSpread]], full: dict[str, float], unit: str) -> Lines:
    lines = []
    for name, spreads in by_metric.items():
        mean, deviation = np.array([(spread.mean, spread.deviation) for spread in spreads]).T
        sizes = plain([spread.size for spread in spreads])
        band = (plain(100 * (mean - deviation)), plain(100 * (mean + deviation)))
        lines.append(LineSeries(name, sizes, plain(100 * mean), *band))
    marks = tuple(Guide(f"{name}, all", y=100 * value) for name, value in full.items())
    label = "error in percent, ± 1 sd"
    return Lines(f"Stability, subsets of {unit}", unit, label, tuple(lines), marks)
