"""How a run is asked to stop: once to finish what is in hand, twice to stop at once.

Only while items are in hand is there anything to finish. While a model is loaded, a corpus read or
results are worked out, the first signal already stops at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HEARD = b"\nstopping: the items in hand are finished and saved; once more to stop at once\n"


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """A run ended early because somebody asked for it; all that it finished is saved.

    >>> Stopped(signal.SIGINT).status, Stopped(signal.SIGTERM).status
    (130, 143)
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__("stopped")
        self.status = 128 + number


class Stopping:
    """Whether a run has been asked to stop. Nobody asks one that is made and not shared.

    >>> stopping = Stopping()
    >>> taken = stopping.before_each([1, 2, 3])
    >>> next(taken)
    1
    >>> stopping.ask()
    >>> list(taken)
    []
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._is_finishing = False

    @property
    def is_asked(self) -> bool:
        """Whether to take up nothing more."""
        return self._number is not None

    @property
    def is_finishing(self) -> bool:
        """Whether items are in hand that are to be finished and saved."""
        return self._is_finishing

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Items are in hand inside: a stop waits for them, and is heeded when they are saved."""
        self._is_finishing = True
        try:
            yield
        finally:
            self._is_finishing = False
        self.check()

    def ask(self, number: int = signal.SIGINT) -> None:
        """Ask, as a signal of this number does."""
        self._number = number

    def before_each(self, items: Iterable[T]) -> Iterator[T]:
        """Items until the stop is asked for: what was taken before is finished by its taker."""
        for item in items:
            if self.is_asked:
                return
            yield item

    def check(self) -> None:
        """Raise `Stopped` where the stop has been asked for; to be called when all is saved."""
        if self._number is not None:
            raise Stopped(self._number)

    def checked(self, rows: Iterable[T]) -> Iterator[T]:
        """Rows of work that is worthless unfinished: it is given up as soon as a stop is asked."""
        for row in rows:
            self.check()
            yield row


@contextmanager
def listening() -> Iterator[Stopping]:
    """Ctrl-C and SIGTERM, once and twice, while a run goes on.

    Signals reach the main thread alone: in another, nobody listens.
    """
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    handler = _handler(stopping)
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield stopping
    except KeyboardInterrupt:
        stopping.check()
        raise
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _handler(stopping: Stopping) -> Callable[[int, FrameType | None], None]:
    def heard(number: int, _: FrameType | None) -> None:
        if stopping.is_asked:
            raise KeyboardInterrupt
        stopping.ask(number)
        if not stopping.is_finishing:
            raise KeyboardInterrupt
        # A signal may come while something is printed, and printing is not to be interrupted by
        # itself: the bytes go past it.
        with suppress(OSError):
            os.write(2, HEARD)

    return heard
