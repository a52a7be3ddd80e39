"""Reductions from per-item statistics to one number, through sums.

A reduction (`aleatoric.inference.estimate.Reduction`) maps a chunk of items to additive columns,
and sums of columns to a value. A bootstrap needs only sums per group: it never re-scores an item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aleatoric.types import Floats

Chunk = Mapping[str, Floats]
"""Maps a statistic's name to (items, splits) values; one split if not split. NaN is undefined."""


@dataclass(frozen=True)
class Mean:
    """The mean of a statistic over items, per split."""

    statistic: str

    def columns(self, chunk: Chunk) -> Floats:
        """The values, with 0 for undefined, and indicators of the defined ones."""
        values = chunk[self.statistic]
        is_defined = np.isfinite(values)
        return np.concatenate([np.where(is_defined, values, 0.0), is_defined], axis=1)

    def values(self, sums: Floats) -> Floats:
        """Sum over count, per split."""
        totals, counts = np.split(sums, 2, axis=-1)
        return divide(totals, counts)

    def defined(self, sums: Floats) -> int:
        """Items with a value in at least one split."""
        return int(np.split(sums, 2, axis=-1)[1].max())


@dataclass(frozen=True)
class FiniteMean:
    """The mean of a statistic; undefined if it is missing on an item where `beside` is defined."""

    statistic: str
    beside: str

    def columns(self, chunk: Chunk) -> Floats:
        """The columns of the mean, and the number of infinite values."""
        mean = Mean(self.statistic).columns(chunk)
        infinite = np.isfinite(chunk[self.beside][:, :1]) & (mean[:, 1:2] == 0)
        return np.concatenate([mean, infinite], axis=1)

    def values(self, sums: Floats) -> Floats:
        """Sum over count; NaN if an item is infinite."""
        means = divide(sums[..., 0:1], sums[..., 1:2])
        return np.where(sums[..., 2:3] > 0, np.nan, means)

    def defined(self, sums: Floats) -> int:
        """Items with a finite value."""
        return int(sums[..., 1].max())


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation of two statistics over the items that have both.

    Both should be centered and scaled: sums of squares of values far from 0 lose digits.
    """

    first: str
    second: str

    def columns(self, chunk: Chunk) -> Floats:
        """Count, sums, squares and product; 0 where either statistic is undefined."""
        x, y = chunk[self.first][:, :1], chunk[self.second][:, :1]
        parts = np.concatenate([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
        return np.where(np.isfinite(x + y), parts, 0.0)

    def values(self, sums: Floats) -> Floats:
        """The correlation; NaN of fewer than three items, or if a statistic is constant."""
        n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        spread = np.maximum(n * xx - x * x, 0.0) * np.maximum(n * yy - y * y, 0.0)
        known = (n > 2) & (spread > 1e-12 * np.maximum(n, 1) ** 4)
        return divide(n * xy - x * y, np.where(known, np.sqrt(spread), 0.0))[..., None]

    def defined(self, sums: Floats) -> int:
        """Items with both statistics."""
        return int(sums[..., 0].max())


def divide(totals: Floats, counts: Floats) -> Floats:
    """`totals / counts`, NaN where the count is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = np.where(counts > 0, totals / counts, np.nan)
    return quotient
