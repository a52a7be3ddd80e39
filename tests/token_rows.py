"""Statistics of one chunk of tokens from a chosen engine, validated like those of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aleatoric.calibration.statistics import Scheme, TokenRows
from aleatoric.calibration.stream import (
    Engine,
    ValueUnits,
    check_chunk,
    check_columns,
    check_units,
    run,
)
from aleatoric.errors import UsageError
from aleatoric.types import Floats


def token_rows(
    values: Any,
    targets: Any,
    schemes: Sequence[Scheme | str] = (),
    *,
    units: ValueUnits,
    uniforms: Mapping[str, Floats] | None = None,
    engine: Engine = "auto",
) -> TokenRows:
    """Every statistic of a chunk of tokens, in one pass over its logits or log-probabilities.

    `values` is (tokens, vocabulary), a torch tensor on any device or a numpy array; `targets` are
    the reference tokens. A scheme with samples needs `uniforms[str(scheme)]`, numbers in [0, 1) of
    shape (tokens, samples).
    """
    check_units(units)
    check_chunk(values, targets, values.shape[-1] if hasattr(values, "shape") else 0)
    parsed, given = (
        tuple(Scheme.parse(s) if isinstance(s, str) else s for s in schemes),
        uniforms or {},
    )
    missing = [str(s) for s in parsed if s.samples and str(s) not in given]
    if missing:
        raise UsageError(f"scheme {missing[0]!r} draws tokens: give its uniform numbers.")
    numbers = [given[str(s)] if s.samples else None for s in parsed]
    columns = run(values, targets, list(zip(parsed, numbers, strict=True)), engine)
    check_columns(columns, units, values.dtype)
    return columns
