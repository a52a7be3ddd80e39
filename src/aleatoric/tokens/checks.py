"""What a chunk must be before any of it counts: every refusal is one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import DataError
from aleatoric.tokens.kernels.columns import Columns

TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2}
"""How far Σ P may be from 1 in rows of log-probabilities; 1e-3 in other precisions."""


def check_chunk(values: Any, targets: Any, vocabulary_size: int) -> None:
    """Types, shapes and targets: all that can be told without reading the values.

    >>> check_chunk(np.zeros((2, 5), "float32"), np.array([0, 5]), 5)
    Traceback (most recent call last):
        ...
    aleatoric.errors.DataError: token 1 of the chunk has target 5; targets go from 0 to 4.
    """
    _check_types(values, targets)
    if values.ndim != 2 or values.shape[1] != vocabulary_size:
        raise DataError(
            f"values have shape {_shape(values)}; give (tokens, {vocabulary_size}), a row a token."
        )
    if tuple(targets.shape) != (len(values),):
        raise DataError(
            f"targets have shape {_shape(targets)}; give one target for each of the "
            f"{len(values)} rows of values."
        )
    numbers = host(targets)
    bad = np.flatnonzero((numbers < 0) | (numbers >= vocabulary_size))
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has target {numbers[bad[0]]}; targets go from 0 to "
            f"{vocabulary_size - 1}."
        )


def check_groups(group: str | Sequence[str], n_tokens: int) -> list[str]:
    """The group of each token.

    >>> check_groups("a", 2)
    ['a', 'a']
    """
    if isinstance(group, str):
        return [group] * n_tokens
    groups = list(group)
    if len(groups) != n_tokens:
        raise DataError(f"{len(groups)} groups for {n_tokens} tokens; give one group, or one each.")
    if not all(isinstance(own, str) for own in groups):
        raise DataError("groups must be text: the name of the document or sentence a token is of.")
    return groups


def check_columns(columns: Columns, units: str, dtype: Any) -> None:
    """Rows that hold no distribution, or log-probabilities that do not add up to 1."""
    bad = np.flatnonzero(~np.isfinite(columns.log_normaliser) | ~np.isfinite(columns.confidence))
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has {units} with NaN or +inf, or none above -inf; "
            "give finite numbers, with -inf for excluded tokens alone."
        )
    if units != "logprobs":
        return
    total = np.exp(np.minimum(columns.log_normaliser, 700.0))
    allowed = TOLERANCE.get(str(dtype).removeprefix("torch."), 1e-3)
    bad = np.flatnonzero(np.abs(total - 1) > allowed)
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has log-probabilities that add up to "
            f"{total[bad[0]]:.4g}, not 1; give natural logarithms, or declare units='logits'."
        )


def host(numbers: Any) -> NDArray[Any]:
    """A numpy array, whatever held the numbers."""
    return np.asarray(numbers.cpu() if hasattr(numbers, "cpu") else numbers)


def _check_types(values: Any, targets: Any) -> None:
    for name, own in (("values", values), ("targets", targets)):
        if not all(hasattr(own, part) for part in ("dtype", "shape", "ndim")):
            raise DataError(f"{name} must be a torch tensor or a numpy array, not {_kind(own)}.")
    if "float" not in str(values.dtype):
        raise DataError(f"values have type {values.dtype}; give floating-point numbers.")
    if "int" not in str(targets.dtype):
        raise DataError(f"targets have type {targets.dtype}; give whole numbers: token ids.")


def _shape(values: Any) -> tuple[int, ...]:
    return tuple(values.shape)


def _kind(value: Any) -> str:
    return type(value).__name__
