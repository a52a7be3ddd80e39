"""The compiled CPU kernel: one read of each row, if no scheme changes the distribution.

If a scheme does, everything goes through `torch_pass`: all columns of a chunk come from one
computation, so that they agree to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleatoric.calibration.kernels import torch_pass
from aleatoric.calibration.schemes import Scheme
from aleatoric.calibration.statistics import Expected, TokenColumns
from aleatoric.models.decoding import Decoder
from aleatoric.types import Floats


def columns(
    logits: Tensor, targets: Tensor, schemes: Sequence[Scheme], uniforms: Sequence[Floats | None]
) -> TokenColumns:
    """All columns of a chunk, as the naive kernel defines them."""
    # Schemes without draws that need only the model's distribution or its mode.
    plain_schemes = (scheme.decoder.greedy or scheme.decoder == Decoder() for scheme in schemes)
    if any(u is not None for u in uniforms) or not all(plain_schemes):
        return torch_pass.columns(logits, targets, schemes, uniforms)
    best, place, centre, total, square, weighted, plain = read(logits.float().contiguous().numpy())
    target_logits = logits.gather(1, targets[:, None])[:, 0].double().numpy()
    log_total = np.log(total)
    # The sum of the logits reveals NaN and +inf, which maxima and clipping would hide.
    sound = (plain < math.inf) & (best > LEAST)
    with np.errstate(invalid="ignore"):  # the caller refuses rows that are not sound
        confidence, hit = np.exp(best - centre) / total, np.exp(target_logits - centre) / total
    collision = square / total**2
    predicted = place.astype(np.int64)
    correct = (predicted == targets.numpy()).astype(np.float64)
    greedy, ancestral = Expected(confidence, correct), Expected(collision, hit)
    return TokenColumns(
        confidence=confidence,
        correct=correct,
        predicted=predicted,
        brier=collision - 2 * hit + 1,
        nll=centre - target_logits + log_total,
        entropy=np.maximum(log_total - weighted * math.log(2) / total, 0.0),
        log_normalizer=np.where(sound, centre + log_total, np.nan),
        expected=tuple(greedy if s.decoder.greedy else ancestral for s in schemes),
    )


LEAST = -3.0e38
"""No logit of a token that can be drawn is lower."""


def read(logits: NDArray[np.float32]) -> Floats:
    """The sums of each row, one column per row; rows are divided among torch's threads."""
    from aleatoric.calibration.kernels.numba_jit import read as compiled

    out = np.empty((len(logits), 7))
    threads = max(1, min(torch.get_num_threads(), len(logits)))
    cuts = np.linspace(0, len(logits), threads + 1).astype(int).tolist()
    if threads == 1:
        compiled(logits, out)
        return out.T
    with ThreadPoolExecutor(threads) as pool:
        spans = [slice(low, high) for low, high in pairwise(cuts)]
        list(pool.map(lambda span: compiled(logits[span], out[span]), spans))
    return out.T
