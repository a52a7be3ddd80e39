"""ASSET (Alva-Manchego et al. 2020): sentences and ten people's simplifications of each.

Read in the publishers' layout (`asset.valid.orig` and `asset.valid.simp.0` to `.9` in one folder,
line n of each belonging together) or as JSON lines. Ids count lines from 0, as the files do.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import Gaps, checked, input_of, is_json_lines, read_json_lines
from aleatoric.errors import DataError
from aleatoric.types import MultiRef, TextItem

LICENCE = "CC BY-NC 4.0"
_SPLITS = ("valid", "test")
Line = tuple[Place, str]


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read a folder of the publishers' files, one of its `.orig` files, or JSON lines."""
    gaps = Gaps()
    if is_json_lines(source):
        sha256, version = files.sha256_of(source), source.name.partition(".")[0]
        items = checked(lambda: read_json_lines(source, encoding), gaps, source)
    else:
        original, simplified = _find(source)
        sha256 = _sha256_of_all([original, *simplified])
        version = original.name.split(".")[1]
        items = checked(lambda: _read(original, simplified, encoding), gaps, original)
    return MultiRef("asset", version, sha256, LICENCE, items, gaps, "en")


def _find(source: Path) -> tuple[Path, list[Path]]:
    """The originals and the files of simplifications that belong to them, in their order."""
    original = _original(source)
    stem = original.name.removesuffix(".orig")
    numbered = re.compile(re.escape(stem) + r"\.simp\.(\d{1,4})")
    found = {
        int(match[1]): path
        for path in original.parent.iterdir()
        if (match := numbered.fullmatch(path.name))
    }
    if len(found) < 2:
        problem = f"{len(found)} files {stem}.simp.N stand beside it"
        raise DataError.at(original, None, problem, f"put {stem}.simp.0 to {stem}.simp.9 there")
    return original, [found[number] for number in sorted(found)]


def _original(source: Path) -> Path:
    if os.path.isfile(source) and source.name.endswith(".orig"):
        return source
    for split in _SPLITS:
        if os.path.isfile(source / f"asset.{split}.orig"):
            return source / f"asset.{split}.orig"
    problem = "holds no asset.valid.orig" if os.path.isdir(source) else "is no folder of ASSET"
    fix = "name the folder of asset.valid.orig and asset.valid.simp.0 to .9, or a JSON-lines file"
    raise DataError.at(source, None, problem, fix)


def _sha256_of_all(paths: list[Path]) -> str:
    digests = "".join(map(files.sha256_of, paths))
    return hashlib.sha256(digests.encode()).hexdigest()


def _read(original: Path, simplified: list[Path], encoding: str) -> Iterator[TextItem]:
    columns = [files.read_lines(path, encoding) for path in (original, *simplified)]
    for number, lines in enumerate(zip_longest(*columns)):
        first, *rest = _complete(lines, [original, *simplified], number)
        key = str(number)
        text = input_of(_text(first), "the original", first[0])
        yield TextItem(key, key, text, tuple(map(_text, rest)))


def _complete(lines: tuple[Line | None, ...], paths: list[Path], number: int) -> list[Line]:
    found = [line for line in lines if line is not None]
    if len(found) < len(lines):
        short = paths[lines.index(None)]
        problem = f"the file has no such line, but {found[0][0][0].name} has"
        fix = "give all files the same number of lines"
        raise DataError.at(short, number + 1, problem, fix)
    return found


def _text(line: Line) -> str:
    place, text = line
    return files.text_of(text.rstrip("\r\n"), "the line", place)
