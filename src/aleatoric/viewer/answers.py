"""What the explorer gives back, before it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HTML, JSON, CSV = "text/html; charset=utf-8", "application/json", "text/csv; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """A page, a document or a file to keep."""

    kind: str
    body: bytes | Iterable[bytes]
    """Whole, or part by part where it may be long."""
    status: int = 200
    filename: str | None = None
    location: str | None = None
    lasting: bool = False
    """Whether a browser may keep it."""


class NotFoundError(Exception):
    """There is no such page, run or item; the message is shown to the reader."""


def page(html: str, status: int = 200) -> Answer:
    """A page; what cannot be encoded is shown as an escape."""
    return Answer(HTML, html.encode("utf-8", "backslashreplace"), status)


def document(value: Any) -> Answer:
    """A JSON document.

    >>> document({"a": 1}).body
    b'{"a": 1}'
    """
    return Answer(JSON, json.dumps(value, allow_nan=False).encode())


def moved(location: str) -> Answer:
    """Go and see there."""
    return Answer(HTML, b"", 303, location=location)
