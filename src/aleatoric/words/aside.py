"""Samples whose next draw rounding could have changed: they leave the batch and walk on alone.

A node's probabilities differ in their last bits with what it is run together with. Where that
could change a draw, the sample's whole text is run by itself, in a shape that is the same whatever
the batch, so that the same seed gives the same words. These few wait until a pack is done: decided
one by one they would hold up all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Ints


@dataclass(frozen=True, eq=False)
class Aside:
    """Samples of one depth: their walk, their number in it, their word's state, their tokens."""

    walk: Ints
    sample: Ints
    state: Ints
    tokens: tuple[tuple[int, ...], ...]

    @classmethod
    def none(cls) -> Aside:
        """No samples.

        >>> len(Aside.none())
        0
        """
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, ())

    def __len__(self) -> int:
        return len(self.walk)

    def __add__(self, other: Aside) -> Aside:
        return Aside(
            np.concatenate([self.walk, other.walk]),
            np.concatenate([self.sample, other.sample]),
            np.concatenate([self.state, other.state]),
            self.tokens + other.tokens,
        )

    def texts(self) -> tuple[list[tuple[int, ...]], Ints]:
        """The different texts, and which of them each sample has."""
        numbers = {tokens: number for number, tokens in enumerate(dict.fromkeys(self.tokens))}
        return list(numbers), np.array([numbers[t] for t in self.tokens], dtype=np.int64)

    def going_on(self, going: NDArray[np.bool_], state: Ints, drawn: Ints) -> Aside:
        """Some of the samples, one token later."""
        tokens = [
            (*self.tokens[i], token)
            for i, token in zip(np.flatnonzero(going).tolist(), drawn[going].tolist(), strict=True)
        ]
        return Aside(self.walk[going], self.sample[going], state[going], tuple(tokens))
