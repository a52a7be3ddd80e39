"""Word states by number, with their transitions remembered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Ints
from aleatoric.words.frontier import Entry, follow, root
from aleatoric.words.machine import DONE, FAILED, LEAD, compose
from aleatoric.words.vocabulary import Key, Vocabulary

State = tuple[Key, str, str]
"""The table of the next token, the folded word so far, and an undecided joiner."""


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
        self._known: Ints = np.zeros(0, dtype=np.int64)
        self._next: Ints = np.zeros(0, dtype=np.int64)
        self._rows: dict[Key, int] = {}
        self._ends = np.zeros((0, len(vocabulary)), dtype=np.bool_)
        self._row_of = np.zeros(0, dtype=np.int64)
        self._words: list[str | None] = []
        start = root()
        self._number((start.key, start.word, start.joiner))
        self._complete()

    def __len__(self) -> int:
        return len(self._states)

    def ending(self, states: Ints, tokens: Ints) -> NDArray[np.bool_]:
        """Where a token settles the outcome of its state without adding a letter."""
        found: NDArray[np.bool_] = self._ends[self._row_of[states], tokens]
        return found

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """The states that follow, token by token."""
        steps = states * (self.end + 1) + tokens
        self._learn(steps)
        found: Ints = self._next[np.searchsorted(self._known, steps)]
        return found

    def settled(self, states: Ints) -> NDArray[np.bool_]:
        """Which states nothing can change any more."""
        found: NDArray[np.bool_] = self._row_of[states] < 0
        return found

    def word(self, state: int) -> str | None:
        """The word of a settled state, in the form in which words are compared."""
        return self._words[state]

    def _learn(self, steps: Ints) -> None:
        """Work out the transitions not met before."""
        places = np.searchsorted(self._known, steps)
        known = np.append(self._known, -1)[places] == steps
        fresh = np.unique(steps[~known])
        if not len(fresh):
            return
        states = np.array([self._step(step) for step in fresh.tolist()], dtype=np.int64)
        self._complete()
        order = np.argsort(np.concatenate([self._known, fresh]), kind="stable")
        self._known = np.concatenate([self._known, fresh])[order]
        self._next = np.concatenate([self._next, states])[order]

    def _step(self, step: int) -> int:
        number, token = divmod(step, self.end + 1)
        key, word, joiner = self._states[number]
        if token == self.end:
            return self._number(_ended(key, word))
        here = Entry(0.0, -1, -1, key, word, joiner)
        there = follow(here, self.vocabulary.table(key), token, 0.0)
        if there.key[0] >= DONE:
            return self._number(((there.key[0], b""), there.word, ""))
        return self._number((there.key, there.word, there.joiner))

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._words.append(compose(state[1]) if state[0][0] == DONE else None)
        return number

    def _complete(self) -> None:
        """Find the rows of `_ends` of new states; -1 for settled ones."""
        keys = [key for key, _, _ in self._states[len(self._row_of) :]]
        rows = [-1 if key[0] >= DONE else self._row(key) for key in keys]
        self._row_of = np.concatenate([self._row_of, np.array(rows, dtype=np.int64)])

    def _row(self, key: Key) -> int:
        if key not in self._rows:
            row = np.zeros((1, self.end), dtype=np.bool_)
            row[0, self.vocabulary.table(key).ends] = True
            self._rows[key] = len(self._ends)
            self._ends = np.concatenate([self._ends, row])
        return self._rows[key]


def _ended(key: Key, word: str) -> State:
    """The text ends: the word so far stands, and without a word there is none."""
    return ((FAILED if key[0] == LEAD else DONE, b""), word, "")
