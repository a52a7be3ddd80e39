"""Who attends to whom, in tiles: nodes of one passage side by side, with the few columns they see.

A mask over all nodes and all columns grows with their product, and nearly all of it is empty: a
node sees its own passage and its own ancestors. On a GPU the nodes of a passage are taken `SIZE` at
a time, and attention is worked out between them and the columns that any of them sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.transfer import send
from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor

SIZE = 64
"""Nodes of a tile."""
_STEP = 8
"""Attention kernels read masks whose width is a multiple of this."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tokens of one forward pass in tiles, on the device.

    `rows[t, i]` is the token in slot i of tile t, `columns[t, j]` the j-th column of (past, tokens)
    that the tile sees, `mask[t, i, j]` whether that slot attends to it; `places[n]` is the slot of
    token n, counted over all tiles.
    """

    rows: Tensor
    columns: Tensor
    mask: Tensor
    places: Tensor

    @classmethod
    def of(cls, spans: Ints, others: Ints, device: Any) -> Tiles:
        """Tiles of tokens that see the columns start..stop-1 of `spans`, and `others`.

        `others` holds further columns of each token in rows filled up with -1.
        """
        tile, slot = _slots(spans[:, 0])
        count = int(tile.max()) + 1
        rows = np.zeros((count, SIZE), dtype=np.int64)
        rows[tile, slot] = np.arange(len(tile))
        columns, mask = _seen(spans, others, tile, slot, count)
        # A slot without a token must see something, or it would hold no number.
        mask[..., 0] |= ~mask.any(-1)
        return cls(*(send(x, device) for x in (rows, columns, mask, tile * SIZE + slot)))


def _slots(starts: Ints) -> tuple[Ints, Ints]:
    """The tile and the slot of each token: tokens of one passage fill tiles of their own.

    >>> [x.tolist() for x in _slots(np.array([0, 0, 7]))]
    [[0, 0, 1], [0, 1, 0]]
    """
    _, passage, sizes = np.unique(starts, return_inverse=True, return_counts=True)
    order = np.argsort(passage, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tiles = -(-sizes // SIZE)
    first = np.cumsum(tiles) - tiles
    return first[passage] + rank // SIZE, rank % SIZE


def _seen(
    spans: Ints, others: Ints, tile: Ints, slot: Ints, count: int
) -> tuple[Ints, NDArray[np.bool_]]:
    """The columns of each tile, and which of them each slot sees."""
    lengths = spans[:, 1] - spans[:, 0]
    trunk = int(lengths.max(initial=0))
    which, place = np.nonzero(others >= 0)
    wide = int(others.max(initial=0)) + 1
    codes, code = np.unique(tile[which] * wide + others[which, place], return_inverse=True)
    holder, column = np.divmod(codes, wide)
    held = np.bincount(holder, minlength=count)
    rank = np.arange(len(codes)) - (np.cumsum(held) - held)[holder]
    width = -(-(trunk + int(held.max(initial=0))) // _STEP) * _STEP
    columns = np.zeros((count, width), dtype=np.int64)
    starts = np.zeros(count, dtype=np.int64)
    starts[tile] = spans[:, 0]
    reach = np.zeros(count, dtype=np.int64)
    np.maximum.at(reach, tile, lengths)
    within = np.minimum(np.arange(trunk), np.maximum(reach - 1, 0)[:, None])
    columns[:, :trunk] = starts[:, None] + within
    columns[holder, trunk + rank] = column
    mask = np.zeros((count, SIZE, width), dtype=np.bool_)
    mask[tile, slot, :trunk] = np.arange(trunk) < lengths[:, None]
    mask[tile[which], slot[which], trunk + rank[code]] = True
    return columns, mask
