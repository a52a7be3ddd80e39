"""How long to wait before asking a server again: pure functions of what it said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import numpy as np

AGAIN = frozenset({408, 425, 429})
"""Statuses below 500 that another try may cure."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to ask again, and how long to wait in between (seconds)."""

    retries: int = 8
    first: float = 0.5
    longest: float = 30.0
    limit: float = 300.0
    """The longest wait that a server may ask for."""


def is_passing(status: int) -> bool:
    """Whether another try may cure an HTTP status: rate limits and troubles of the server.

    >>> [is_passing(status) for status in (400, 401, 404, 429, 500, 501, 503)]
    [False, False, False, True, True, False, True]
    """
    # 501: the server will never be able to.
    return status in AGAIN or (status >= 500 and status != 501)


def retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for: a number, or a date; `None` if neither.

    >>> now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    >>> retry_after("7", now), retry_after("Thu, 01 Jan 2026 12:01:00 GMT", now)
    (7.0, 60.0)
    >>> retry_after("soon", now), retry_after(None, now), retry_after("-3", now)
    (None, None, None)
    """
    text = (header or "").strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # an hour of fifteen digits is the latter
        return None
    # A date without a zone is meant as GMT; one in the past asks for no wait.
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())


def pause(attempt: int, asked: float | None, patience: Patience, rng: np.random.Generator) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 0).

    Waits double, between half and all of the doubled time so that clients do not march in step.
    A server's own wish is a lower bound.

    >>> rng = np.random.default_rng(0)
    >>> waits = [pause(attempt, None, Patience(), rng) for attempt in range(9)]
    >>> all(0.25 * 2**n <= w <= 0.5 * 2**n for n, w in enumerate(waits[:6]))
    True
    >>> max(waits) <= 30 and pause(0, 12.0, Patience(), rng) >= 12
    True
    """
    doubled: float = min(patience.longest, patience.first * 2**attempt)
    jittered = doubled * float(rng.uniform(0.5, 1.0))
    return jittered if asked is None else asked + jittered / 2
