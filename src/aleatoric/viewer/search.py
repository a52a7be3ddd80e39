"""Finding items by what their contexts say: one long text, held in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
APART = "\0"
"""Stands between two contexts; no query can hold it."""


@dataclass(frozen=True)
class TextIndex:
    """All texts in one, and where each begins.

    >>> index = TextIndex.of(["There are", "They were", "Where is"])
    >>> index.holding("ERE").tolist(), index.holding("they ").tolist()
    ([True, True, True], [False, True, False])
    """

    text: str
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextIndex:
        """The index of some texts, their case set aside."""
        folded = [text.replace(APART, " ").casefold() for text in texts]
        lengths = np.fromiter((len(one) + 1 for one in folded), np.int64, len(folded))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return cls(APART.join([*folded, ""]), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def holding(self, query: str) -> Flags:
        """Which texts hold the query as it stands, whatever its case."""
        wanted = query.replace(APART, "").casefold()
        found = np.zeros(len(self), dtype=np.bool_)
        if not wanted:
            return ~found
        starts, place = self.starts.tolist(), self.text.find(wanted)
        while place >= 0:
            number = int(np.searchsorted(self.starts, place, side="right")) - 1
            found[number] = True
            # One hit a text is enough: go on in the next one.
            place = self.text.find(wanted, starts[number + 1])
        return found
