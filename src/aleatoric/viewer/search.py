"""Finding items by what their contexts say: one long text, held in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

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
    starts: tuple[int, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextIndex:
        """The index of some texts, their case set aside."""
        folded = [text.replace(APART, " ").casefold() for text in texts]
        starts = accumulate((len(one) + 1 for one in folded), initial=0)
        return cls(APART.join([*folded, ""]), tuple(starts))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def holding(self, query: str) -> Flags:
        """Which texts hold the query as it stands, whatever its case."""
        wanted = query.replace(APART, "").casefold()
        found = np.zeros(len(self), dtype=np.bool_)
        if not wanted:
            return ~found
        found[self._numbers_holding(wanted)] = True
        return found

    def _numbers_holding(self, wanted: str) -> list[int]:
        # A short query is in every text: this loop is all that a search costs.
        text, starts, find, numbers = self.text, self.starts, self.text.find, []
        place, number = text.find(wanted), 0
        while place >= 0:
            number = bisect_right(starts, place, number) - 1
            numbers.append(number)
            # One hit a text is enough: go on in the next one.
            number += 1
            place = find(wanted, starts[number])
        return numbers
