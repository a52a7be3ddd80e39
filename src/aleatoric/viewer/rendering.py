"""Templates, in which every text is escaped and every control character shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

from aleatoric.errors import MissingExtraError
from aleatoric.report.tables import printable

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
            loader=PackageLoader("aleatoric.viewer"),
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
    folder = resources.files("aleatoric.viewer") / "static"
    return {name: (folder / name).read_bytes() for name in STATIC}
