"""Word states by number, with their transitions remembered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleatoric.words.machine import FAILED, State, advance
from aleatoric.words.rules import normalise
from aleatoric.words.vocabulary import Key, Vocabulary

Index = NDArray[np.int64]


class States:
    """Every word state met so far has a number; 0 is the state before any text.

    Texts of all contexts pass through the same states (" many" leads to one state everywhere), so
    a transition is worked out once.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.end = len(vocabulary)
        """A token number that stands for all tokens that settle the outcome as it is."""
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._next: dict[int, int] = {}
        self._rows: dict[Key, int] = {}
        self._ends = np.zeros((0, len(vocabulary)), dtype=np.bool_)
        self._row_of: list[int] = []
        self._settled: list[bool] = []
        self._number(State())

    def ending(self, states: Index, tokens: Index) -> NDArray[np.bool_]:
        """Where a token settles the outcome of its state without adding a letter."""
        rows = np.array(self._row_of, dtype=np.int64)[states]
        found: NDArray[np.bool_] = self._ends[rows, tokens]
        return found

    def after(self, states: Index, tokens: Index) -> Index:
        """The states that follow, token by token."""
        keys = (states * (self.end + 1) + tokens).tolist()
        return np.array([self._step(key) for key in keys], dtype=np.int64)

    def settled(self, states: Index) -> NDArray[np.bool_]:
        """Which states nothing can change any more."""
        return np.array([self._settled[number] for number in states.tolist()], dtype=np.bool_)

    def word(self, state: int) -> str | None:
        """The word of a settled state, in the form in which words are compared."""
        found = self._states[state]
        return None if found.mode == FAILED else normalise(found.word)

    def _step(self, key: int) -> int:
        found = self._next.get(key)
        if found is None:
            state, token = divmod(key, self.end + 1)
            piece = None if token == self.end else self.vocabulary.pieces[token]
            found = self._number(advance(self._states[state], piece, self.vocabulary.lead))
            self._next[key] = found
        return found

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._settled.append(state.settled)
            self._row_of.append(-1 if state.settled else self._row((state.mode, state.pending)))
        return number

    def _row(self, key: Key) -> int:
        if key not in self._rows:
            row = np.zeros((1, self.end), dtype=np.bool_)
            row[0, self.vocabulary.table(key).ends] = True
            self._rows[key] = len(self._ends)
            self._ends = np.concatenate([self._ends, row])
        return self._rows[key]
