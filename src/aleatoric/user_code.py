"""A user's own function, named as `module:function`.

Callers load only what the user names in the command of this moment, never what a saved run names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from aleatoric.errors import UsageError
from aleatoric.showing import quoted


def function_at(place: str, what: str) -> Any:
    """What stands at `module:function`; `what` names its role in messages.

    >>> function_at("difflib:no_such_function", "probe")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: there is no function no_such_function in difflib; ...
    """
    module, _, attribute = place.partition(":")
    if not module or not attribute:
        raise UsageError(f"the {what} {place} names no function; write module:function.")
    found = _imported(module, place, what)
    if not hasattr(found, attribute):
        raise UsageError(f"there is no function {attribute} in {module}; write module:function.")
    return getattr(found, attribute)


def called(function: Callable[[str], object], place: str, what: str, text: str) -> object:
    """What a user's function gives for a text; it may raise anything.

    >>> called(str.upper, "mine:upper", "word rule", "a")
    'A'
    """
    if not callable(function):
        raise UsageError(f"the {what} {place} is no function; name one that takes a text.")
    try:
        return function(text)
    except Exception as error:
        raise UsageError(
            f"the {what} {place} failed on {quoted(text)} ({error_line(error)}); correct it."
        ) from error


def error_line(error: BaseException) -> str:
    """What an error says, in one short line.

    >>> error_line(ValueError("a"))
    'ValueError: a'
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _imported(module: str, place: str, what: str) -> Any:
    """A user's module, which may be in the current folder, and may raise anything."""
    try:
        with _current_folder_first():
            return import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the {what} {place} cannot be imported ({error_line(error)}); write module:function, "
            "with a module that is installed or in the current folder."
        ) from error


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Imports look into the current folder too: the script of a command does not by itself."""
    here = ""
    sys.path.insert(0, here)
    try:
        yield
    finally:
        # What the module itself did to the path stays.
        if here in sys.path:
            sys.path.remove(here)
