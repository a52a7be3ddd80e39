"""What every target does with its bytes: put them into files, read those, expect a refusal or none.

A target passes where reading ends well or with an `AleatoricError`: one printable sentence that
ends in a full stop. Anything else is a finding.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

from aleatoric.errors import AleatoricError, DataError

CUT = b"\n=====\n"
"""Parts the files of a target that reads several."""


class Target(NamedTuple):
    """A reader under test, good inputs to begin with, and words that matter to it."""

    name: str
    trial: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    tokens: tuple[bytes, ...]


def targets() -> list[str]:
    """The names of all targets: one module each.

    >>> "cloze" in targets()
    True
    """
    return sorted(module.name for module in iter_modules(import_module("fuzz.targets").__path__))


def target_named(name: str) -> Target:
    """The target of a name.

    >>> target_named("word_rules").name
    'word_rules'
    """
    module = import_module(f"fuzz.targets.{name}")
    return Target(name, module.trial, module.SEEDS, module.TOKENS)


@contextmanager
def refusals() -> Iterator[None]:
    """Lets errors that are meant for the user pass, if they are sentences."""
    try:
        yield
    except AleatoricError as error:
        _check(str(error), isinstance(error, DataError))


def _check(said: str, is_data: bool) -> None:
    assert said.endswith("."), said
    assert not is_data or "; " in said, said


def written(data: bytes, *names: str) -> list[Path]:
    """The bytes as files of these names in a folder that is cleared first."""
    folder = _folder()
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    parts = data.split(CUT, len(names) - 1) if len(names) > 1 else [data]
    parts += [b""] * (len(names) - len(parts))
    paths = [folder / name for name in names]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part)
    return paths


def read_all(items: Iterable[Any]) -> None:
    """Walk to the end and keep nothing."""
    deque(items, maxlen=0)


def text_of(data: bytes) -> str:
    """Bytes as any text, half characters included, which only a program can hand over."""
    return data.decode("utf-8", errors="surrogateescape")


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="aleatoric-fuzz-"))
