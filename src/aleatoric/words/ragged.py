"""Rows of unequal lengths, one after another in one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.types import Ints


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i is `values[starts[i]:starts[i + 1]]`.

    >>> rows = Ragged.of([np.array([7, 8]), np.array([9])])
    >>> which, values = rows.take(np.array([1, 0, 0]))
    >>> which.tolist(), values.tolist()
    ([0, 1, 1, 2, 2], [9, 7, 8, 7, 8])
    """

    starts: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Ints]) -> Ragged:
        """The given rows."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
        values = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        return cls(starts, values.astype(np.int64, copy=False))

    @classmethod
    def grouped(cls, owners: Ints, values: Ints, count: int) -> Ragged:
        """`values` collected by their owners 0..count-1, each in the order given."""
        order = np.argsort(owners, kind="stable")
        sizes = np.bincount(owners, minlength=count)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), values[order])

    def take(self, rows: Ints) -> tuple[Ints, Ints]:
        """The values of some rows, with which of the rows each belongs to."""
        counts = self.starts[rows + 1] - self.starts[rows]
        which = np.repeat(np.arange(len(rows)), counts)
        before = np.cumsum(counts) - counts
        places = np.arange(len(which)) + (self.starts[rows] - before)[which]
        return which, self.values[places]
