"""Which tokens lead from one beginning of a word to another, looked up once."""

from __future__ import annotations

from typing import Literal

import numpy as np

from aleatoric.types import Ints
from aleatoric.words.beginnings import Beginnings
from aleatoric.words.machine import LEAD
from aleatoric.words.ragged import Ragged
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
        self._known: dict[Kind, dict[int, Ints]] = {"grows": {}, "closes": {}}

    def tokens(self, kind: Kind, tables: Ints, bases: Ints, targets: Ints) -> tuple[Ints, Ints]:
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

    def _inside(self, kind: Kind, tables: Ints, bases: Ints, targets: Ints) -> tuple[Ints, Ints]:
        size = len(self._beginnings)
        # Where the text stands at its target already, the beginning does not matter.
        staying = bases == targets
        bases, targets = np.where(staying, 0, bases), np.where(staying, 0, targets)
        codes, which = np.unique((tables * size + bases) * size + targets, return_inverse=True)
        known = self._known[kind]
        self._learn(kind, [code for code in codes.tolist() if code not in known])
        return Ragged.of([known[code] for code in codes.tolist()]).take(which)

    def _learn(self, kind: Kind, codes: list[int]) -> None:
        """Look up steps not met before."""
        rest, targets = np.divmod(np.array(codes, dtype=np.int64), len(self._beginnings))
        tables, bases = np.divmod(rest, len(self._beginnings))
        letters, known = self._beginnings.letters, self._known[kind]
        indices = {table: self._index(kind, table) for table in np.unique(tables).tolist()}
        steps = zip(codes, tables.tolist(), bases.tolist(), targets.tolist(), strict=True)
        for code, table, base, target in steps:
            before, after = letters[base], letters[target]
            there = after.startswith(before)
            known[code] = indices[table].get(after[len(before) :], _NONE) if there else _NONE

    def _index(self, kind: Kind, table: int) -> dict[str, Ints]:
        found = self._vocabulary.numbered(table)
        return found.grows if kind == "grows" else found.closes
