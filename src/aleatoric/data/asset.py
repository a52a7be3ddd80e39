"""ASSET (Alva-Manchego et al. 2020): sentences, each simplified by ten people.

Read in the publishers' layout (`asset.valid.orig` and `asset.valid.simp.0` to `.9` in one folder,
line n of each belonging together) or as JSON lines. Ids count lines from 0, as the files do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import input_of, multi_reference, read_references
from aleatoric.errors import DataError
from aleatoric.types import MultiRef, TextItem


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read a folder of the publishers' files, one of its `.orig` files, or JSON lines."""
    is_rows = files.is_json_lines(source)
    paths = [source] if is_rows else _find(source)
    version = paths[0].name.split(".")[0 if is_rows else 1]
    read = (
        partial(read_references, source, encoding) if is_rows else partial(_read, paths, encoding)
    )
    return multi_reference(read, paths, "asset", version, "CC BY-NC 4.0")


def _find(source: Path) -> list[Path]:
    """The file of originals, and its files of simplifications in the order of their numbers."""
    inside = (source / f"asset.{split}.orig" for split in ("valid", "test"))
    named = source if source.name.endswith(".orig") else None
    original = next((path for path in (named, *inside) if path and os.path.isfile(path)), None)
    if original is None:
        problem = "holds no asset.valid.orig" if os.path.isdir(source) else "is no folder of ASSET"
        fix = "name the folder of asset.valid.orig and asset.valid.simp.0 to .9, or a JSON-lines"
        raise DataError.at(source, None, problem, f"{fix} file")
    stem = original.name.removesuffix(".orig")
    numbered = re.compile(re.escape(stem) + r"\.simp\.(\d{1,4})")
    references = {
        int(match[1]): path
        for path in original.parent.iterdir()
        if (match := numbered.fullmatch(path.name))
    }
    if len(references) < 2:
        problem = f"there are {len(references)} files {stem}.simp.N beside it"
        raise DataError.at(original, None, problem, f"put {stem}.simp.0 to {stem}.simp.9 there")
    return [original, *(references[number] for number in sorted(references))]


def _read(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    fix = "give all files the same number of lines"
    for number, lines in enumerate(files.read_aligned(paths, encoding, fix)):
        texts = [files.text_of(line.rstrip("\r\n"), "the line", place) for place, line in lines]
        original = input_of(texts[0], "the original", lines[0][0])
        yield TextItem(str(number), str(number), original, tuple(texts[1:]))
