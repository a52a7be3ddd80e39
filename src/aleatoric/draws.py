"""Drawing tokens so that rounding in the model hardly ever changes a draw.

A draw walks down a binary tree over token numbers, one uniform number a level, and at each level
compares it with the share of the left half. A last-bit difference in the probabilities (another
batch size, another device) changes a draw only where a uniform number falls into that last bit;
with a cumulative sum over the vocabulary it would change one draw in ten. Such a draw is marked, so
that the caller can decide it by a computation that is the same in every batch.

The uniform numbers are made from the draw's own key by SplitMix64 in whole numbers, so they are
the same on every device and need not travel there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number


def levels(size: int) -> int:
    """The uniform numbers one draw from `size` tokens needs.

    >>> levels(2), levels(50257)
    (1, 16)
    """
    return max(1, (size - 1).bit_length())


def draw(probabilities: Tensor, rows: Tensor, keys: Tensor, rounding: float = 0.0) -> Tensor:
    """For each i a token from the distribution `probabilities[rows[i]]`, by the draw's key.

    Tokens without mass are never drawn. A draw that relative errors of `rounding` could have
    changed is given as -1 - token.
    """
    import torch

    sums = _pyramid(probabilities)
    numbers = uniforms(keys, len(sums) - 1)
    # Few, large steps: on a GPU each costs more to start than to run. At every level the nodes of
    # all rows are numbered through, so the halves of node i are the i-th pair of the level below.
    node, margins, masses = rows, [], []
    for number, floor in zip(numbers, reversed(sums[:-1]), strict=True):
        left, right = floor.reshape(-1, 2).index_select(0, node).unbind(1)
        both = left + right
        margin = number * both - left
        node = torch.add(margin >= 0, node, alpha=2)
        margins.append(margin)
        masses.append(both)
    place = node - rows * sums[0].shape[1]
    close = torch.stack(margins).abs() < rounding * torch.stack(masses)
    return torch.where(close.any(0), -1 - place, place)


def draw_between(low: Tensor, high: Tensor, rows: Tensor, keys: Tensor, rounding: float) -> Tensor:
    """As `draw`, where each token's weight lies between `low` and `high`, up to relative errors.

    The weights need not sum to 1. A draw that other weights in between could have changed is given
    as -1 - token.
    """
    import torch

    least = _pyramid(low)
    most = least if high is low else _pyramid(high)
    numbers = uniforms(keys, len(least) - 1)
    place = torch.zeros_like(rows)
    close = torch.zeros_like(rows, dtype=torch.bool)
    for level, (floor, roof) in enumerate(zip(least[-2::-1], most[-2::-1], strict=True)):
        left, right = (rows, 2 * place), (rows, 2 * place + 1)
        # A draw goes to the right where number * right >= (1 - number) * left.
        up, down = numbers[level], 1 - numbers[level]
        goes = up * (floor[right] + roof[right]) >= down * (floor[left] + roof[left])
        surely_right = up * floor[right] * (1 - rounding) >= down * roof[left] * (1 + rounding)
        surely_left = up * roof[right] * (1 + rounding) < down * floor[left] * (1 - rounding)
        close |= ~torch.where(goes, surely_right, surely_left)
        place = 2 * place + goes.long()
    return torch.where(close, -1 - place, place)


def rounding_of(logits: Any) -> float:
    """How far rounding may move a probability, relatively; 0 where precision is too low to say.

    In single precision the logits of a small language model move by 7e-6 on average from one batch
    shape to another.
    """
    import torch

    return {torch.float32: 2.0**-16, torch.float64: 2.0**-40}.get(logits.dtype, 0.0)


def child(keys: Ints, number: Ints | int) -> Ints:
    """The keys of the `number`-th children of `keys`.

    >>> child(np.array([5, 5]), np.array([0, 1])).tolist() == child(np.array([5]), 0).tolist() * 2
    False
    """
    steps = np.atleast_1d(np.asarray(number, dtype=np.int64)) + 1
    found: Ints = mix(keys + steps * _GOLDEN)  # arrays of whole numbers wrap around in silence
    return found


def uniforms(keys: Tensor, count: int) -> Tensor:
    """(count, keys): the first uniform numbers in [0, 1) of each key, of 24 bits.

    >>> import torch
    >>> uniforms(torch.tensor([1, 2]), 3).lt(1.0).all().item()
    True
    """
    import torch

    steps = torch.arange(1, count + 1, device=keys.device) * _GOLDEN
    found: Tensor = _shift(mix(keys + steps[:, None]), 40).float() * 2.0**-24
    return found


def mix(values: Any) -> Any:
    """SplitMix64's finaliser on signed 64-bit numbers, of numpy or torch.

    >>> import numpy as np
    >>> int(mix(np.array([1]))[0])
    6238072747940578789
    """
    values = (values ^ _shift(values, 30)) * -4658895280553007687
    values = (values ^ _shift(values, 27)) * -7723592293110705685
    return values ^ _shift(values, 31)


def _shift(values: Any, bits: int) -> Any:
    """A shift to the right that brings in zeros, also for negative numbers."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _pyramid(probabilities: Tensor) -> list[Tensor]:
    """Sums of neighbours, of neighbours' sums, and so on up to one number a row."""
    from torch.nn.functional import pad

    width = probabilities.shape[-1]
    sums = [pad(probabilities, (0, (1 << levels(width)) - width))]
    while sums[-1].shape[-1] > 1:
        sums.append(sums[-1][:, 0::2] + sums[-1][:, 1::2])
    return sums
