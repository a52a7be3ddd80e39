"""Errors that a user can act on: each is one sentence that names the place and the fix."""

from __future__ import annotations

from pathlib import Path


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
        """An error in the common form: file, line, problem, fix."""
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
"""Zero-width non-joiner and joiner: they change the shape of letters and are safe to print."""


def quoted(value: object, most: int = 60) -> str:
    """Return a value in quotes, cut to `most` characters, with unprintable characters escaped.

    >>> print(quoted("lechón\x1b"), quoted("a" * 9, 5), quoted(1.5))
    'lechón\\x1b' 'aaaa…' 1.5
    """
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    if not isinstance(value, str):
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    mark = '"' if "'" in text and '"' not in text else "'"
    return f"{mark}{''.join(c if c in INVISIBLE_LETTERS else repr(c)[1:-1] for c in text)}{mark}"
