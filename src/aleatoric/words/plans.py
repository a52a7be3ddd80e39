"""Which tokens lead from one beginning of a word to another, looked up once."""

from __future__ import annotations

from typing import Literal

import numpy as np

from aleatoric.words.beginnings import Beginnings
from aleatoric.words.machine import LEAD
from aleatoric.words.ragged import Index, Ragged
from aleatoric.words.vocabulary import Vocabulary

Kind = Literal["grows", "closes"]
"""Tokens that leave the word open at the target, or that end it there."""
_NONE = np.zeros(0, dtype=np.int64)


class Plans:
    """Tokens by (table, beginning where a text stands, beginning where it is to stand)."""

    def __init__(self, vocabulary: Vocabulary, beginnings: Beginnings) -> None:
        self._vocabulary = vocabulary
        self._beginnings = beginnings
        self._from_start: dict[Kind, Ragged] = {}
        self._known: dict[Kind, dict[int, Index]] = {"grows": {}, "closes": {}}

    def tokens(
        self, kind: Kind, tables: Index, bases: Index, targets: Index
    ) -> tuple[Index, Index]:
        """(which of the given steps, token) for every token that makes one of them."""
        start = (bases == 0) & (tables == LEAD)
        first, others = np.flatnonzero(start), np.flatnonzero(~start)
        which, begun = self._starting(kind).take(targets[first])
        inside, going = self._inside(kind, tables[others], bases[others], targets[others])
        return np.concatenate([first[which], others[inside]]), np.concatenate([begun, going])

    def _starting(self, kind: Kind) -> Ragged:
        """The tokens that write each beginning right after a context: asked for most often."""
        if kind not in self._from_start:
            index = self._index(kind, LEAD)
            rows = [index.get(letters, _NONE) for letters in self._beginnings.letters]
            self._from_start[kind] = Ragged.of(rows)
        return self._from_start[kind]

    def _inside(
        self, kind: Kind, tables: Index, bases: Index, targets: Index
    ) -> tuple[Index, Index]:
        size = len(self._beginnings)
        # Where the text stands at its target already, the beginning does not matter.
        staying = bases == targets
        bases, targets = np.where(staying, 0, bases), np.where(staying, 0, targets)
        codes, which = np.unique((tables * size + bases) * size + targets, return_inverse=True)
        rows = [self._step(kind, code) for code in codes.tolist()]
        return Ragged.of(rows).take(which)

    def _step(self, kind: Kind, code: int) -> Index:
        found = self._known[kind].get(code)
        if found is None:
            rest, target = divmod(code, len(self._beginnings))
            table, base = divmod(rest, len(self._beginnings))
            found = self._known[kind][code] = self._look_up(kind, table, base, target)
        return found

    def _look_up(self, kind: Kind, table: int, base: int, target: int) -> Index:
        before, after = self._beginnings.letters[base], self._beginnings.letters[target]
        if not after.startswith(before):
            return _NONE
        return self._index(kind, table).get(after[len(before) :], _NONE)

    def _index(self, kind: Kind, table: int) -> dict[str, Index]:
        found = self._vocabulary.numbered(table)
        return found.grows if kind == "grows" else found.closes
