"""Ten more translations of 500 WMT'14 sentences (Ott et al. 2018, `wmt14-en-de.extra_refs`).

Each line is an identifier, a tab and a sentence: `S-123` is the English source of sentence 123,
`T-123` the original reference, `R1-123` to `R10-123` the additional ones, each by another
translator. The original reference is kept apart, as the paper keeps it. JSON lines are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import input_of, multi_reference, read_references
from aleatoric.errors import DataError, quoted
from aleatoric.types import MultiRef, TextItem

_LINE = re.compile(r"(?P<kind>[ST]|R\d{1,4})-(?P<number>\d{1,9})\t(?P<text>.*)", re.DOTALL)


def load(source: Path, encoding: str = "utf-8") -> MultiRef:
    """Read the publishers' file, plain or gzip, or JSON lines."""
    read = partial(read_references if files.is_json_lines(source) else _read, source, encoding)
    language = "fr" if re.search(r"en[-_]fr", source.name) else "de"
    name, version = "wmt14-10ref", f"en-{language}"
    return multi_reference(read, [source], name, version, "CC BY-NC 4.0", language)


def _read(source: Path, encoding: str) -> Iterator[TextItem]:
    sentences: dict[str, dict[str, tuple[Place, str]]] = {}
    for place, line in files.read_lines(source, encoding):
        if line.strip():
            _add(sentences, place, line)
    for number, lines in sentences.items():
        if "S" not in lines:
            place, _ = next(iter(lines.values()))
            problem = f"sentence {number} has no line S-{number}"
            raise DataError.at(*place, problem, "give its English source")
        place, text = lines["S"]
        translators = sorted((kind for kind in lines if kind[0] == "R"), key=lambda r: int(r[1:]))
        references = tuple(lines[kind][1] for kind in translators)
        original = lines["T"][1] if "T" in lines else None
        yield TextItem(number, number, input_of(text, "the source", place), references, original)


def _add(sentences: dict[str, dict[str, tuple[Place, str]]], place: Place, line: str) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        problem = f"{quoted(line.strip(), 40)} is no line of extra references"
        fix = "write S-1, T-1 or R1-1 to R10-1, a tab and the sentence"
        raise DataError.at(*place, problem, fix)
    lines = sentences.setdefault(match["number"], {})
    kind = match["kind"] if match["kind"] in "ST" else f"R{int(match['kind'][1:])}"
    text = files.text_of(match["text"].strip(), "the sentence", place)
    if kind in lines:
        problem = f"{quoted(line.partition(chr(9))[0])} occurs twice"
        raise DataError.at(*place, problem, "keep one of the two")
    lines[kind] = place, text
