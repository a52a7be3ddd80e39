"""Answers of the explorer, before they are sent: pages, JSON, CSV; and links between pages."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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


_STEERING = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[bytes]:
    """Yield a heading and rows as encoded CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(heading))
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        if out.tell() > 1 << 16:
            yield out.getvalue().encode("utf-8", "backslashreplace")
            out.seek(0)
            out.truncate()
    yield out.getvalue().encode("utf-8", "backslashreplace")


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
    """Makes addresses."""

    token: str

    def to(self, *parts: str, params: Pairs = ()) -> str:
        """Return the address of a page; parameters without a value are left out."""
        path = "/".join(quote(part, safe="") for part in (self.token, *parts))
        query = urlencode([(key, value) for key, value in params if value])
        return f"/{path}?{query}" if query else f"/{path}"

    def run(self, key: str, *parts: str, params: Pairs = ()) -> str:
        """Return the address of a page of one run."""
        return self.to("run", key, *parts, params=params)


STATIC = {
    "view.css": "text/css; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def environment(package: str, **settings: Any) -> Any:
    """Return the templates of a package; texts are escaped, their control characters visible."""
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    loader = PackageLoader(package)
    return Environment(loader=loader, autoescape=True, finalize=_visible, **settings)


def explorer_pages(shared: Mapping[str, Any]) -> Any:
    """Return the explorer's templates, compiled, so that the first reader does not wait."""
    pages = environment("aleatoric.report.explorer", trim_blocks=True, lstrip_blocks=True)
    from jinja2 import StrictUndefined

    pages.undefined = StrictUndefined
    pages.globals.update(shared)
    pages.filters["most"] = _most
    for name in pages.list_templates():
        pages.get_template(name)
    return pages


def _visible(value: Any) -> Any:
    # Markup is the page's own: scripts, and data that is escaped already.
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def _most(values: Iterable[float]) -> float:
    """Return the greatest of values that may be undefined; never 0, so that it can divide."""
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1e-9
