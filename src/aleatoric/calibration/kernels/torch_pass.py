"""The torch kernel, on any device, and the compiled CPU kernel.

In torch, a few rows at a time, so that on a CPU the intermediate results stay in cache.
Half-precision inputs are computed in single precision, double in double.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleatoric.calibration.statistics import Asked, Expected, Scheme, TokenRows, join_rows
from aleatoric.models.decoding import Decoder
from aleatoric.types import Floats

HEAD = 1024
"""The number of top tokens to sort first; rows with a larger nucleus are sorted entirely."""
CPU_CELLS = 1 << 21
GPU_CELLS = 1 << 26
_BLOCK = 256
LEAST = -3.0e38
"""No logit of a token that can be drawn is lower."""


def columns(logits: Tensor, targets: Tensor, asked: Asked) -> TokenRows:
    """All columns of a chunk, as the naive kernel defines them."""
    cells = CPU_CELLS if logits.device.type == "cpu" else GPU_CELLS
    step = min(max(1, cells // logits.shape[1]), max(1, len(logits)))
    # Reused for each step: allocating memory would take longer than the sums.
    precision = torch.float64 if logits.dtype == torch.float64 else torch.float32
    room = torch.empty((2, step, logits.shape[1]), dtype=precision, device=logits.device)
    parts = []
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        part = [(scheme, None if u is None else u[rows]) for scheme, u in asked]
        parts.append(_columns(logits[rows], targets[rows], part, room))
    return join_rows(parts)


def _columns(logits: Tensor, targets: Tensor, asked: Asked, room: Tensor) -> TokenRows:
    best = first_best(logits)
    highest = _at(logits, best).to(room.dtype)
    # Differences to the maximum: large logits would cost the entropy precision.
    below = torch.sub(logits, highest[:, None], out=room[0, : len(logits)])
    probs = torch.softmax(below, -1, out=room[1, : len(logits)])
    confidence = _at(probs, best)
    log_total = -confidence.log()
    hit = _at(probs, targets)
    return TokenRows(
        target=targets.cpu().numpy(),
        confidence=as_numpy(confidence),
        correct=as_numpy(best == targets),
        predicted=best.cpu().numpy(),
        brier=as_numpy(torch.linalg.vecdot(probs, probs) - 2 * hit + 1),
        nll=as_numpy(log_total - _at(below, targets)),
        entropy=as_numpy(_entropy(below, probs, log_total)),
        log_normalizer=as_numpy(highest + log_total),
        expected={str(s): _expected(logits, probs, best, targets, s, u) for s, u in asked},
    )


def _entropy(logits: Tensor, probs: Tensor, log_total: Tensor) -> Tensor:
    mean: Tensor = torch.linalg.vecdot(probs, logits)
    undefined = mean.isnan()
    if undefined.any():
        # 0 · -inf: excluded tokens add nothing.
        finite = logits[undefined]
        finite = torch.where(finite == -torch.inf, torch.zeros_like(finite), finite)
        mean[undefined] = torch.linalg.vecdot(probs[undefined], finite)
    return (log_total - mean).clamp_min(0)


def _expected(
    logits: Tensor,
    probs: Tensor,
    best: Tensor,
    targets: Tensor,
    scheme: Scheme,
    uniforms: Floats | None,
) -> Expected:
    decoder = scheme.decoder
    if uniforms is not None:
        return _sampled(_changed(logits, probs, decoder), probs, targets, uniforms)
    if decoder.greedy:
        return Expected(as_numpy(_at(probs, best)), as_numpy(best == targets))
    if decoder == Decoder(top_k=decoder.top_k) and decoder.top_k:
        confidence, accuracy = top_k(logits, probs, targets, decoder.top_k)
    elif decoder == Decoder(top_p=decoder.top_p) and decoder.top_p < 1:
        confidence, accuracy = top_p(logits, probs, targets, decoder.top_p)
    else:
        changed = _changed(logits, probs, decoder)
        confidence, accuracy = torch.linalg.vecdot(changed, probs), _at(changed, targets)
    return Expected(as_numpy(confidence), as_numpy(accuracy))


def _changed(logits: Tensor, probs: Tensor, decoder: Decoder) -> Tensor:
    """P̃ over the whole vocabulary."""
    return probs if decoder == Decoder() else decoder.log_probs(logits.to(probs.dtype)).exp()


def _sampled(changed: Tensor, probs: Tensor, targets: Tensor, uniforms: Floats) -> Expected:
    mass = changed.double().cumsum(-1)
    total = mass[:, -1:].contiguous()
    thresholds = torch.from_numpy(uniforms).to(mass.device) * total
    # Rounding may lift a number to the total: stop at the last token with mass.
    last = torch.searchsorted(mass, total).clamp_max(mass.shape[1] - 1)
    draws = torch.minimum(torch.searchsorted(mass, thresholds, right=True), last)
    hits = (draws == targets[:, None]).double().mean(-1)
    return Expected(as_numpy(probs.gather(1, draws).double().mean(-1)), as_numpy(hits))


def top_k(logits: Tensor, probs: Tensor, targets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Expected confidence and accuracy under top-k; all tokens equal to the k-th are kept."""
    values, index = logits.topk(min(k, logits.shape[1]), -1)
    kept = probs.gather(1, index)
    least = values[:, -1]
    tied = (logits == least[:, None]).sum(-1) - (values == least[:, None]).sum(-1)
    # Tokens tied with the k-th have its probability.
    extra, edge = tied.to(kept.dtype), kept[:, -1]
    mass = kept.sum(-1) + extra * edge
    square = (kept * kept).sum(-1) + extra * edge * edge
    hit, value = _at(probs, targets), _at(logits, targets)
    return square / mass, torch.where(value >= least, hit / mass, torch.zeros_like(hit))


def top_p(logits: Tensor, probs: Tensor, targets: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Expected confidence and accuracy under top-p.

    A token is kept if the mass before it, in descending order, is below p; of equal tokens those
    with higher ids come first, as in `aleatoric.models.decoding.top_p`.
    """
    width = logits.shape[1]
    confidence, accuracy, complete = _top_p(logits, probs, targets, p, min(HEAD, width))
    if not complete.all():
        rest = ~complete
        whole = _top_p(logits[rest], probs[rest], targets[rest], p, width)
        confidence[rest], accuracy[rest] = whole[0], whole[1]
    return confidence, accuracy


def _top_p(
    logits: Tensor, probs: Tensor, targets: Tensor, p: float, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The same from the `width` largest tokens, and for which rows these suffice."""
    values, index = logits.topk(width, -1)
    sorted_probs = probs.gather(1, index).double()
    before = sorted_probs.cumsum(-1) - sorted_probs
    stays = before < p
    stays[:, 0] = True
    size = stays.sum(-1)
    last = (size - 1)[:, None]
    mass = sorted_probs.cumsum(-1).gather(1, last)[:, 0]
    square = (sorted_probs * sorted_probs).cumsum(-1).gather(1, last)[:, 0]
    edge = values.gather(1, last)[:, 0]
    kept = _kept(logits, targets, values, edge, size)
    hit = torch.where(kept, _at(probs, targets).double(), 0.0)
    complete = (size < width) | (width == logits.shape[1])
    return square / mass, hit / mass, complete


def _kept(logits: Tensor, targets: Tensor, values: Tensor, edge: Tensor, size: Tensor) -> Tensor:
    """Whether the target is kept: above the smallest kept value, or among those equal to it."""
    value = _at(logits, targets)
    kept = value > edge
    tied = (value == edge).nonzero()[:, 0]
    if len(tied):
        room = size[tied] - (values[tied] > edge[tied, None]).sum(-1)
        equal = logits[tied] == edge[tied, None]
        behind = torch.arange(logits.shape[1], device=logits.device) > targets[tied, None]
        kept[tied] = (equal & behind).sum(-1) < room
    return kept


def first_best(logits: Tensor) -> Tensor:
    """The most probable token of each row, the first one in case of ties.

    Block by block: the maximum alone is many times faster than the maximum with its index.
    """
    whole = logits.shape[1] // _BLOCK * _BLOCK
    if logits.device.type != "cpu" or not whole:
        return logits.argmax(-1)
    blocks = logits[:, :whole].view(len(logits), -1, _BLOCK)
    highest = blocks.amax(-1)
    block = highest.argmax(-1)
    rows = torch.arange(len(logits))
    inside = block * _BLOCK + blocks[rows, block].argmax(-1)
    if whole == logits.shape[1]:
        return inside
    tail = logits[:, whole:].argmax(-1) + whole
    return torch.where(_at(logits, tail) > _at(logits, inside), tail, inside)


def compiled_columns(logits: Tensor, targets: Tensor, asked: Asked) -> TokenRows:
    """All columns of a chunk on a CPU, from compiled loops that read each row once.

    If a scheme changes the distribution, all columns come from `columns`: columns of one
    computation agree to the last digit.
    """
    # Schemes without draws that need only the model's distribution or its mode.
    plain = (u is None and (s.decoder.greedy or s.decoder == Decoder()) for s, u in asked)
    if not all(plain):
        return columns(logits, targets, asked)
    best, place, centre, total, square, weighted, whole = _read(logits.float().contiguous().numpy())
    target_logits = logits.gather(1, targets[:, None])[:, 0].double().numpy()
    log_total = np.log(total)
    # The sum of the logits reveals NaN and +inf, which maxima and clipping would hide.
    sound = (whole < math.inf) & (best > LEAST)
    with np.errstate(invalid="ignore"):  # the caller refuses rows that are not sound
        confidence, hit = np.exp(best - centre) / total, np.exp(target_logits - centre) / total
    collision = square / total**2
    predicted = place.astype(np.int64)
    correct = (predicted == targets.numpy()).astype(np.float64)
    greedy, ancestral = Expected(confidence, correct), Expected(collision, hit)
    return TokenRows(
        target=targets.numpy(),
        confidence=confidence,
        correct=correct,
        predicted=predicted,
        brier=collision - 2 * hit + 1,
        nll=centre - target_logits + log_total,
        entropy=np.maximum(log_total - weighted * math.log(2) / total, 0.0),
        log_normalizer=np.where(sound, centre + log_total, np.nan),
        expected={str(s): greedy if s.decoder.greedy else ancestral for s, _ in asked},
    )


def _read(logits: NDArray[np.float32]) -> Floats:
    """The sums of each row, one column per row; rows are divided among torch's threads."""
    from aleatoric.calibration.kernels.numba_jit import read

    out = np.empty((len(logits), 7))
    threads = max(1, min(torch.get_num_threads(), len(logits)))
    cuts = np.linspace(0, len(logits), threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        spans = [slice(low, high) for low, high in pairwise(cuts)]
        list(pool.map(lambda span: read(logits[span], out[span]), spans))
    return out.T


def as_numpy(values: Tensor) -> Floats:
    """A column on the host, in double precision."""
    return values.double().cpu().numpy().astype(np.float64, copy=False)


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None])[:, 0]
