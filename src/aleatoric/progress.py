"""How long work reports that it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")
Track = Callable[[Iterable[T], int, str], Iterable[T]]
"""Shows progress over an iterable of known length, under a description."""

Advance = Callable[[int, int], None]
"""So many more items are done, with so many tokens."""
Meter = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a display of items done and tokens a second, under a description, for so many items."""


def quietly(work: Iterable[T], total: int, description: str) -> Iterable[T]:
    """No progress shown.

    >>> list(quietly([1, 2], 2, "work"))
    [1, 2]
    """
    return work


@contextmanager
def unmetered(description: str, total: int) -> Iterator[Advance]:
    """No speed shown.

    >>> with unmetered("tokens", 3) as advance:
    ...     advance(1, 20)
    """
    yield lambda items, tokens: None
