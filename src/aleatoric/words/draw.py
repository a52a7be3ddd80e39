"""Drawing tokens so that rounding in the model hardly ever changes a draw.

A draw walks down a binary tree over token numbers, one uniform number a level, and at each level
compares it with the share of the left half. A last-bit difference in the probabilities (another
batch size, another device) changes a draw only where a uniform number falls into that last bit;
with a cumulative sum over the vocabulary it would change one draw in ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def levels(size: int) -> int:
    """The uniform numbers one draw from `size` tokens needs.

    >>> levels(2), levels(50257)
    (1, 16)
    """
    return max(1, (size - 1).bit_length())


def draw(probabilities: Tensor, rows: Tensor, uniforms: Tensor) -> Tensor:
    """For each i a token from the distribution `probabilities[rows[i]]`.

    `uniforms` has a row a draw, with `levels(vocabulary)` numbers in [0, 1). Tokens without mass
    are never drawn.
    """
    import torch

    sums = _pyramid(probabilities)
    place = torch.zeros_like(rows)
    for level, floor in enumerate(reversed(sums[:-1])):
        left = floor[rows, 2 * place]
        both = left + floor[rows, 2 * place + 1]
        place = 2 * place + (uniforms[:, level] * both >= left).long()
    return place


def _pyramid(probabilities: Tensor) -> list[Tensor]:
    """Sums of neighbours, of neighbours' sums, and so on up to one number a row."""
    from torch.nn.functional import pad

    width = probabilities.shape[-1]
    sums = [pad(probabilities, (0, (1 << levels(width)) - width))]
    while sums[-1].shape[-1] > 1:
        sums.append(sums[-1][:, 0::2] + sums[-1][:, 1::2])
    return sums
