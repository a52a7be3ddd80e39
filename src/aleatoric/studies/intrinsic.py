"""Do ECE and e-ECE part where the language itself is uncertain? Quartiles of entropy (Table 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenTable
from aleatoric.errors import UsageError
from aleatoric.studies.figure_data import Boxes, plain
from aleatoric.types import Floats, Study, Table

N_PARTS = 4
_MOST_DRAWN = 20_000


@dataclass(frozen=True)
class Quartiles:
    """Mean entropy and median d by quartile of entropy, and their correlation over tokens."""

    mean_entropy: tuple[float, ...]
    median_d: tuple[float, ...]
    counts: tuple[int, ...]
    r: float | None
    p_value: float | None


def run_intrinsic(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: Table 3 of the paper, and d by quartile as a figure."""
    if len(table.uncertainty) < N_PARTS:
        raise UsageError(f"intrinsic needs at least {N_PARTS} tokens.")
    found = quartiles(table.uncertainty, table.disagreement)
    return Study(
        "intrinsic", (_table(found, table.uncertainty_of),), {"tab3_quartiles": _boxes(table)}
    )


def quartiles(entropy: Floats, d: Floats) -> Quartiles:
    """Tokens in four equal parts by entropy; equal entropies go by the order of the tokens.

    >>> found = quartiles(np.arange(8.0), np.array([0, 0, 0, 1, 1, 1, 2, 2.0]))
    >>> found.mean_entropy, found.median_d
    ((0.5, 2.5, 4.5, 6.5), (0.0, 0.5, 1.0, 2.0))
    """
    from scipy.stats import pearsonr

    parts = _parts(entropy)
    r = p_value = None
    if len(d) > 2 and np.ptp(entropy) > 0 and np.ptp(d) > 0:
        r, p_value = (float(value) for value in pearsonr(entropy, d))
    return Quartiles(
        plain([entropy[part].mean() for part in parts]),
        plain([np.median(d[part]) for part in parts]),
        tuple(len(part) for part in parts),
        r,
        p_value,
    )


def _parts(entropy: Floats) -> list[NDArray[np.intp]]:
    return np.array_split(np.argsort(entropy, kind="stable"), N_PARTS)


def _table(found: Quartiles, source: str) -> Table:
    named = zip(found.mean_entropy, found.median_d, found.counts, strict=True)
    rows = [(f"Q{i}", f"{h:.2f}", f"{d:.4f}", str(n)) for i, (h, d, n) in enumerate(named, 1)]
    shown = "–" if found.r is None else f"{found.r:.3f}"
    p_value = "–" if found.p_value is None else shown_p(found.p_value)
    notes = (
        f"E[H]: mean entropy in nats, of {source}; m(d): median of d = |(p̂−â) − (p̃−ã)|.",
        "r: Pearson correlation of H and d over tokens; its p-value takes tokens for independent.",
    )
    columns = ("quartile", "E[H]", "m(d)", "tokens")
    return Table("Intrinsic uncertainty", columns, (*rows, ("r", shown, p_value, "")), notes)


def shown_p(p_value: float) -> str:
    """A p-value as text; beyond what can be told from 0 as a bound.

    >>> shown_p(0.031), shown_p(0.0)
    ('p = 0.031', 'p < 1e-300')
    """
    return f"p = {p_value:.2g}" if p_value > 1e-300 else "p < 1e-300"


def _boxes(table: TokenTable) -> Boxes:
    d = table.disagreement
    # Some of the tokens: a picture of millions of points shows no more.
    values = {
        f"Q{i}": plain(d[part][:: max(1, len(part) // _MOST_DRAWN)])
        for i, part in enumerate(_parts(table.uncertainty), 1)
    }
    label = f"quartile of the entropy of {table.uncertainty_of}"
    return Boxes("Where ECE and e-ECE part", label, "d = |(p̂−â) − (p̃−ã)|", values, "tokens")


EDGES = (1, 2, 10, 100, 1000, 10_000)
"""The least number of occurrences of each band."""


def run_frequency(table: TokenTable, seed: int, bins: int = 15) -> Study:
    """The study: d, accuracy and confidence by band of frequency in the corpus itself."""
    if not len(table.target):
        raise UsageError("frequency needs at least one token.")
    bands = band_of(table.target)
    names = band_names()
    rows = tuple(_row(names[i], table, bands == i) for i in np.unique(bands))
    picture = {names[i]: _drawn(table, bands == i) for i in np.unique(bands)}
    label = "occurrences of the reference token"
    boxes = Boxes("Where ECE and e-ECE part", label, "d = |(p̂−â) − (p̃−ã)|", picture, "tokens")
    notes = (
        "Bands: how often the reference token stands in the rows themselves.",
        "d = |(p̂−â) − (p̃−ã)|; gap: mean of confidence − accuracy, plain and expected.",
    )
    columns = ("occurrences", "tokens", "types", "median d", "mean d", "gap ECE", "gap e-ECE")
    return Study(
        "frequency", (Table("Frequency", columns, rows, notes),), {"d_by_frequency": boxes}
    )


def band_of(tokens: NDArray[np.int64]) -> NDArray[np.intp]:
    """The band of each token: how often it occurs among them all.

    >>> band_of(np.array([5, 5, 7])).tolist()
    [1, 1, 0]
    """
    _, place, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    found: NDArray[np.intp] = np.searchsorted(EDGES, counts[place], side="right") - 1
    return found


def band_names() -> list[str]:
    """The bands in words.

    >>> band_names()[:3]
    ['1', '2–9', '10–99']
    """
    ends = [str(end - 1) for end in EDGES[1:]]
    names = [str(a) if str(a) == b else f"{a}–{b}" for a, b in zip(EDGES, ends, strict=False)]
    return [*names, f"{EDGES[-1]}–"]


def _row(name: str, table: TokenTable, here: NDArray[np.bool_]) -> tuple[str, ...]:
    d = table.disagreement[here]
    gap = (table.confidence - table.correct)[here].mean()
    expected = (table.plain.confidence - table.plain.accuracy)[here].mean()
    types = len(np.unique(table.target[here]))
    numbers = (np.median(d), d.mean())
    return (
        name,
        str(len(d)),
        str(types),
        *(f"{value:.4f}" for value in numbers),
        f"{gap:+.4f}",
        f"{expected:+.4f}",
    )


def _drawn(table: TokenTable, here: NDArray[np.bool_]) -> tuple[float, ...]:
    d = table.disagreement[here]
    return plain(d[:: max(1, len(d) // _MOST_DRAWN)])
