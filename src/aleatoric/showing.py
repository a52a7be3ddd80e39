"""What a notebook can show. Imports nothing of ours: how it is shown is looked up when asked."""

from __future__ import annotations

from importlib import import_module
from typing import Any


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
