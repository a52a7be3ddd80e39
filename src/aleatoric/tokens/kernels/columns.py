"""What every kernel returns of a chunk: one number a token in each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats

Pair = tuple[Floats, Floats]
"""Expected confidence and expected accuracy."""


@dataclass(frozen=True)
class Columns:
    """The columns of a chunk; `expected` has a pair a scheme, in the order asked."""

    confidence: Floats
    correct: Floats
    predicted: NDArray[np.int64]
    brier: Floats
    nll: Floats
    entropy: Floats
    log_normaliser: Floats
    """log Σ e^x: 0 for rows of log-probabilities, NaN for rows that hold NaN or +inf."""
    expected: tuple[Pair, ...]


def join(parts: Sequence[Columns]) -> Columns:
    """Columns of consecutive chunks, end to end."""
    if len(parts) == 1:
        return parts[0]
    names = [f.name for f in fields(Columns) if f.name != "expected"]
    own = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    pairs = zip(*(part.expected for part in parts), strict=True)
    joined = (tuple(np.concatenate(side) for side in zip(*pair, strict=True)) for pair in pairs)
    return Columns(**own, expected=tuple((p, a) for p, a in joined))
