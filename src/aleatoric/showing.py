"""How values are shown in messages and notebooks. Imports nothing of ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any

INVISIBLE_LETTERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: they shape letters, and steer nothing."""


def quoted(value: object, most: int = 60) -> str:
    """A value in quotes, cut to `most` characters, with what cannot be printed escaped.

    Letters of all scripts are shown as they are.

    >>> print(quoted("lechón\x1b"), quoted("a" * 9, 5), quoted(1.5))
    'lechón\\x1b' 'aaaa…' 1.5
    """
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    if not isinstance(value, str):
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    mark = '"' if "'" in text and '"' not in text else "'"
    return f"{mark}{''.join(c if c in INVISIBLE_LETTERS else repr(c)[1:-1] for c in text)}{mark}"


class Showable:
    """Something that a notebook shows as a table, and that can be drawn."""

    __slots__ = ()

    def plot(self, *asked: Any, **options: Any) -> Any:
        """It on matplotlib axes: `axes` to draw into, and what `aleatoric.report.notebook` takes.

        A result: the values of its items beside its interval. Several results: one `metric` of
        every system. A study: one `figure` by its name.
        """
        return _notebook().plot(self, *asked, **options)

    def _repr_html_(self) -> str:
        return str(_notebook().to_html(self))


def _notebook() -> Any:
    # Found by name, as plugins are: types stay at the bottom of the house.
    return import_module("aleatoric.report.notebook")
