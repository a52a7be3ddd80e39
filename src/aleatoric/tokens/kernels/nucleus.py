"""p̃ and ã under top-k and top-p from the largest logits alone, without sorting the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

HEAD = 1024
"""The tokens looked at first; rows whose nucleus is larger are looked at whole."""


def top_k(logits: Tensor, probs: Tensor, targets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Expected confidence and accuracy under top-k; all tokens equal to the k-th stay.

    >>> x = torch.tensor([[0.5, 0.25, 0.25]]).log()
    >>> [round(v.item(), 4) for v in top_k(x, x.exp(), torch.tensor([2]), 2)]
    [0.375, 0.25]
    """
    values, index = logits.topk(min(k, logits.shape[1]), -1)
    own = probs.gather(1, index)
    least = values[:, -1]
    tied = (logits == least[:, None]).sum(-1) - (values == least[:, None]).sum(-1)
    # Ties beyond the k-th have the k-th's probability.
    extra, edge = tied.to(own.dtype), own[:, -1]
    mass = own.sum(-1) + extra * edge
    square = (own * own).sum(-1) + extra * edge * edge
    hit, value = _at(probs, targets), _at(logits, targets)
    return square / mass, torch.where(value >= least, hit / mass, torch.zeros_like(hit))


def top_p(logits: Tensor, probs: Tensor, targets: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Expected confidence and accuracy under top-p.

    A token stays where the mass before it, in falling order, is below p; of equal tokens those of
    higher number come first, as in `aleatoric.decoding.top_p`.

    >>> x = torch.tensor([[0.5, 0.25, 0.25]]).log()
    >>> [round(v.item(), 4) for v in top_p(x, x.exp(), torch.tensor([2]), 0.7)]
    [0.4167, 0.3333]
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
    """The same from the `width` largest tokens, and for which rows those are enough."""
    values, index = logits.topk(width, -1)
    own = probs.gather(1, index).double()
    before = own.cumsum(-1) - own
    stays = before < p
    stays[:, 0] = True
    size = stays.sum(-1)
    last = (size - 1)[:, None]
    mass = own.cumsum(-1).gather(1, last)[:, 0]
    square = (own * own).cumsum(-1).gather(1, last)[:, 0]
    edge = values.gather(1, last)[:, 0]
    kept = _kept(logits, targets, values, edge, size)
    hit = torch.where(kept, _at(probs, targets).double(), 0.0)
    complete = (size < width) | (width == logits.shape[1])
    return square / mass, hit / mass, complete


def _kept(logits: Tensor, targets: Tensor, values: Tensor, edge: Tensor, size: Tensor) -> Tensor:
    """Whether the target stays: above the least value that stays, or among those equal to it."""
    value = _at(logits, targets)
    kept = value > edge
    tied = (value == edge).nonzero()[:, 0]
    if len(tied):
        room = size[tied] - (values[tied] > edge[tied, None]).sum(-1)
        equal = logits[tied] == edge[tied, None]
        behind = torch.arange(logits.shape[1], device=logits.device) > targets[tied, None]
        kept[tied] = (equal & behind).sum(-1) < room
    return kept


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None])[:, 0]
