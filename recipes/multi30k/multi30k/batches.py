"""Batches of sentence pairs: bounded in tokens, of like length, padded on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aleatoric.errors import DataError
from aleatoric.rng import stream
from multi30k.data import Example
from multi30k.subwords import EOS, PAD

if TYPE_CHECKING:
    from torch import Tensor

_MULTIPLE = 8


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors of shape [sentences, positions].

    `given` are the target tokens that the decoder reads (the end of sentence opens them, as in
    fairseq), `wanted` those that it must predict; both are `PAD` after the sentence.
    """

    numbers: tuple[int, ...]
    source: Tensor
    given: Tensor
    wanted: Tensor


def by_length(examples: Sequence[Example], max_tokens: int) -> list[list[int]]:
    """Numbers of the examples in groups of like length of at most `max_tokens` padded tokens.

    A group's tokens are its sentences times its longest side, as fairseq counts them, and it has
    a multiple of 8 sentences where it can.

    >>> some = [Example(str(n), (5,) * n + (2,), (5, 2)) for n in (3, 1, 2)]
    >>> by_length(some, 8)
    [[1, 2], [0]]
    """
    order = sorted(range(len(examples)), key=lambda n: (_sides(examples[n]), n))
    lengths = [max(_sides(examples[n])) for n in order]
    groups: list[list[int]] = []
    start = 0
    while start < len(order):
        stop = _stop(lengths, start, max_tokens)
        if stop == start:
            problem = f"sentence {examples[order[start]].id} has {lengths[start]} tokens"
            raise DataError(f"{problem}; raise the limit of {max_tokens} tokens per batch.")
        groups.append(order[start:stop])
        start = stop
    return groups


def _stop(lengths: Sequence[int], start: int, max_tokens: int) -> int:
    """Where the group that begins at `start` ends."""
    longest, stop = 0, start
    while stop < len(lengths):
        longest = max(longest, lengths[stop])
        if longest * (stop + 1 - start) > max_tokens:
            count = stop - start
            return start + (count // _MULTIPLE * _MULTIPLE or count)
        stop += 1
    return stop


def _sides(example: Example) -> tuple[int, int]:
    return len(example.source), len(example.target)


def make_batch(examples: Sequence[Example], numbers: Sequence[int], device: str) -> Batch:
    """The examples of these numbers as one batch."""
    chosen = [examples[number] for number in numbers]
    given = [(EOS, *one.target[:-1]) for one in chosen]
    return Batch(
        tuple(numbers),
        _padded([one.source for one in chosen], device),
        _padded(given, device),
        _padded([one.target for one in chosen], device),
    )


def make_batches(examples: Sequence[Example], max_tokens: int, device: str) -> list[Batch]:
    """All examples in batches of like length."""
    return [make_batch(examples, group, device) for group in by_length(examples, max_tokens)]


def shuffled(batches: Sequence[Batch], seed: int, epoch: int) -> Iterator[Batch]:
    """The batches in the order of one epoch, which depends on the seed and the epoch alone."""
    for number in stream(seed, "batches", epoch).permutation(len(batches)):
        yield batches[number]


def _padded(rows: Sequence[Sequence[int]], device: str) -> Tensor:
    import torch

    longest = max(map(len, rows))
    width = -(-longest // _MULTIPLE) * _MULTIPLE
    filled = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long, device=device)
