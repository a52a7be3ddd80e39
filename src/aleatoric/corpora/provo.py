"""The Provo Corpus predictability norms (Luke & Christianson 2018).

Read in the published layout (a CSV or TSV file, one row a distinct response) or as JSON lines with
`passage, position, context, original, human`. Item ids are `passage:position`; the group is the
passage. Known flaw of the corpus: (18, 3) carries the answers of (55, 3) too, which is absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aleatoric import files
from aleatoric.corpora.cloze import optional_text, parse_count
from aleatoric.corpora.items import Answers, UniqueIds, require_items
from aleatoric.errors import DataError
from aleatoric.files import Place
from aleatoric.types import Corpus, Item

LICENCE = "CC BY 4.0"
VERSION = "predictability norms"
COLUMNS = ("Text_ID", "Text", "Word_Number", "Word", "Response", "Response_Count")
_MERGED = {"18:3": 82}


def load(source: Path, encoding: str = "utf-8") -> Corpus:
    """Read the norms from the published table or from JSON lines."""
    notes: list[str] = []
    read = _read_table if files.is_table(source) else _read_json_lines
    items = require_items(tuple(read(source, encoding, notes)), source)
    merged = [i.id for i in items if _MERGED.get(i.id) == len(i.responses)]
    if merged:
        notes.append("item 18:3 holds 82 answers, its own and those of 55:3, which is absent")
    sha256 = files.sha256_of(source)
    return Corpus("provo", VERSION, sha256, LICENCE, items, tuple(notes))


def _read_json_lines(source: Path, encoding: str, _: list[str]) -> Iterator[Item]:
    ids = UniqueIds()
    for place, row in files.read_json_lines(source, encoding):
        passage = files.key_of(files.required(row, "passage", place), "passage", place)
        position = files.key_of(files.required(row, "position", place), "position", place)
        context = files.text_of(files.required(row, "context", place), "context", place)
        answers = Answers(place)
        human = files.counts_of(files.required(row, "human", place), "human", place)
        for word, count in human.items():
            answers.add(word, count)
        item_id = f"{passage}:{position}"
        ids.add(item_id, place)
        original = optional_text(row, "original", place)
        yield Item(item_id, passage, context, answers.closed(), original)


@dataclass
class _Word:
    """One word of a passage, with the answers given in its place."""

    place: Place
    word: str
    answers: Answers


@dataclass
class _Passage:
    text: str
    words: dict[int, _Word] = field(default_factory=dict)
    other_texts: int = 0


def _read_table(source: Path, encoding: str, notes: list[str]) -> Iterator[Item]:
    passages: dict[str, _Passage] = {}
    for place, row in files.read_table(source, encoding):
        _add_row(passages, place, row)
    blank = 0
    for passage_id, passage in passages.items():
        tokens = passage.text.split()
        if passage.other_texts:
            notes.append(f"passage {passage_id}: {passage.other_texts} rows carry another Text")
        for number, entry in sorted(passage.words.items()):
            if number > len(tokens):
                problem = f"Word_Number {number} is past the {len(tokens)} words of Text"
                raise DataError.at(*entry.place, problem, "count words from 1")
            context = " ".join(tokens[: number - 1])
            words = entry.answers.closed()
            blank += entry.answers.blank
            yield Item(f"{passage_id}:{number}", passage_id, context, words, entry.word)
    if blank:
        notes.append(f"{blank} blank answers were dropped")


def _add_row(passages: dict[str, _Passage], place: Place, row: dict[str, str]) -> None:
    cells = {name: files.required(row, name, place) for name in COLUMNS}
    passage_id = files.key_of(cells["Text_ID"], "Text_ID", place)
    number = parse_count(cells["Word_Number"], "Word_Number", place)
    passage = passages.setdefault(passage_id, _Passage(cells["Text"]))
    passage.other_texts += passage.text != cells["Text"]
    entry = passage.words.get(number)
    if entry is None:
        entry = passage.words[number] = _Word(place, cells["Word"], Answers(place))
    count = parse_count(cells["Response_Count"], "Response_Count", place)
    entry.answers.add(_response(cells["Response"]), count)


def _response(text: str) -> str:
    """The published file writes a missing answer as NA."""
    return "" if text == "NA" else text.casefold()
