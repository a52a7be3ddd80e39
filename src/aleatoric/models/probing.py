"""A small tree with which a model is tried: does it attend in tiles as it does with masks?

Two passages are packed behind one another; below three contexts of them, of different depth, grow
branches. Tokens far apart in the pack are near one another in a text and the other way round, so
that a model that looks only at what is near, or at what stands before, gives other numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
DEPTH = 24
"""Tokens of the longest text of the tree, where a model takes so many."""
BRANCH = (-1, -1, 0, 0, 1, 2)
"""Below each context: the parents of its nodes."""


@dataclass(frozen=True)
class ProbeTree:
    """Tokens of one forward pass, and what each of them sees.

    `spans` are the columns start..stop-1 that a token sees, `others` further ones in rows filled up
    with -1.
    """

    ids: Index
    positions: Index
    spans: Index
    others: Index

    @classmethod
    def of(cls, vocabulary: int, window: int) -> ProbeTree:
        """A tree of tokens below `vocabulary` whose texts are no longer than `window`.

        >>> tree = ProbeTree.of(5, 16)
        >>> len(tree.ids), int(tree.positions.max())
        (35, 15)
        >>> ProbeTree.of(7, 16).ids[:4].tolist()
        [1, 2, 3, 4]
        """
        depth = max(2, min(window, DEPTH))
        long = max(1, depth - 3)
        short = max(1, depth // 4)
        trunk = [(0, place) for place in range(long)] + [(long, place) for place in range(short)]
        rows: list[Sight] = [
            (place, start, start + place, (start + place,)) for start, place in trunk
        ]
        for start, length in ((0, max(1, long // 2)), (0, long), (long, short)):
            rows += _branches(start, length, len(rows), depth)
        return cls._filled(rows, vocabulary)

    @classmethod
    def _filled(cls, rows: list[Sight], vocabulary: int) -> ProbeTree:
        width = max(len(own) for *_, own in rows)
        others = [(*own, *[-1] * (width - len(own))) for *_, own in rows]
        step = 7 if vocabulary % 7 else 1  # neighbours differ, of however many tokens they are
        ids = 1 + step * np.arange(len(rows))
        spans = np.array([[start, stop] for _, start, stop, _ in rows])
        positions = np.array([position for position, *_ in rows])
        return cls(ids % vocabulary, positions, spans, np.array(others))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """`mask[i, j]`: whether token i sees token j."""
        columns = np.arange(len(self.ids))
        seen = (columns >= self.spans[:, :1]) & (columns < self.spans[:, 1:])
        rows, places = np.nonzero(self.others >= 0)
        seen[rows, self.others[rows, places]] = True
        return seen


Sight = tuple[int, int, int, tuple[int, ...]]
"""The position of a token, the columns that it sees from one to another, and further ones."""


def _branches(start: int, length: int, first: int, depth: int) -> list[Sight]:
    """The nodes below a context that begins at a column and is so long."""
    found: list[Sight] = []
    for place, parent in enumerate(BRANCH):
        above = () if parent < 0 else found[parent][3]
        position = length + len(above)
        if position >= depth:  # the model takes no longer texts
            break
        found.append((position, start, start + length, (*above, first + place)))
    return found
