"""Ten more translations of 500 WMT'14 sentences (Ott et al. 2018, `wmt14-en-de.extra_refs`).

Each line is an identifier, a tab and a sentence: `S-123` is the English source of sentence 123,
`T-123` the original reference, `R1-123` to `R10-123` the additional ones, each by another
translator. The original reference is kept apart, as the paper keeps it. JSON lines are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import Gaps, checked, input_of, is_json_lines, read_json_lines
from aleatoric.errors import DataError, quoted
from aleatoric.types import MultiRef, TextItem

LICENCE = "CC BY-NC 4.0"
_LINE = re.compile(r"(S|T|R(?P<which>\d{1,4}))-(?P<number>\d{1,9})\t(?P<text>.*)", re.DOTALL)


@dataclass
class _Sentence:
    """A sentence whose lines are still being read."""

    place: Place
    source: str | None = None
    original: str | None = None
    references: dict[int, str] = field(default_factory=dict)


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read the publishers' file, plain or gzip, or JSON lines."""
    gaps = Gaps()
    read = read_json_lines if is_json_lines(source) else _read
    items = checked(lambda: read(source, encoding), gaps, source)
    language = "fr" if re.search(r"en[-_]fr", source.name) else "de"
    version, sha256 = f"en-{language}", files.sha256_of(source)
    return MultiRef("wmt14-10ref", version, sha256, LICENCE, items, gaps, language)


def _read(source: Path, encoding: str) -> Iterator[TextItem]:
    sentences: dict[str, _Sentence] = {}
    for place, line in files.read_lines(source, encoding):
        if line.strip():
            _add(sentences, place, line)
    for number, found in sentences.items():
        if found.source is None:
            problem = f"sentence {number} has no line S-{number}"
            raise DataError.at(*found.place, problem, "give its English source")
        references = tuple(found.references[which] for which in sorted(found.references))
        text = input_of(found.source, "the source", found.place)
        yield TextItem(number, number, text, references, found.original)


def _add(sentences: dict[str, _Sentence], place: Place, line: str) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        problem = f"{quoted(line.strip(), 40)} is no line of extra references"
        fix = "write S-1, T-1 or R1-1 to R10-1, a tab and the sentence"
        raise DataError.at(*place, problem, fix)
    sentence = sentences.setdefault(match["number"], _Sentence(place))
    text = files.text_of(match["text"].strip(), "the sentence", place)
    if not _kept(sentence, match, text):
        problem = f"{quoted(line.partition(chr(9))[0])} stands twice"
        raise DataError.at(*place, problem, "keep one of the two")


def _kept(sentence: _Sentence, match: re.Match[str], text: str) -> bool:
    """Note a line's text; False where the place is taken."""
    if match["which"] is not None:
        which = int(match["which"])
        taken = which in sentence.references
        sentence.references.setdefault(which, text)
        return not taken
    name = "source" if match[1] == "S" else "original"
    taken = getattr(sentence, name) is not None
    if not taken:
        setattr(sentence, name, text)
    return not taken
