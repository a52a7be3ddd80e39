"""Parallel text: two files, plain or gzip, one sentence a line; line N translates line N."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import LazyItems
from aleatoric.errors import DataError
from aleatoric.types import ParallelText, SentencePair

Line = tuple[Place, str]


def load(source: Path, target: Path, encoding: str = "utf-8") -> ParallelText:
    """Sentences of `source` with their translations in `target`, read at every walk.

    A sentence's id is the number of its line.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     source, target = Path(folder, "mine.de"), Path(folder, "mine.en")
    ...     _ = source.write_text("Ein Hund.\\n"), target.write_text("A dog.\\n")
    ...     list(load(source, target).items)
    [SentencePair(id='1', source='Ein Hund.', target='A dog.')]
    """
    items = LazyItems(lambda: _read(source, target, encoding), source)
    digests = files.sha256_of(source) + files.sha256_of(target)
    sha256 = hashlib.sha256(digests.encode()).hexdigest()
    name = source.name.partition(".")[0]
    return ParallelText(name, "own", sha256, "as its owner states", items)


def _read(source: Path, target: Path, encoding: str) -> Iterator[SentencePair]:
    lines = zip_longest(files.read_lines(source, encoding), files.read_lines(target, encoding))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            raise _unequal(source, target, number, short=source if left is None else target)
        yield SentencePair(str(number), _sentence(left), _sentence(right))


def _sentence(line: Line) -> str:
    place, text = line
    sentence = files.text_of(text.strip(), "the sentence", place)
    if not sentence:
        fix = "give its sentence, or take the line out of both files"
        raise DataError.at(*place, "the line is empty", fix)
    return sentence


def _unequal(source: Path, target: Path, number: int, short: Path) -> DataError:
    longer = target if short == source else source
    problem = f"the file has no such line, but {longer.name} has"
    return DataError.at(short, number, problem, "give both files the same number of lines")
