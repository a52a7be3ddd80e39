"""Reference tokens through a model, batch by batch: what a calibration stream takes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.engine.parts import pages
from aleatoric.models.base import ForcedModel, Strip

ITEMS_AT_ONCE = 64
"""Items that are cut into tokens together."""


@dataclass(frozen=True)
class Chunk:
    """The scored tokens of a batch: their logits, what they are, and where they stand."""

    logits: Any
    targets: Any
    groups: list[str]
    positions: NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Whole items that are scored and saved together."""

    n_items: int
    strips: list[Strip]
    n_unscored: int
    """Items without a single scored token."""


def parts(model: ForcedModel, items: Iterable[Any], tokens: int) -> Iterator[Part]:
    """Items in their order, taken together until they hold so many tokens."""
    strips: list[Strip] = []
    count = unscored = size = 0
    for some in pages(items, ITEMS_AT_ONCE):
        for own in model.strips(some):
            strips.extend(own)
            count, unscored = count + 1, unscored + (not own)
            size += sum(len(strip.wanted) for strip in own)
            if size >= tokens:
                yield Part(count, strips, unscored)
                strips, count, unscored, size = [], 0, 0, 0
    if count:
        yield Part(count, strips, unscored)


def chunks(model: ForcedModel, strips: Sequence[Strip], batch_tokens: int) -> Iterator[Chunk]:
    """The scored tokens of strips, batch by batch."""
    for batch in batches(strips, batch_tokens):
        yield _chunk(model, batch)


def batches(strips: Sequence[Strip], batch_tokens: int) -> Iterator[list[Strip]]:
    """Strips of like length together, at most `batch_tokens` with padding, but one at least.

    >>> some = [Strip("a", (1,) * n, (1,) * n, tuple(range(n))) for n in (3, 1, 2, 9)]
    >>> [[len(strip.given) for strip in batch] for batch in batches(some, 6)]
    [[9], [3, 2], [1]]
    """
    # Longest first: where memory does not suffice, it shows at once.
    waiting = sorted(strips, key=lambda strip: (-_longest(strip), strip.group, strip.offset))
    batch: list[Strip] = []
    for strip in waiting:
        if batch and _longest(batch[0]) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(strip)
    if batch:
        yield batch


def _chunk(model: ForcedModel, batch: Sequence[Strip]) -> Chunk:
    import torch

    # A group's windows must come in order: its random draws are read on from one to the next.
    lines = [i for i, strip in enumerate(batch) for _ in strip.scored]
    places = [place for strip in batch for place in strip.scored]
    targets = torch.tensor([strip.wanted[place] for strip in batch for place in strip.scored])
    groups = [batch[i].group for i in lines]
    positions = np.array([batch[i].offset + p for i, p in zip(lines, places, strict=True)])
    return Chunk(model.logits(batch)[lines, places], targets, groups, positions.astype(np.int64))


def _longest(strip: Strip) -> int:
    return max(len(strip.given), len(strip.source))
