"""Scheduling packs of passages when memory is short."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from aleatoric.errors import ModelError, UsageError
from aleatoric.nextword.beginnings import Beginnings
from aleatoric.nextword.exact import Search
from aleatoric.nextword.tree import each_pack


class Memory:
    """A limited number of memory units, which work occupies while it runs."""

    def __init__(self, room: int) -> None:
        self.left = room

    def work(self, pack: list[int]) -> Iterator[tuple[int, int] | None]:
        need = sum(pack)
        if need > self.left:
            raise torch.OutOfMemoryError("no room")
        self.left -= need
        try:
            yield None
            yield from ((size, size) for size in pack)
        finally:
            self.left += need


@pytest.mark.parametrize("packs", [[[4, 3], [5]], [[8], [5]], [[5], [8], [9]], [[9, 1], [10]]])
def test_passage_that_fits_alone_is_deferred_until_alone(packs: list[list[int]]) -> None:
    gpu = SimpleNamespace(device="cuda")
    found = dict(each_pack(gpu, packs, Memory(10).work))  # type: ignore[arg-type]
    assert sorted(found) == sorted(size for pack in packs for size in pack)


def test_passage_that_does_not_fit_alone_is_reported() -> None:
    gpu = SimpleNamespace(device="cuda")
    with pytest.raises(ModelError, match="one passage at a time"):
        dict(each_pack(gpu, [[5], [11]], Memory(10).work))  # type: ignore[arg-type]


def test_prefixes_of_long_words_are_numbered() -> None:
    words = ["ab", "a" * 67, "abc"]
    found = Beginnings(words)
    for place, word in enumerate(words):
        path = found.paths.values[found.paths.starts[place] : found.paths.starts[place + 1]]
        assert [found.letters[i] for i in path] == [word[:n] for n in range(len(word) + 1)]


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_invalid_tolerance_is_rejected(tolerance: float) -> None:
    with pytest.raises(UsageError, match="tolerance"):
        Search(tolerance=tolerance)
