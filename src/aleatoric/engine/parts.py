"""Items that are worked on together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Protocol, TypeVar

T = TypeVar("T")


class Grouped(Protocol):
    """Something of a passage."""

    @property
    def group(self) -> str:
        """The passage's name."""
        ...


G = TypeVar("G", bound=Grouped)


def whole_passages(items: Iterable[G], size: int) -> Iterator[list[G]]:
    """Whole passages, taken together until there are enough contexts to keep a device busy.

    >>> from aleatoric.types import Item
    >>> items = [Item(f"{g}:{i}", g, "There", ()) for g in "abc" for i in range(2)]
    >>> [[item.id for item in part] for part in whole_passages(items, 3)]
    [['a:0', 'a:1', 'b:0', 'b:1'], ['c:0', 'c:1']]
    """
    part: list[G] = []
    for _, passage in groupby(items, key=lambda item: item.group):
        part.extend(passage)
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many items at a time.

    >>> list(pages("abc", 2))
    [['a', 'b'], ['c']]
    """
    waiting = iter(items)
    while page := list(islice(waiting, size)):
        yield page
