"""Errors that a user can act on: each is one sentence that names the place and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class AleatoricError(Exception):
    """The base of all errors meant for the user; the command line exits with `status`."""

    status = 1


class UsageError(AleatoricError):
    """The command was asked for something that does not exist or does not fit."""

    status = 2


class ArgumentError(UsageError, ValueError):
    """An argument of a function of the public interface cannot be used."""


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


class ModelUsageError(ModelError, UsageError):
    """A model cannot be used as asked: its name, access to it, its files or its size."""


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


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Turn the failed import of an optional package into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError:
        raise MissingExtraError(package, extra) from None


def check_choice(what: str, value: object, names: Iterable[str]) -> None:
    """Refuse a value that is none of these names.

    >>> check_choice("unit", "letter", ("word", "token"))
    Traceback (most recent call last):
    aleatoric.errors.UsageError: there is no unit 'letter'; use word or token.
    """
    if value not in (listed := [*names]):
        raise UsageError(f"there is no {what} {value!r}; use {' or '.join(listed)}.")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def refuse_argument(kind: str, usage: str, argument: str) -> None:
    """Raise for a plugin that takes no argument; `usage` is how to name it."""
    if argument:
        name = usage.rpartition(" ")[2]
        raise UsageError(f"the {kind} {name} takes no argument; write {usage}.")


def did_you_mean(spec: str, known: Iterable[str]) -> str:
    """Return the question for a misspelt NAME or NAME:ARGUMENT; empty if no name is close.

    >>> did_you_mean("Smolm2", ["smollm2", "hf"]), did_you_mean("HF:gpt2", ["hf"])
    (' (did you mean smollm2?)', ' (did you mean hf:gpt2?)')
    """
    name, colon, argument = spec.partition(":")
    folded = {candidate.casefold(): candidate for candidate in known}
    near = get_close_matches(name.casefold(), folded, 1, cutoff=0.75)
    meant = [quoted(f"{folded[found]}{colon}{argument}", 200)[1:-1] for found in near]
    return f" (did you mean {meant[0]}?)" if meant else ""


INVISIBLE_LETTERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: they change the shape of letters and are safe to print."""


def counted(n: int, noun: str, singular: str = "", plural: str = "") -> str:
    """Return a number with its noun, and with a verb that agrees if one is given.

    >>> counted(1, "row", "has", "have"), counted(2, "row", "has", "have"), counted(3, "answer")
    ('1 row has', '2 rows have', '3 answers')
    """
    return f"{n} {noun} {singular}".rstrip() if n == 1 else f"{n} {noun}s {plural}".rstrip()


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
