"""JSON over HTTP with a limit on how much is asked at once, and with second chances.

A key goes into the request header and nowhere else: not into errors, logs or representations.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import numpy as np

from aleatoric.errors import ModelError
from aleatoric.files import Inflater
from aleatoric.models.retry import Patience, is_passing, pause, retry_after

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
