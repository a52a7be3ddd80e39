"""Per-token statistics: what one pass over the logits leaves of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import UsageError
from aleatoric.tokens.checks import check_chunk, check_columns, host
from aleatoric.tokens.kernels import naive
from aleatoric.tokens.kernels.columns import Columns
from aleatoric.tokens.schemes import Scheme
from aleatoric.types import Floats

Units = Literal["logits", "logprobs"]
Engine = Literal["auto", "naive", "torch", "numba", "triton"]


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

    target: NDArray[np.int64]
    """y, the reference token."""
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


def token_rows(
    values: Any,
    targets: Any,
    schemes: Sequence[Scheme | str] = (),
    *,
    units: Units,
    uniforms: Mapping[str, Floats] | None = None,
    engine: Engine = "auto",
) -> TokenRows:
    """Every statistic of a chunk of tokens, in one pass over its logits or log-probabilities.

    `values` is (tokens, vocabulary), a torch tensor on any device or a numpy array; `targets` holds
    the reference tokens. A scheme with samples needs `uniforms[str(scheme)]`, numbers in [0, 1) of
    shape (tokens, samples).

    >>> rows = token_rows(np.log([[0.5, 0.3, 0.2]]), np.array([1]), ["ancestral"], units="logprobs")
    >>> rows.confidence.round(6).tolist(), rows.correct.tolist()
    ([0.5], [0.0])
    >>> rows.expected["ancestral"].confidence.round(6), rows.expected["ancestral"].accuracy.round(6)
    (array([0.38]), array([0.3]))
    """
    check_units(units)
    check_chunk(values, targets, values.shape[-1] if hasattr(values, "shape") else 0)
    asked = [Scheme.parse(s) if isinstance(s, str) else s for s in schemes]
    columns = run(values, targets, asked, _uniforms(asked, uniforms or {}), engine)
    check_columns(columns, units, values.dtype)
    return as_rows(columns, host(targets), asked)


def as_rows(columns: Columns, targets: NDArray[Any], schemes: Sequence[Scheme]) -> TokenRows:
    """Columns of a kernel under the names of their schemes."""
    names = [f.name for f in fields(TokenRows) if f.name not in ("target", "expected")]
    own = {name: getattr(columns, name) for name in names}
    pairs = zip(schemes, columns.expected, strict=True)
    expected = {str(scheme): Expected(*pair) for scheme, pair in pairs}
    return TokenRows(target=targets.astype(np.int64), **own, expected=expected)


def join_rows(parts: Sequence[TokenRows]) -> TokenRows:
    """Rows of consecutive chunks of the same schemes, end to end."""
    names = [f.name for f in fields(TokenRows) if f.name != "expected"]
    own = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    expected = {
        scheme: Expected(
            np.concatenate([part.expected[scheme].confidence for part in parts]),
            np.concatenate([part.expected[scheme].accuracy for part in parts]),
        )
        for scheme in parts[0].expected
    }
    return TokenRows(**own, expected=expected)


def run(
    values: Any,
    targets: Any,
    schemes: Sequence[Scheme],
    uniforms: Sequence[Floats | None],
    engine: Engine = "auto",
) -> Columns:
    """The columns of a chunk that was checked, by the engine asked for or the fastest there is."""
    engine = _fastest(values) if engine == "auto" else engine
    if engine == "naive":
        numbers = host(values.double() if hasattr(values, "double") else values)
        return naive.columns(numbers, host(targets).astype(np.int64), schemes, uniforms)
    import torch

    logits = torch.as_tensor(values)
    wanted = torch.as_tensor(targets, device=logits.device).long()
    if engine == "triton":
        from aleatoric.tokens.kernels import triton_pass

        return triton_pass.columns(logits, wanted, schemes, uniforms)
    if engine == "numba":
        from aleatoric.tokens.kernels import numba_pass

        return numba_pass.columns(logits, wanted, schemes, uniforms)
    from aleatoric.tokens.kernels import torch_pass

    return torch_pass.columns(logits, wanted, schemes, uniforms)


def check_units(units: str) -> None:
    """Units are declared, never guessed."""
    if units not in ("logits", "logprobs"):
        raise UsageError(f"units {units!r} are unknown; declare 'logits' or 'logprobs'.")


def _fastest(values: Any) -> Engine:
    device = getattr(getattr(values, "device", None), "type", "cpu")
    if device == "cuda" and values.dtype.itemsize <= 4 and find_spec("triton"):
        return "triton"
    if not find_spec("torch"):
        return "naive"
    single = device == "cpu" and values.dtype.itemsize <= 4
    return "numba" if single and find_spec("numba") else "torch"


def _uniforms(schemes: Sequence[Scheme], given: Mapping[str, Floats]) -> list[Floats | None]:
    missing = [str(s) for s in schemes if s.samples and str(s) not in given]
    if missing:
        raise UsageError(f"scheme {missing[0]!r} draws tokens: give its uniform numbers.")
    return [given[str(s)] if s.samples else None for s in schemes]
