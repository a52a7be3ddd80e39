"""Errors a user can act on: one sentence that names the place and the fix."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


class AleatoricError(Exception):
    """The base of all errors meant for the user; the command line exits with `status`."""

    status = 1


class UsageError(AleatoricError):
    """The command was asked for something that does not exist or does not fit."""

    status = 2


class DataError(AleatoricError):
    """An input file holds something that cannot be used.

    >>> str(DataError.at("words.jsonl", 3, "count -1 is negative", "use whole numbers from 1 up"))
    'words.jsonl, line 3: count -1 is negative; use whole numbers from 1 up.'
    """

    status = 2

    @classmethod
    def at(cls, path: str | Path, line: int | None, problem: str, fix: str) -> DataError:
        """The one form of every data error: file, line, problem, fix."""
        place = f"{path}, line {line}" if line is not None else f"{path}"
        return cls(f"{place}: {problem}; {fix}.")


class ModelError(AleatoricError):
    """A model could not be loaded or did not answer."""


class StorageError(AleatoricError):
    """A run could not be written for a reason outside the command: a full or a failing disk."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}; {fix}.")
        self.problem = problem


class FetchError(AleatoricError):
    """A download failed for a reason outside the command: network, server, disk."""


class MissingExtraError(UsageError):
    """An optional dependency is needed.

    >>> str(MissingExtraError("spacy", "nlp"))
    'this needs the package spacy: run pip install "aleatoric[nlp]".'
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f'this needs the package {package}: run pip install "aleatoric[{extra}]".')


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
