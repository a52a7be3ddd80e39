"""Where do ECE and e-ECE differ? By quartile of entropy (Table 3) and by token frequency."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenTable
from aleatoric.errors import UsageError
from aleatoric.result_types import Study, Table
from aleatoric.studies.figure_data import Boxes, plain
from aleatoric.types import Floats

N_PARTS = 4
EDGES = (1, 2, 10, 100, 1000, 10_000)
"""The smallest number of occurrences in each band of frequency."""
_MOST_DRAWN = 20_000
_TITLE, _D = "Where ECE and e-ECE differ", "d = |(p̂−â) − (p̃−ã)|"
_FREQUENCY_NOTES = (
    "Bands: how often the reference token occurs in the rows themselves.",
    f"{_D}; gap: mean of confidence − accuracy, plain and expected.",
)


class Quartiles(NamedTuple):
    """Mean entropy and median d by quartile of entropy, and their correlation over tokens."""

    mean_entropy: tuple[float, ...]
    median_d: tuple[float, ...]
    counts: tuple[int, ...]
    r: float | None
    p_value: float | None


def run_intrinsic(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: Table 3 of the paper, and d by quartile of entropy as a figure."""
    if len(table.uncertainty) < N_PARTS:
        raise UsageError(f"intrinsic needs at least {N_PARTS} tokens.")
    result = quartiles(table.uncertainty, table.disagreement)
    parts = enumerate(_parts(table.uncertainty), 1)
    values = {f"Q{i}": _drawn(table.disagreement[part]) for i, part in parts}
    label = f"quartile of the entropy of {table.uncertainty_of}"
    boxes = Boxes(_TITLE, label, _D, values, "tokens")
    return Study("intrinsic", (_table(result, table.uncertainty_of),), {"tab3_quartiles": boxes})


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


def _table(result: Quartiles, source: str) -> Table:
    named = zip(result.mean_entropy, result.median_d, result.counts, strict=True)
    rows = [(f"Q{i}", f"{h:.2f}", f"{d:.4f}", str(n)) for i, (h, d, n) in enumerate(named, 1)]
    r = p_value = "–"
    if result.r is not None and result.p_value is not None:
        r = f"{result.r:.3f}"
        p_value = f"p = {result.p_value:.2g}" if result.p_value > 1e-300 else "p < 1e-300"
    notes = (
        f"E[H]: mean entropy in nats, of {source}; m(d): median of {_D}.",
        "r: Pearson correlation of H and d over tokens; its p-value treats tokens as independent.",
    )
    columns = ("quartile", "E[H]", "m(d)", "tokens")
    return Table("Intrinsic uncertainty", columns, (*rows, ("r", r, p_value, "")), notes)


def run_frequency(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: d, accuracy and confidence by frequency of the token in the corpus itself."""
    if not len(table.target):
        raise UsageError("frequency needs at least one token.")
    # The band of each token: how often it occurs among all of them.
    _, place, counts = np.unique(table.target, return_inverse=True, return_counts=True)
    bands = np.searchsorted(EDGES, counts[place], side="right") - 1
    names = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(EDGES)]
    names.append(f"{EDGES[-1]}–")
    by_band = {names[i]: bands == i for i in np.unique(bands)}
    rows = tuple(_row(name, table, in_band) for name, in_band in by_band.items())
    values = {name: _drawn(table.disagreement[in_band]) for name, in_band in by_band.items()}
    boxes = Boxes(_TITLE, "occurrences of the reference token", _D, values, "tokens")
    columns = ("occurrences", "tokens", "types", "median d", "mean d", "gap ECE", "gap e-ECE")
    shown = Table("Frequency", columns, rows, _FREQUENCY_NOTES)
    return Study("frequency", (shown,), {"d_by_frequency": boxes})


def _row(name: str, table: TokenTable, in_band: NDArray[np.bool_]) -> tuple[str, ...]:
    d = table.disagreement[in_band]
    gap = (table.confidence - table.correct)[in_band].mean()
    expected = (table.plain.confidence - table.plain.accuracy)[in_band].mean()
    counts = (str(len(d)), str(len(np.unique(table.target[in_band]))))
    ds, gaps = (f"{np.median(d):.4f}", f"{d.mean():.4f}"), (f"{gap:+.4f}", f"{expected:+.4f}")
    return (name, *counts, *ds, *gaps)


def _drawn(d: Floats) -> tuple[float, ...]:
    """Some of the tokens: a figure of millions of points shows no more."""
    return plain(d[:: max(1, len(d) // _MOST_DRAWN)])
