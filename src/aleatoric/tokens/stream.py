"""Calibration of a stream of tokens of any length, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aleatoric.tokens.schemes import EXPECTED, Scheme
from aleatoric.tokens.statistics import Engine, TokenRows, Units
from aleatoric.types import Estimate

Classwise = Literal["none", "predicted", "all"]


@dataclass(frozen=True)
class CalibrationResult:
    """Every calibration error of a stream, as fractions (the paper prints percent)."""

    n_tokens: int
    n_groups: int
    estimates: Mapping[str, Estimate]
    """By metric name: ece, mce, e_ece, e_ece_p, brier, nll, ..."""
    curves: Mapping[str, Any]
    """By metric name (ece, e_ece, ...), the bin sums behind it, for reliability diagrams."""
    rows: TokenRows | None
    """Per-token rows, where they were asked for."""


class CalibrationStream:
    """Takes logits or log-probabilities in chunks; holds bin sums by group and scheme."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        units: Units,
        schemes: Sequence[Scheme | str] = EXPECTED,
        bins: int = 15,
        classwise: Classwise = "predicted",
        keep_rows: bool = False,
        seed: int = 0,
        engine: Engine = "auto",
    ) -> None:
        raise NotImplementedError

    def update(self, values: Any, targets: Any, group: str | Sequence[str]) -> None:
        """Add a chunk: (tokens, vocabulary) values, a target a token, one group or one a token.

        A chunk that cannot be used is refused whole, and the stream stays as it was.
        """
        raise NotImplementedError

    def merge(self, other: CalibrationStream) -> None:
        """Add all that another stream of the same settings has seen."""
        raise NotImplementedError

    def result(self) -> CalibrationResult:
        """Every metric of what was seen so far; more may follow."""
        raise NotImplementedError
