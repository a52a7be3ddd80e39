"""Per-token statistics: what one pass over the logits leaves of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.kernels import naive
from aleatoric.calibration.schemes import Columns, Scheme, check_chunk, check_columns, host
from aleatoric.data import files
from aleatoric.errors import DataError, UsageError
from aleatoric.types import Floats, Ints

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
        from aleatoric.calibration.kernels import triton_pass

        return triton_pass.columns(logits, wanted, schemes, uniforms)
    if engine == "numba":
        from aleatoric.calibration.kernels import numba_pass

        return numba_pass.columns(logits, wanted, schemes, uniforms)
    from aleatoric.calibration.kernels import torch_pass

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


PLAIN = str(Scheme())
_OWN = ("target", "predicted", "confidence", "correct", "brier", "nll", "entropy")


@dataclass(frozen=True)
class TokenTable:
    """What studies read of each token: where it stands, how sure the model was, and of what.

    `unit` numbers documents or sentences in their order. `uncertainty` is the entropy that stands
    for the language's own uncertainty, in nats, of the model that `uncertainty_of` names.
    """

    unit: Ints
    target: Ints
    predicted: Ints
    confidence: Floats
    correct: Floats
    expected: Mapping[str, Expected]
    uncertainty: Floats
    uncertainty_of: str

    @property
    def plain(self) -> Expected:
        """Expected confidence and accuracy under the model's own distribution."""
        return self.expected[PLAIN]

    @property
    def disagreement(self) -> Floats:
        """D = |(p̂ − â) − (p̃ − ã)| of each token."""
        found: Floats = np.abs(
            (self.confidence - self.correct) - (self.plain.confidence - self.plain.accuracy)
        )
        return found


def write_part(path: Path, rows: TokenRows, groups: Sequence[str], positions: Ints) -> None:
    """Write the rows of a part in the order of its documents, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, Any] = {"position": positions}
    columns |= {name: getattr(rows, name) for name in _OWN}
    for scheme, own in rows.expected.items():
        columns |= {f"p[{scheme}]": own.confidence, f"a[{scheme}]": own.accuracy}
    numbers = {group: i for i, group in enumerate(sorted(set(groups), key=_natural))}
    order = np.lexsort((positions, np.array([numbers[group] for group in groups])))
    table = {"group": pa.array(groups).take(pa.array(order))}
    table |= {name: pa.array(column[order]) for name, column in columns.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.written_whole(path) as unfinished:
        parquet.write_table(pa.table(table), unfinished)


def part_files(folder: Path) -> list[Path]:
    """The files of a system's rows, in the order of the corpus."""
    found = sorted(folder.glob("*.parquet"))
    if not found:
        raise UsageError(f"{folder.parent.parent}: keeps no rows; run it again with --keep-rows.")
    return found


def read_table(folder: Path, label: str) -> TokenTable:
    """All rows of a system; its own entropy stands for uncertainty until another's is put in."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        whole = pa.concat_tables([parquet.read_table(path) for path in part_files(folder)])
    except (OSError, pa.ArrowInvalid) as error:
        problem = f"holds no token rows ({type(error).__name__})"
        raise DataError.at(folder, None, problem, "run it again with --keep-rows") from None
    columns = {name: whole[name].to_numpy() for name in whole.column_names if name != "group"}
    units = whole["group"].combine_chunks().dictionary_encode().indices.to_numpy()
    return TokenTable(
        unit=units.astype(np.int64),
        target=columns["target"],
        predicted=columns["predicted"],
        confidence=columns["confidence"],
        correct=columns["correct"],
        expected={
            name[2:-1]: Expected(columns[name], columns[f"a{name[1:]}"])
            for name in columns
            if name.startswith("p[")
        },
        uncertainty=columns["entropy"],
        uncertainty_of=f"{label} itself",
    )


def _natural(group: str) -> tuple[int, str]:
    """Numbers in their order, then other names."""
    return (int(group), group) if group.isdecimal() else (1 << 62, group)
