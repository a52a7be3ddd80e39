"""Random halves of an input's people, and random orders of its generations.

Both come from the input's own streams, so that they are the same for every probe and system and
do not depend on the batch an input is scored in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aleatoric.streams import stream
from aleatoric.types import Floats, Ints

N_SPLITS = 20
"""How many independent splits a control is the mean of, unless asked otherwise."""


def people_orders(n: int, item_ids: Sequence[str], seed: int, n_splits: int = N_SPLITS) -> Ints:
    """Orders of `n` people, (items, splits, n); the first floor(n / 2) of an order are half a.

    >>> people_orders(4, ["x", "y"], seed=0, n_splits=3).shape
    (2, 3, 4)
    """
    return _orders("text-control", n, item_ids, seed, n_splits)


def generation_orders(n: int, item_ids: Sequence[str], seed: int, n_splits: int = N_SPLITS) -> Ints:
    """Orders of `n` generations, (items, splits, n), independent of those of people.

    >>> generation_orders(4, ["x"], seed=0, n_splits=3).shape
    (1, 3, 4)
    """
    return _orders("text-matched", n, item_ids, seed, n_splits)


def within(matrices: Floats, chosen: Ints) -> Floats:
    """The distances of unordered pairs among the chosen texts: (items * splits, pairs).

    >>> within(np.array([[[0.0, 0.5], [0.5, 0.0]]]), np.array([[[1, 0]]])).tolist()
    [[0.5]]
    """
    first, second = np.triu_indices(chosen.shape[2], k=1)
    return _distances(matrices, chosen[:, :, first], chosen[:, :, second])


def between(matrices: Floats, rows: Ints, columns: Ints) -> Floats:
    """The distances of all pairs of a row text and a column text: (items * splits, pairs).

    >>> between(np.array([[[0.0, 0.5], [0.5, 0.0]]]), np.array([[[0]]]), np.array([[[1]]])).tolist()
    [[0.5]]
    """
    shape = (*rows.shape, columns.shape[2])
    wide = (shape[0], shape[1], shape[2] * shape[3])
    first = np.broadcast_to(rows[..., :, None], shape).reshape(wide)
    second = np.broadcast_to(columns[..., None, :], shape).reshape(wide)
    return _distances(matrices, first, second)


def _distances(matrices: Floats, first: Ints, second: Ints) -> Floats:
    items = np.arange(len(matrices))[:, None, None]
    rows = first.shape[0] * first.shape[1]
    found: Floats = matrices[items, first, second].reshape(rows, first.shape[2])
    return found


def _orders(kind: str, n: int, item_ids: Sequence[str], seed: int, n_splits: int) -> Ints:
    base = np.tile(np.arange(n, dtype=np.int64), (n_splits, 1))
    found = np.empty((len(item_ids), n_splits, n), dtype=np.int64)
    for place, item_id in enumerate(item_ids):
        found[place] = stream(seed, kind, item_id).permuted(base, axis=1)
    return found
