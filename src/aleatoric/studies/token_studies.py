"""Studies of token-level runs, Tables 3 and 4 of the e-ECE paper.

`intrinsic` and `frequency`: where do ECE and e-ECE differ? By quartile of entropy and by token
frequency. `stability`: how far is the calibration error of a small sample from that of all data?
The paper does not say whether its "test samples" are sentences or tokens. Both are computed:
subsets of tokens give about the printed values, subsets of sentences do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenTable
from aleatoric.errors import UsageError
from aleatoric.metrics import calibration
from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies import notes_on
from aleatoric.studies.figure_data import Boxes, Guide, Lines, LineSeries, plain
from aleatoric.types import Floats

N_PARTS = 4
EDGES = (1, 2, 10, 100, 1000, 10_000)
"""The smallest number of occurrences in each band of frequency."""
_MOST_DRAWN = 20_000
_TITLE, _D = "Where ECE and e-ECE differ", "d = |(p̂−â) − (p̃−ã)|"


class Quartiles(NamedTuple):
    """Mean entropy and median d by quartile of entropy, and their correlation over tokens."""

    mean_entropy: tuple[float, ...]
    median_d: tuple[float, ...]
    counts: tuple[int, ...]
    r: float | None
    p_value: float | None


def intrinsic(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: Table 3 of the paper, and d by quartile of entropy as a figure."""
    if len(table.uncertainty) < N_PARTS:
        raise UsageError(f"intrinsic needs at least {N_PARTS} tokens.")
    result = quartiles(table.uncertainty, table.disagreement)
    parts = enumerate(_parts(table.uncertainty), 1)
    values = {f"Q{i}": _drawn(table.disagreement[part]) for i, part in parts}
    label = f"quartile of the entropy of {table.uncertainty_of}"
    boxes = Boxes(_TITLE, label, _D, values, "tokens")
    return Study(
        "intrinsic", (_quartile_table(result, table.uncertainty_of),), {"tab3_quartiles": boxes}
    )


def quartiles(entropy: Floats, d: Floats) -> Quartiles:
    """Split tokens into four equal parts by entropy; ties keep the order of the tokens."""
    from scipy.stats import pearsonr

    parts = _parts(entropy)
    r = p_value = None
    if len(d) > 2 and np.ptp(entropy) > 0 and np.ptp(d) > 0:
        r, p_value = (float(value) for value in pearsonr(entropy, d))
    means = plain([entropy[part].mean() for part in parts])
    medians = plain([np.median(d[part]) for part in parts])
    return Quartiles(means, medians, tuple(len(part) for part in parts), r, p_value)


def _parts(entropy: Floats) -> list[NDArray[np.intp]]:
    return np.array_split(np.argsort(entropy, kind="stable"), N_PARTS)


def _quartile_table(result: Quartiles, source: str) -> Table:
    named = zip(result.mean_entropy, result.median_d, result.counts, strict=True)
    rows = [(f"Q{i}", f"{h:.2f}", f"{d:.4f}", str(n)) for i, (h, d, n) in enumerate(named, 1)]
    r = p_value = "–"
    if result.r is not None and result.p_value is not None:
        r = f"{result.r:.3f}"
        p_value = f"p = {result.p_value:.2g}" if result.p_value > 1e-300 else "p < 1e-300"
    notes = notes_on("intrinsic", source=source, d=_D)
    columns = ("quartile", "E[H]", "m(d)", "tokens")
    return Table("Intrinsic uncertainty", columns, (*rows, ("r", r, p_value, "")), notes)


def frequency(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: d, accuracy and confidence by frequency of the token in the corpus itself."""
    if not len(table.target):
        raise UsageError("frequency needs at least one token.")
    # The band of each token: how often it occurs among all of them.
    _, place, counts = np.unique(table.target, return_inverse=True, return_counts=True)
    bands = np.searchsorted(EDGES, counts[place], side="right") - 1
    names = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(EDGES)]
    names.append(f"{EDGES[-1]}–")
    by_band = {names[i]: bands == i for i in np.unique(bands)}
    rows = tuple(_band_row(name, table, in_band) for name, in_band in by_band.items())
    values = {name: _drawn(table.disagreement[in_band]) for name, in_band in by_band.items()}
    boxes = Boxes(_TITLE, "occurrences of the reference token", _D, values, "tokens")
    columns = ("occurrences", "tokens", "types", "median d", "mean d", "gap ECE", "gap e-ECE")
    shown = Table("Frequency", columns, rows, notes_on("frequency", d=_D))
    return Study("frequency", (shown,), {"d_by_frequency": boxes})


def _band_row(name: str, table: TokenTable, in_band: NDArray[np.bool_]) -> tuple[str, ...]:
    d = table.disagreement[in_band]
    gap = (table.confidence - table.correct)[in_band].mean()
    expected = (table.plain.confidence - table.plain.accuracy)[in_band].mean()
    counts = (str(len(d)), str(len(np.unique(table.target[in_band]))))
    ds, gaps = (f"{np.median(d):.4f}", f"{d.mean():.4f}"), (f"{gap:+.4f}", f"{expected:+.4f}")
    return (name, *counts, *ds, *gaps)


def _drawn(d: Floats) -> tuple[float, ...]:
    """Some of the tokens: a figure of millions of points shows no more."""
    return plain(d[:: max(1, len(d) // _MOST_DRAWN)])


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


def stability(table: TokenTable, seed: int, bins: int = 15) -> Study:
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
        tables.append(_stability_table(by_metric, full, unit, n_units))
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


def _stability_table(
    by_metric: dict[str, list[SubsetSpread]], full: dict[str, float], unit: str, n_units: int
) -> Table:
    rows = [
        (str(spreads[0].size), *(f"{100 * number:.2f}" for s in spreads for number in s[1:]))
        for spreads in zip(*by_metric.values(), strict=True)
    ]
    last = ("all", *(cell for value in full.values() for cell in (f"{100 * value:.2f}", "", "")))
    notes = notes_on("stability", all=n_units, unit=unit, runs=RUNS)
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
