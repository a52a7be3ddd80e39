"""Finding items by what their contexts say: their texts are held in memory, case set aside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class TextIndex:
    """The texts of all items, ready to be looked through.

    >>> index = TextIndex.of(["There are", "They were", "Where is"])
    >>> index.holding("ERE").tolist(), index.holding("they ").tolist()
    ([True, True, True], [False, True, False])
    """

    texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextIndex:
        """The index of some texts."""
        return cls(tuple(text.casefold() for text in texts))

    def __len__(self) -> int:
        return len(self.texts)

    def holding(self, query: str) -> Flags:
        """Which texts hold the query as it stands, whatever its case."""
        wanted = query.casefold()
        # A text at a time: one long text is quicker for a rare word, far slower for a letter.
        return np.array([wanted in text for text in self.texts], dtype=np.bool_)
