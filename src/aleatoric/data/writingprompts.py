"""WritingPrompts (Fan et al. 2018): prompts and the stories that people wrote to them.

Read in the publishers' layout (`valid.wp_source` with a prompt a line and `valid.wp_target` with
its story; a prompt stands once a story) or as JSON lines. Stories of the same prompt belong
together, in the order of the file; an item's id is the line of its prompt's first story. The
publishers write a line break as `<newline>`, which becomes one again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.items import Gaps, checked, input_of, is_json_lines, read_json_lines
from aleatoric.errors import DataError
from aleatoric.types import MultiRef, TextItem

LICENCE = "none stated"
_SPLITS = ("valid", "test", "train")
_NEWLINE = "<newline>"


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read a folder of the publishers' files, one of its `.wp_source` files, or JSON lines."""
    gaps = Gaps()
    if is_json_lines(source):
        sha256, version = files.sha256_of(source), source.name.partition(".")[0]
        items = checked(lambda: read_json_lines(source, encoding), gaps, source)
    else:
        prompts, stories = _find(source)
        digests = files.sha256_of(prompts) + files.sha256_of(stories)
        sha256 = hashlib.sha256(digests.encode()).hexdigest()
        version = prompts.name.partition(".")[0]
        items = checked(lambda: _read(prompts, stories, encoding), gaps, prompts)
    return MultiRef("writingprompts", version, sha256, LICENCE, items, gaps, "en")


def _find(source: Path) -> tuple[Path, Path]:
    if os.path.isfile(source) and source.name.endswith((".wp_source", ".wp_target")):
        return source.with_suffix(".wp_source"), source.with_suffix(".wp_target")
    for split in _SPLITS:
        if os.path.isfile(source / f"{split}.wp_source"):
            return source / f"{split}.wp_source", source / f"{split}.wp_target"
    problem = (
        "holds no valid.wp_source" if os.path.isdir(source) else "is no file of WritingPrompts"
    )
    fix = "name the folder or file of valid.wp_source and valid.wp_target, or a JSON-lines file"
    raise DataError.at(source, None, problem, fix)


def _read(prompts: Path, stories: Path, encoding: str) -> Iterator[TextItem]:
    gathered: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    lines = zip_longest(files.read_lines(prompts, encoding), files.read_lines(stories, encoding))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            short, longer = (prompts, stories) if left is None else (stories, prompts)
            problem = f"the file has no such line, but {longer.name} has"
            raise DataError.at(short, number, problem, "give every prompt its story")
        (prompt,) = input_of(_text(left[1]), "the prompt", left[0])
        story = files.text_of(_text(right[1]), "the story", right[0])
        gathered.setdefault(prompt, []).append(story)
        first.setdefault(prompt, number)
    for prompt, own in gathered.items():
        key = str(first[prompt])
        yield TextItem(key, key, (prompt,), tuple(own))


def _text(line: str) -> str:
    parts = line.strip().split(_NEWLINE)
    return "\n".join(part.strip() for part in parts)
