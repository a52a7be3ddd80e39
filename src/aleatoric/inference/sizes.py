"""Sample sizes as they occur: how many people, or people and draws, and in what share of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sizes:
    """Different sizes, or rows of them, with their shares."""

    values: Counts
    shares: Floats

    @classmethod
    def of(cls, counted: Mapping[int, int] | Mapping[tuple[int, int], int]) -> Sizes:
        """From size -> how many items have it, in whatever order.

        >>> Sizes.of({40: 3, 20: 1}).shares.tolist()
        [0.25, 0.75]
        """
        pairs = sorted(counted.items())
        numbers = np.array([number for _, number in pairs], dtype=np.float64)
        return cls(np.array([size for size, _ in pairs]), numbers / numbers.sum())

    def drawn(self, n: int, rng: np.random.Generator) -> Counts:
        """So many sizes, each as likely as its share.

        >>> Sizes.of({40: 3}).drawn(2, np.random.default_rng(0)).tolist()
        [40, 40]
        """
        chosen: Counts = rng.choice(self.values, n, p=self.shares)
        return chosen

    @property
    def key(self) -> bytes:
        """The same for the same sizes and shares."""
        return self.values.tobytes() + self.shares.tobytes()
