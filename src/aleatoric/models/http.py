"""JSON over HTTP with a limit on how much is asked at once, and with second chances.

A key goes into the request header and nowhere else: not into errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import numpy as np

from aleatoric.data.files import Inflater
from aleatoric.errors import ModelError

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


T = TypeVar("T")
MOST_BYTES = 32 * 2**20
"""More than any honest reply: a server that never stops must not fill the memory."""
MASK = "***"
"""In the place of a key; the word rules find no word in it."""
SHORTEST_SECRET = 12
"""Shorter keys are fillers (EMPTY, none) that replies may hold as words."""
LOOKS = 3
"""How often a document that may not be there is looked for."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_log = logging.getLogger(__name__)


class PassingError(Exception):
    """Something that another try may cure; `wait` is what the server asked for, in seconds."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


class AbsentError(PassingError):
    """Nobody took the call."""


class RefusedError(ModelError):
    """The server will not do it, however often it is asked."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status_code = status


def key_for(base_url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key to send: ALEATORIC_API_KEY, or OPENAI_API_KEY where nobody can listen.

    OPENAI_API_KEY often stands in an environment for other reasons; it is not sent in the clear.

    >>> key_for("https://api.openai.com/v1", {"OPENAI_API_KEY": "sk-1"})
    'sk-1'
    >>> key_for("http://example.org/v1", {"OPENAI_API_KEY": "sk-1"}) is None
    True
    """
    url = urlsplit(base_url)
    names = ["ALEATORIC_API_KEY"]
    if url.scheme == "https" or url.hostname in LOOPBACK:
        names.append("OPENAI_API_KEY")
    for name in names:
        key = environment.get(name, "").strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise ModelError(f"{name} holds characters that no key has; set it again.")
        if key:
            return key
    return None


class Client:
    """A server, asked by at most `concurrency` requests at a time."""

    def __init__(
        self,
        base_url: str,
        key: str | None,
        patience: Patience,
        concurrency: int = 8,
        timeout: float = 60.0,
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._base, self._key = base_url.rstrip("/"), key
        is_secret = key is not None and len(key) >= SHORTEST_SECRET
        self._secret = re.compile(re.escape(key or ""), re.IGNORECASE) if is_secret else None
        self._patience, self._timeout, self._on_retry = patience, timeout, on_retry
        self._slots = asyncio.Semaphore(concurrency)
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip"}
            | ({"Authorization": f"Bearer {key}"} if key else {}),
            limits=httpx.Limits(max_connections=concurrency),
            # A proxy cannot reach this machine's own loopback.
            trust_env=urlsplit(base_url).hostname not in LOOPBACK,
        )

    def narrow(self, concurrency: int) -> None:
        """Ask by fewer requests at a time; called before the first one."""
        self._slots = asyncio.Semaphore(concurrency)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def post(
        self, path: str, body: Any, read: Callable[[Any], T], rng: np.random.Generator
    ) -> T:
        """What `read` makes of the reply; a reply that it raises PassingError on is asked again.

        The slot is kept while waiting: a server in trouble is asked less, not more.
        """
        async with self._slots:
            for attempt in range(self._patience.retries + 1):
                try:
                    # A slow server may still work on what was given up: it gets more time.
                    limit = self._timeout * min(2**attempt, 8)
                    _, document = await self._once("POST", self._base + path, body, limit)
                    return read(document)
                except PassingError as trouble:
                    await self._wait(attempt, trouble, rng)
        raise AssertionError("the last attempt returns or raises")

    async def get(self, url: str) -> tuple[Mapping[str, str], Any] | None:
        """Headers and document at an address, or `None` where there is none.

        A server that is not there at all is an error at once: this is how a run begins.
        """
        trouble: Exception | None = None
        for _ in range(LOOKS):
            try:
                return await self._once("GET", url, None, self._timeout)
            except RefusedError:
                return None
            except PassingError as error:
                trouble = error
                await asyncio.sleep(self._patience.first / 2)
        if isinstance(trouble, AbsentError):
            raise ModelError(f"nothing answers at {self._base}; is the server running?")
        return None

    async def _wait(self, attempt: int, trouble: PassingError, rng: np.random.Generator) -> None:
        if attempt == self._patience.retries:
            raise ModelError(f"{self._base} gave no answer in {attempt + 1} tries: {trouble}.")
        if trouble.wait is not None and trouble.wait > self._patience.limit:
            raise ModelError(
                f"{self._base} asks to wait {trouble.wait:.0f} s ({trouble}); run again later."
            )
        seconds = pause(attempt, trouble.wait, self._patience, rng)
        level = logging.INFO if attempt < 2 else logging.WARNING
        _log.log(level, "%s: %s; asking again in %.1f s", self._base, trouble, seconds)
        self._on_retry()
        await asyncio.sleep(seconds)

    async def _once(
        self, method: str, url: str, body: Any, limit: float
    ) -> tuple[Mapping[str, str], Any]:
        try:
            # The outer limit is for servers that drip: httpx's own starts anew with every byte.
            async with (
                asyncio.timeout(limit),
                self._http.stream(method, url, json=body, timeout=limit) as response,
            ):
                content = await self._content(response)
        except (TimeoutError, httpx.TimeoutException):
            raise PassingError(f"nothing came within {limit:g} s") from None
        except httpx.ConnectError:
            raise AbsentError("the connection failed (ConnectError)") from None
        except httpx.RequestError as error:
            raise PassingError(f"the connection failed ({type(error).__name__})") from None
        if not response.is_success:
            raise self._trouble(response, content)
        return response.headers, self._without_key(_document(content))

    async def _content(self, response: httpx.Response) -> bytes:
        """The body of a reply, unpacked here: httpx would unpack it whatever its size."""
        content = bytearray()
        try:
            inflater = Inflater(response.headers.get("content-encoding", ""))
            async for chunk in response.aiter_raw():
                for piece in inflater.pieces(chunk):
                    content += piece
                    if len(content) > MOST_BYTES:
                        raise PassingError(f"the reply is longer than {MOST_BYTES} bytes")
            inflater.check_end()
        except ValueError as error:
            raise ModelError(f"{self._base}: the reply's {error}.") from None
        except zlib.error:
            raise PassingError("the reply's gzip data are damaged") from None
        return bytes(content)

    def _trouble(self, response: httpx.Response, content: bytes) -> Exception:
        status, said = response.status_code, self._quiet(_message(content))
        spent = "insufficient_quota" in said or b"insufficient_quota" in content
        if is_passing(status) and not spent:
            wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            return PassingError(f"status {status}{said and f' ({said})'}", wait)
        if status in (401, 403):  # such answers like to quote the key, or a part of it
            fix = "check ALEATORIC_API_KEY or OPENAI_API_KEY"
            return RefusedError(f"{self._base} refused the key (status {status}); {fix}.", status)
        reason = said or "check the address, which usually ends in /v1, and the model's name"
        return RefusedError(f"{self._base} answered with status {status}: {reason}.", status)

    def _quiet(self, text: str) -> str:
        """One short line without the key."""
        hidden = text.replace(self._key, MASK) if self._key else text
        return " ".join(self.masked(hidden).split())[:300].rstrip(".")

    def masked(self, text: str) -> str:
        """A text without the key, whatever its case: a server may repeat what it was sent."""
        return text if self._secret is None else self._secret.sub(MASK, text)

    def _without_key(self, document: Any) -> Any:
        """A reply with the key masked in all its texts."""
        if self._secret is None:
            return document
        if isinstance(document, dict):
            pairs = document.items()
            return {self.masked(name): self._without_key(value) for name, value in pairs}
        if isinstance(document, list):
            return [self._without_key(value) for value in document]
        return self.masked(document) if isinstance(document, str) else document


def _document(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise PassingError("the reply is no JSON") from None


def _message(content: bytes) -> str:
    """What a server says about its refusal, in any of the usual forms."""
    try:
        document = _document(content)
    except PassingError:
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(document, dict) and name in document:
            document = document[name]
    return document if isinstance(document, str) else ""


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
