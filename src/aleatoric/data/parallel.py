"""Parallel text: two files, plain or gzip, one sentence per line; line N translates line N."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import LazyItems
from aleatoric.errors import DataError
from aleatoric.types import ParallelText, SentencePair


def load(source: Path, target: Path, encoding: str = "utf-8") -> ParallelText:
    """Sentences of `source` with their translations in `target`, read at every iteration.

    The id of a sentence is the number of its line.
    """
    items = LazyItems(lambda: _read([source, target], encoding), source)
    name, sha256 = source.name.partition(".")[0], files.sha256_of_all([source, target])
    return ParallelText(name, "own", sha256, "as its owner states", items)


def _read(paths: list[Path], encoding: str) -> Iterator[SentencePair]:
    fix = "give both files the same number of lines"
    for left, right in files.read_aligned(paths, encoding, fix):
        yield SentencePair(str(left[0][1]), _sentence(*left), _sentence(*right))


def _sentence(place: Place, line: str) -> str:
    sentence = files.text_of(line.strip(), "the sentence", place)
    if not sentence:
        fix = "give its sentence, or take the line out of both files"
        raise DataError.at(*place, "the line is empty", fix)
    return sentence
