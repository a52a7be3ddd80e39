"""Do ECE and e-ECE part where the language itself is uncertain? Quartiles of entropy (Table 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.analyses.pictures import Boxes, plain
from aleatoric.errors import UsageError
from aleatoric.tokens.table import TokenTable
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


def run(table: TokenTable, seed: int, bins: int = 15) -> Study:
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
