"""HTTP client for JSON: limited concurrency and retries; a key goes into the header only."""

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
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx
import numpy as np

from aleatoric.data.files import Inflater
from aleatoric.errors import ModelError

if TYPE_CHECKING:
    from aleatoric.models.openai_spec import Spec

Document = tuple[Mapping[str, str], Any]
"""Headers and document of an answer."""


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date; `None` if neither.

    >>> now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    >>> retry_after("7", now), retry_after("Thu, 01 Jan 2026 12:01:00 GMT", now)
    (7.0, 60.0)
    """
    text = (header or "").strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError: an hour of fifteen digits
        return None
    # A date without a time zone is GMT; one in the past means no wait.
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())


T = TypeVar("T")
MOST_BYTES = 32 * 2**20
"""The longest reply that is read: a server that never stops must not fill the memory."""
MASK = "***"
"""Replaces an API key; the word rules find no word in it."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_log = logging.getLogger(__name__)


class PassingError(Exception):
    """A failure that is worth a retry; `wait` is what the server asked for, in seconds."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


class AbsentError(PassingError):
    """The connection was not accepted."""


class RefusedError(ModelError):
    """The server refuses the request; a retry would not help."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status_code = status


def key_for(base_url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the API key: ALEATORIC_API_KEY, or OPENAI_API_KEY over https and on this machine.

    OPENAI_API_KEY is often set for other reasons, so it is never sent unencrypted.

    >>> key_for("https://api.openai.com/v1", {"OPENAI_API_KEY": "sk-1"})
    'sk-1'
    >>> key_for("http://example.org/v1", {"OPENAI_API_KEY": "sk-1"}) is None
    True
    """
    url = urlsplit(base_url)
    is_safe = url.scheme == "https" or url.hostname in LOOPBACK
    for name in ("ALEATORIC_API_KEY", "OPENAI_API_KEY")[: 1 + is_safe]:
        if key := environment.get(name, "").strip():
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise ModelError(f"{name} contains characters that no API key has; set it again.")
            return key
    return None


class Client:
    """Client of one server with at most `at_once` requests at a time."""

    def __init__(self, spec: Spec, key: str | None, on_retry: Callable[[], None]) -> None:
        self._base, self._key, self._spec = spec.base_url, key, spec
        self.at_once = spec.concurrency or 8
        # Shorter keys are placeholders (EMPTY, none) that replies may contain as words.
        self._secret = re.compile(re.escape(key), re.I) if key and len(key) >= 12 else None
        self._on_retry = on_retry
        self._slots = asyncio.Semaphore(self.at_once)
        headers = {"Accept-Encoding": "gzip"} | ({"Authorization": f"Bearer {key}"} if key else {})
        limits = httpx.Limits(max_connections=self.at_once)
        # A proxy cannot reach this machine's loopback.
        use_proxy = urlsplit(spec.base_url).hostname not in LOOPBACK
        self._http = httpx.AsyncClient(headers=headers, limits=limits, trust_env=use_proxy)

    def narrow(self, concurrency: int) -> None:
        """Reduce the concurrency; call it before the first request."""
        self._slots = asyncio.Semaphore(concurrency)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def post(
        self, path: str, body: Any, read: Callable[[Any], T], rng: np.random.Generator
    ) -> T:
        """Return `read(reply)`; the request is repeated if `read` raises `PassingError`.

        The slot is kept while waiting, so that a server in trouble gets fewer requests.
        """
        async with self._slots:
            for attempt in range(self._spec.retries + 1):
                try:
                    # A slow server may still work on the last attempt: it gets more time.
                    limit = self._spec.timeout * min(2**attempt, 8)
                    _, document = await self._once("POST", self._base + path, body, limit)
                    return read(document)
                except PassingError as trouble:
                    await self._wait(attempt, trouble, rng)
        raise AssertionError("the last attempt returns or raises")

    async def get(self, url: str) -> Document | None:
        """Return (headers, document), `None` if there is none; raise if nothing answers."""
        trouble: Exception | None = None
        for _ in range(3):
            try:
                return await self._once("GET", url, None, self._spec.timeout)
            except RefusedError:
                return None
            except PassingError as error:
                trouble = error
                await asyncio.sleep(self._spec.backoff / 2)
        if isinstance(trouble, AbsentError):
            raise ModelError(f"nothing answers at {self._base}; is the server running?")
        return None

    async def _wait(self, attempt: int, trouble: PassingError, rng: np.random.Generator) -> None:
        if attempt == self._spec.retries:
            raise ModelError(f"{self._base} gave no answer in {attempt + 1} tries: {trouble}.")
        if trouble.wait is not None and trouble.wait > 300.0:
            fix = "run again later"
            raise ModelError(f"{self._base} asks to wait {trouble.wait:.0f} s ({trouble}); {fix}.")
        # Exponential backoff with jitter; the wait that a server asks for is a lower bound.
        seconds = min(30.0, self._spec.backoff * 2**attempt) * float(rng.uniform(0.5, 1.0))
        if trouble.wait is not None:
            seconds = trouble.wait + seconds / 2
        level = logging.INFO if attempt < 2 else logging.WARNING
        _log.log(level, "%s: %s; asking again in %.1f s", self._base, trouble, seconds)
        self._on_retry()
        await asyncio.sleep(seconds)

    async def _once(self, method: str, url: str, body: Any, limit: float) -> Document:
        try:
            # The outer limit is for slow streams: that of httpx restarts with every byte.
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
        """The body of a reply, decompressed here because httpx does not limit its size."""
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
        status, message = response.status_code, _message(content)
        hidden = self.masked(message.replace(self._key, MASK) if self._key else message)
        shown = " ".join(hidden.split())[:300].rstrip(".")
        spent = "insufficient_quota" in shown or b"insufficient_quota" in content
        # 501: the server does not implement it.
        is_passing = status in (408, 425, 429) or (status >= 500 and status != 501)
        if is_passing and not spent:
            wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            return PassingError(f"status {status}{shown and f' ({shown})'}", wait)
        if status in (401, 403):  # such replies often quote the key, or part of it
            fix = "check ALEATORIC_API_KEY or OPENAI_API_KEY"
            return RefusedError(f"{self._base} refused the key (status {status}); {fix}.", status)
        reason = shown or "check the address, which usually ends in /v1, and the model's name"
        return RefusedError(f"{self._base} answered with status {status}: {reason}.", status)

    def masked(self, text: str) -> str:
        """Mask the key in a text, in any case: a server may repeat what it received."""
        return text if self._secret is None else self._secret.sub(MASK, text)

    def _without_key(self, document: Any) -> Any:
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
    """Run an event loop in a thread until the block ends; then cancel what still runs."""
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
    """Run a coroutine from synchronous code and return its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def as_finished(
    inputs: Iterable[T],
    work: Callable[[T], Coroutine[Any, Any, R]],
    loop: asyncio.AbstractEventLoop,
    window: int,
) -> Iterator[R]:
    """Yield results as they are finished, with at most `window` inputs in progress.

    Inputs are read in the caller's thread, because they may come from a file or a database.

    >>> async def double(number): return 2 * number
    >>> with background_loop() as loop:
    ...     sorted(as_finished(iter(range(5)), double, loop, window=2))
    [0, 2, 4, 6, 8]
    """
    pending: set[Future[R]] = set()
    try:
        for value in inputs:
            pending.add(asyncio.run_coroutine_threadsafe(work(value), loop))
            yield from _take_finished(pending, timeout=None if len(pending) >= window else 0)
        while pending:
            yield from _take_finished(pending, timeout=None)
    finally:
        for future in pending:  # the caller stopped early, or one of them failed
            future.cancel()


def _take_finished(pending: set[Future[R]], timeout: float | None) -> Iterator[R]:
    """Yield finished results, successes first, so that they are kept even if another failed."""
    done, _ = wait(pending, timeout, FIRST_COMPLETED)
    pending -= done
    for future in sorted(done, key=lambda future: future.exception() is not None):
        yield future.result()
