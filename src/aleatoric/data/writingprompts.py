"""WritingPrompts (Fan et al. 2018): prompts, each with the stories that people wrote.

Read in the publishers' layout (`valid.wp_source` with one prompt per line and `valid.wp_target`
with its story; a prompt is repeated for each of its stories) or as JSON lines. Stories of the same
prompt belong together, in the order of the file; an item's id is the line of its prompt's first
story. The publishers write a line break as `<newline>`, which becomes one again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import input_of, multi_reference, read_references
from aleatoric.errors import DataError
from aleatoric.types import MultiRef, TextItem


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read a folder of the publishers' files, one of its `.wp_source` files, or JSON lines."""
    is_rows = files.is_json_lines(source)
    paths = [source] if is_rows else _find(source)
    version = paths[0].name.partition(".")[0]
    read = (
        partial(read_references, source, encoding) if is_rows else partial(_read, paths, encoding)
    )
    return multi_reference(read, paths, "writingprompts", version, "none stated")


def _find(source: Path) -> list[Path]:
    """The file of prompts and the file of stories."""
    if os.path.isfile(source) and source.name.endswith((".wp_source", ".wp_target")):
        return [source.with_suffix(".wp_source"), source.with_suffix(".wp_target")]
    for split in ("valid", "test", "train"):
        if os.path.isfile(source / f"{split}.wp_source"):
            return [source / f"{split}.wp_source", source / f"{split}.wp_target"]
    is_folder = os.path.isdir(source)
    problem = "holds no valid.wp_source" if is_folder else "is no file of WritingPrompts"
    fix = "name the folder or file of valid.wp_source and valid.wp_target, or a JSON-lines file"
    raise DataError.at(source, None, problem, fix)


def _read(paths: list[Path], encoding: str) -> Iterator[TextItem]:
    stories: dict[str, list[str]] = {}
    first_line: dict[str, int] = {}
    fix = "give every prompt its story"
    for (place, left), (there, right) in files.read_aligned(paths, encoding, fix):
        (prompt,) = input_of(_text(left), "the prompt", place)
        stories.setdefault(prompt, []).append(files.text_of(_text(right), "the story", there))
        first_line.setdefault(prompt, place[1])
    for prompt, texts in stories.items():
        key = str(first_line[prompt])
        yield TextItem(key, key, (prompt,), tuple(texts))


def _text(line: str) -> str:
    return "\n".join(part.strip() for part in line.strip().split("<newline>"))
