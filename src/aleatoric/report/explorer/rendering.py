"""Answers of the explorer, before they are sent: pages, JSON, CSV; and links between pages."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from aleatoric.errors import MissingExtraError
from aleatoric.report.tables import printable

HTML, JSON, CSV = "text/html; charset=utf-8", "application/json", "text/csv; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """A page, a JSON document or a file to download."""

    kind: str
    body: bytes | Iterable[bytes]
    """Whole, or in parts if it may be long."""
    status: int = 200
    filename: str | None = None
    location: str | None = None
    lasting: bool = False
    """Whether a browser may cache it."""


class NotFoundError(Exception):
    """There is no such page, run or item; the message is shown to the reader."""


def page(html: str, status: int = 200) -> Answer:
    """Return a page; what cannot be encoded is shown as an escape."""
    return Answer(HTML, html.encode("utf-8", "backslashreplace"), status)


def document(value: Any) -> Answer:
    """Return a JSON document.

    >>> document({"a": 1}).body
    b'{"a": 1}'
    """
    return Answer(JSON, json.dumps(value, allow_nan=False).encode())


def moved(location: str) -> Answer:
    """Return a redirect."""
    return Answer(HTML, b"", 303, location=location)


_STEERING = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[bytes]:
    """Yield a heading and rows as encoded CSV.

    >>> b"".join(csv_lines(["a"], [[0.5], [math.nan], ["=1"]]))
    b'a\\n0.5\\n""\\n\\'=1\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(heading))
    for row in rows:
        writer.writerow([_cell(one) for one in row])
        if out.tell() > 1 << 16:
            yield _taken(out)
    yield _taken(out)


def _taken(out: io.StringIO) -> bytes:
    found = out.getvalue().encode("utf-8", "backslashreplace")
    out.seek(0)
    out.truncate()
    return found


def _cell(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return ""
    # A spreadsheet would take such a text for a formula, and texts may come from anybody.
    if isinstance(value, str) and value.startswith(_STEERING):
        return f"'{value}"
    return value


Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Links:
    """Makes addresses.

    >>> Links("s3cret").to("run", "0", "context", params=[("id", "1:2 <a>")])
    '/s3cret/run/0/context?id=1%3A2+%3Ca%3E'
    """

    token: str

    def to(self, *parts: str, params: Pairs = ()) -> str:
        """Return the address of a page; parameters without a value are left out."""
        path = "/".join(quote(part, safe="") for part in (self.token, *parts))
        given = urlencode([(key, value) for key, value in params if value])
        return f"/{path}?{given}" if given else f"/{path}"

    def run(self, key: str, *parts: str, params: Pairs = ()) -> str:
        """Return the address of a page of one run."""
        return self.to("run", key, *parts, params=params)


STATIC = {
    "view.css": "text/css; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Pages:
    """The explorer's templates, read once."""

    def __init__(self, shared: Mapping[str, Any]) -> None:
        try:
            from jinja2 import Environment, PackageLoader, StrictUndefined
        except ImportError:
            raise MissingExtraError("jinja2", "report") from None
        self._environment = Environment(
            loader=PackageLoader("aleatoric.report.explorer"),
            autoescape=True,
            finalize=visible,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(shared)
        self._environment.filters["most"] = most
        for name in self._environment.list_templates():
            self._environment.get_template(
                name
            )  # compiled now, so that the first reader does not wait

    def render(self, name: str, data: Mapping[str, Any]) -> str:
        """Return a page as text."""
        return self._environment.get_template(f"{name}.html.j2").render(**data)


def visible(value: Any) -> Any:
    """Return a text with its control characters as escapes; markup stays as it is.

    >>> visible("a\\x07"), visible(3)
    ('a\\\\x07', 3)
    """
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def most(values: Iterable[float]) -> float:
    """Return the greatest of values that may be undefined; never 0, so that it can divide.

    >>> most([0.5, float("nan"), 0.2]), most([])
    (0.5, 1e-09)
    """
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1e-9


def static_files() -> dict[str, bytes]:
    """Return the files that pages load, by name: no others can be requested."""
    folder = resources.files("aleatoric.report.explorer") / "static"
    return {name: (folder / name).read_bytes() for name in STATIC}
