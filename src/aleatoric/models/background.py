"""Coroutines for a caller that is none: an event loop in a thread of its own.

A loop of its own works inside notebooks too, where the caller's thread already runs one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs until the block ends; what still runs then is cancelled.

    >>> async def double(number): return 2 * number
    >>> with background_loop() as loop:
    ...     run_in(loop, double(21))
    42
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="aleatoric-requests", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        run_in(loop, _cancel_all())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, R]) -> R:
    """What a coroutine returns, waited for."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def as_finished(
    inputs: Iterable[T],
    work: Callable[[T], Coroutine[Any, Any, R]],
    loop: asyncio.AbstractEventLoop,
    window: int,
) -> Iterator[R]:
    """Results as they come, with at most `window` inputs taken and not yet answered.

    Inputs are walked in the caller's thread, since a file or a database may lie behind them.

    >>> async def double(number): return 2 * number
    >>> with background_loop() as loop:
    ...     sorted(as_finished(iter(range(5)), double, loop, window=2))
    [0, 2, 4, 6, 8]
    """
    pending: set[Future[R]] = set()
    try:
        for one in inputs:
            pending.add(asyncio.run_coroutine_threadsafe(work(one), loop))
            yield from _take_finished(pending, timeout=None if len(pending) >= window else 0)
        while pending:
            yield from _take_finished(pending, timeout=None)
    finally:
        for future in pending:  # the caller stopped early, or one of them failed
            future.cancel()


def _take_finished(pending: set[Future[R]], timeout: float | None) -> Iterator[R]:
    """Give what is done, successes first: what was paid for is kept even if another failed."""
    done, _ = wait(pending, timeout, FIRST_COMPLETED)
    pending -= done
    for future in sorted(done, key=lambda future: future.exception() is not None):
        yield future.result()
