"""What the explorer gives back, before it is sent."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aleatoric.errors import MissingExtraError
from aleatoric.report.tables import printable

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


_STEERING = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[bytes]:
    """A heading and rows, encoded row by row.

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
    # A spreadsheet would take such a text for a formula, and texts are anybody's.
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
        """The address of a page with its parameters; parameters without a value are left out."""
        path = "/".join(quote(part, safe="") for part in (self.token, *parts))
        given = urlencode([(key, value) for key, value in params if value])
        return f"/{path}?{given}" if given else f"/{path}"

    def run(self, key: str, *parts: str, params: Pairs = ()) -> str:
        """The address of a page of one run."""
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
            self._environment.get_template(name)  # the first reader need not wait for it

    def render(self, name: str, data: Mapping[str, Any]) -> str:
        """A page as text."""
        return self._environment.get_template(f"{name}.html.j2").render(**data)


def visible(value: Any) -> Any:
    """A text with its control characters shown; what is markup already stays.

    >>> visible("a\\x07"), visible(3)
    ('a\\\\x07', 3)
    """
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text and not value.isprintable() else value


def most(values: Iterable[float]) -> float:
    """The greatest of some values that may be undefined; never 0, so that it can divide.

    >>> most([0.5, float("nan"), 0.2]), most([])
    (0.5, 1e-09)
    """
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1e-9


class Dot(NamedTuple):
    """A mark of a scatter that leads somewhere."""

    x: float
    y: float
    size: float
    n: int
    href: str
    label: str


def dots_markup(dots: Sequence[Dot]) -> Any:
    """The marks of a scatter, escaped here: a template would take most of a page's time for them.

    >>> str(dots_markup([Dot(1.0, 2.0, 3.0, 1, "/a?b&c", "<i>")]))
    '<a href="/a?b&amp;c" tabindex="-1"><circle class="single" cx="1.0" cy="2.0" r="3.0" \
data-tip="&lt;i&gt;"/></a>'
    """
    from markupsafe import Markup

    return Markup("\n").join(Markup(_dot(one)) for one in dots)


def _dot(one: Dot) -> str:
    kind = "many" if one.n > 1 else "single"
    href, label = escape(one.href), escape(visible(one.label))
    place = f'cx="{one.x}" cy="{one.y}" r="{one.size:.1f}"'
    mark = f'<circle class="{kind}" {place} data-tip="{label}"/>'
    return f'<a href="{href}" tabindex="-1">{mark}</a>'


def static_files() -> dict[str, bytes]:
    """The files that pages load, by name: nothing else can be asked for."""
    folder = resources.files("aleatoric.report.explorer") / "static"
    return {name: (folder / name).read_bytes() for name in STATIC}
