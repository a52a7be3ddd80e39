"""A small OpenAI-compatible server on loopback with injected faults.

With an `upstream` it is a proxy: requests without a fault are forwarded to the real server.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
import tracemalloc
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

STALL = 1.0
"""Seconds that a stalled reply takes: longer than the tests' time limits."""


class FaultyServer(ThreadingHTTPServer):
    """Answers correctly except for the given faults, one per POST in order (`None`: no fault)."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: Iterator[str | None] = iter(())
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.gets: list[str] = []
        self.text: Callable[[int, dict[str, Any]], str] = lambda number, body: f" word{number} is"
        self.finish_reason: Callable[[int], str] = lambda number: "length"
        self.upstream: str | None = None
        self.packed = b""
        self.complaint = ""
        self.about: dict[str, Any] = {}
        self.running = self.most_running = 0
        self.numbers = count()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultyServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.gets.append(self.path)
        found = self.server.about.get(self.path)
        self._send(404 if found is None else 200, json.dumps(found or {}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.running += 1
            self.server.most_running = max(self.server.most_running, self.server.running)
            fault = next(self.server.faults, None)
            self.server.asked.append(body)
            self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
            self.server.times.append(time.monotonic())
        try:
            self._answer(fault, body)
        finally:
            with self.server.lock:
                self.server.running -= 1

    def _answer(self, fault: str | None, body: dict[str, Any]) -> None:
        kind, _, detail = (fault or "").partition(":")
        if self.server.upstream is not None and kind not in ("status", "hang-up", "body"):
            good = self._forwarded(body)
        else:
            good = json.dumps(self._completion(body, kind, detail))
        if kind == "status":
            self._send_status(detail)
        elif kind == "cut":
            self._send(200, good, length=len(good) + 100)
            self.close_connection = True
        elif kind == "hang-up":
            self.close_connection = True
        elif kind == "stall":
            time.sleep(STALL)
            self._send(200, good)
        elif kind == "drip":
            self._drip(good)
        elif kind == "body":
            self._send(200, detail)
        elif kind == "packed":
            packed = self.server.packed or gzip.compress(good.encode())
            self._send(200, packed, {"Content-Encoding": detail})
        else:
            time.sleep(0.002)
            self._send(200, good)

    def _forwarded(self, body: dict[str, Any]) -> str:
        request = urllib.request.Request(
            f"{self.server.upstream}{self.path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return str(response.read().decode())

    def _completion(self, body: dict[str, Any], kind: str, detail: str) -> dict[str, Any]:
        size = body.get("n", 1)
        if kind in ("few", "many"):
            size = int(detail) if kind == "few" else size + 2
        choices = [self._choice("messages" in body, body) for _ in range(size)]
        usage = {"prompt_tokens": 10, "completion_tokens": 2 * size}
        return {"model": "served-1", "choices": choices, "usage": usage}

    def _choice(self, is_chat: bool, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self.server.numbers)
        text = self.server.text(number, body)
        holder = {"message": {"content": text}} if is_chat else {"text": text}
        return holder | {"finish_reason": self.server.finish_reason(number)}

    def _send_status(self, detail: str) -> None:
        status, _, wait = detail.partition(" ")
        if wait == "date":
            wait = formatdate(time.time() + 2, usegmt=True)
        headers = {"Retry-After": wait} if wait and wait != "quota" else {}
        secret = self.headers.get("authorization", "").removeprefix("Bearer ")
        error = {"message": self.server.complaint or f"you sent {secret}, and that is not liked"}
        error |= {"code": "insufficient_quota"} if wait == "quota" else {}
        self._send(int(status), json.dumps({"error": error}), headers)

    def _drip(self, text: str) -> None:
        self._send(200, "", length=len(text))
        for character in text:
            self.wfile.write(character.encode())
            self.wfile.flush()
            time.sleep(0.1)

    def _send(
        self,
        status: int,
        text: str | bytes,
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        content = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)


@cache
def bomb(layers: int, size: int = 2**28) -> bytes:
    """Zeros compressed several times; a few hundred bytes from three layers on."""
    packer = zlib.compressobj(1, wbits=31)
    pieces = [packer.compress(bytes(2**20)) for _ in range(size // 2**20)]
    packed = b"".join([*pieces, packer.flush()])
    for _ in range(layers - 1):
        packed = gzip.compress(packed, mtime=0)
    return packed


@contextmanager
def peak_below(most: int) -> Iterator[None]:
    """Fail if the peak memory of Python within the block exceeds `most` bytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@contextmanager
def serving() -> Iterator[FaultyServer]:
    """Run a server within the block."""
    faulty = FaultyServer()
    thread = threading.Thread(target=faulty.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield faulty
    finally:
        faulty.shutdown()
        faulty.server_close()
        thread.join()
