"""Per-token statistics: what one pass over the logits leaves of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.tokens.schemes import Scheme

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Values = "NDArray[np.floating] | Tensor"
Units = Literal["logits", "logprobs"]
Engine = Literal["auto", "naive", "torch", "triton"]


@dataclass(frozen=True)
class Expected:
    """Confidence and accuracy under one scheme, a number a token."""

    confidence: Floats
    """p̃ = Σ_v P̃(v)·P(v), with P the model's own; or the mean of P over draws from P̃."""
    accuracy: Floats
    """ã = P̃(y); or the share of draws that are y."""


@dataclass(frozen=True)
class TokenRows:
    """What is kept of each token, one number a token in every array."""

    confidence: Floats
    """p̂ = max P."""
    correct: Floats
    """â = 1 where the most likely token, the first of several, is the reference."""
    predicted: NDArray[np.int64]
    brier: Floats
    """Σ_v (P(v) − 1[v = y])²."""
    nll: Floats
    """−log P(y), in nats; infinite where the model excludes the reference."""
    entropy: Floats
    """H(P), in nats."""
    expected: Mapping[str, Expected]
    """By the scheme's string form."""
