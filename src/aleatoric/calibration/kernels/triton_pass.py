"""The Triton kernel, on a GPU: one read of each row for everything that needs only P itself.

Temperature, top-k and top-p read a row a few more times, mostly from cache: they search for the
smallest kept value without sorting. Other decoders, and draws, go through `torch_pass`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from aleatoric.calibration.kernels import torch_pass
from aleatoric.calibration.kernels.torch_pass import as_numpy
from aleatoric.calibration.statistics import Asked, Expected, Scheme, TokenRows
from aleatoric.models.decoding import Decoder
from aleatoric.types import Floats


@dataclass(frozen=True)
class Tuning:
    """Launch parameters: vectors per tile, warps per row, tiles in flight, flushed exponentials.

    `probes` is how often a search narrows its bracket before the values left in it are checked.
    """

    lanes: int = 256
    warps: int = 4
    stages: int = 1
    flush: bool = True
    probes: int = 3


PLAIN = Tuning(lanes=256, warps=4, stages=3)
TOP_P = Tuning(lanes=128, warps=4, stages=4, probes=3)
TOP_K = Tuning(lanes=128, warps=4, stages=4, probes=4)


def columns(logits: Tensor, targets: Tensor, asked: Asked) -> TokenRows:
    """All columns of a chunk, as the naive kernel defines them."""
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    table, predicted = plain(logits, targets)
    pairs = {str(s): expected(logits, targets, table, predicted, s, u) for s, u in asked}
    confidence, square, hit, nll, entropy, logz, _ = (as_numpy(row) for row in table)
    return TokenRows(
        target=targets.cpu().numpy(),
        confidence=confidence,
        correct=as_numpy(predicted == targets),
        predicted=predicted.cpu().numpy(),
        brier=square - 2 * hit + 1,
        nll=nll,
        entropy=entropy.clip(min=0),
        log_normalizer=logz,
        expected=pairs,
    )


def plain(logits: Tensor, targets: Tensor, tuning: Tuning = PLAIN) -> tuple[Tensor, Tensor]:
    """(7, rows): p̂, Σ P², P(y), -log P(y), H, log normalizer, maximum; and the argmax."""
    from aleatoric.calibration.kernels.triton_jit import plain_kernel

    rows, width = logits.shape
    table = torch.empty((7, rows), dtype=torch.float32, device=logits.device)
    predicted = torch.empty(rows, dtype=torch.int64, device=logits.device)
    plain_kernel[(rows,)](
        logits, targets, table, predicted, logits.stride(0), width, rows, **_shape(logits, tuning)
    )
    return table, predicted


def expected(
    logits: Tensor,
    targets: Tensor,
    table: Tensor,
    predicted: Tensor,
    scheme: Scheme,
    uniforms: Floats | None,
) -> Expected:
    """p̃ and ã under one scheme, from the plain pass if that is enough."""
    decoder = scheme.decoder
    if uniforms is None and decoder == Decoder():
        return Expected(as_numpy(table[1]), as_numpy(table[2]))
    if uniforms is None and decoder.greedy:
        return Expected(as_numpy(table[0]), as_numpy(predicted == targets))
    # The kernel supports temperature, with top-k or top-p but not both.
    steps = {name for name, _ in decoder.changes()} - {"temperature"}
    if uniforms is None and steps in (set(), {"top_k"}, {"top_p"}):
        pair = decoded(logits, targets, table, decoder)
        return Expected(as_numpy(pair[0]), as_numpy(pair[1]))
    return torch_pass.columns(logits, targets, [(scheme, uniforms)]).expected[str(scheme)]


def decoded(
    logits: Tensor, targets: Tensor, table: Tensor, decoder: Decoder, tuning: Tuning | None = None
) -> Tensor:
    """(2, rows): p̃ and ã, given the table of the plain pass."""
    from aleatoric.calibration.kernels.triton_jit import decoded_kernel

    tuning = tuning or (TOP_K if decoder.top_k else TOP_P)
    rows, width = logits.shape
    out = torch.empty((2, rows), dtype=torch.float32, device=logits.device)
    mode = 1 if decoder.top_k else 2 if decoder.top_p < 1 else 0
    limit = float(min(decoder.top_k, width)) if decoder.top_k else decoder.top_p
    shape = (logits.stride(0), width, rows)
    search = (1 / decoder.temperature, limit, NormalDist().inv_cdf(limit) if mode == 2 else 0.0)
    decoded_kernel[(rows,)](
        *(logits, targets, table, out, *shape, *search),
        MODE=mode,
        HOT=decoder.temperature != 1,
        PROBES=tuning.probes,
        MANTISSA=round(-math.log2(torch.finfo(logits.dtype).eps)),
        **_shape(logits, tuning),
    )
    return out


def _shape(logits: Tensor, tuning: Tuning) -> dict[str, Any]:
    return {
        "LANES": tuning.lanes,
        "VEC": 16 // logits.element_size(),
        "STAGES": tuning.stages,
        "FTZ": tuning.flush and logits.is_cuda,
        "num_warps": tuning.warps,
    }
