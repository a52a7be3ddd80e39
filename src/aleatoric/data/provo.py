"""The Provo Corpus predictability norms (Luke & Christianson 2018).

Read in the published layout (a CSV or TSV file, one row a distinct response) or as JSON lines with
`passage, position, context, original, human`. Item ids are `passage:position`, where the position
counts the words of the passage from 1; the group is the passage.

Known flaws of the published file, which are corrected or noted, never passed over in silence:
- (18, 3) carries the answers of (55, 3) too, which is absent;
- in passages 3 and 13 `Word_Number` skips a number and is one too high from there on: the column
  `Word` tells, and the position is corrected;
- passage 36 has a dash that stands alone, which `Word_Number` does not count;
- rows of one passage write its `Text` with different apostrophes: the first one counts;
- it is encoded as on old Macs (`mac-roman`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import (
    Answers,
    Blanks,
    UniqueIds,
    optional_text,
    parse_count,
    require_items,
)
from aleatoric.errors import DataError
from aleatoric.types import Corpus, Item

LICENCE = "CC BY 4.0"
VERSION = "predictability norms"
COLUMNS = ("Text_ID", "Text", "Word_Number", "Word", "Response", "Response_Count")
_MERGED = {"18:3": 82}
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015"
_MISSING = ("", "NA")


def load(source: Path, encoding: str = "utf-8") -> Corpus:
    """Read the norms from the published table or from JSON lines."""
    notes: list[str] = []
    blanks = Blanks()
    if files.is_table(source):
        found = tuple(_read_table(source, encoding, blanks, notes))
    else:
        found = tuple(_read_json_lines(source, encoding, blanks))
    items = require_items(found, source)
    if any(_MERGED.get(item.id) == len(item.responses) for item in items):
        notes.append("item 18:3 holds 82 answers, its own and those of 55:3, which is absent")
    sha256 = files.sha256_of(source)
    return Corpus("provo", VERSION, sha256, LICENCE, items, (*notes, *blanks), "en")


def _read_json_lines(source: Path, encoding: str, blanks: Blanks) -> Iterator[Item]:
    ids = UniqueIds()
    for place, row in files.read_json_lines(source, encoding):
        passage = files.key_of(files.required(row, "passage", place), "passage", place)
        position = files.key_of(files.required(row, "position", place), "position", place)
        context = files.text_of(files.required(row, "context", place), "context", place)
        answers = Answers(place)
        human = files.counts_of(files.required(row, "human", place), "human", place)
        for word, count in human.items():
            answers.add(word, count)
        blanks.count += answers.blank
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


def _read_table(source: Path, encoding: str, blanks: Blanks, notes: list[str]) -> Iterator[Item]:
    passages: dict[str, _Passage] = {}
    for place, row in files.read_table(source, encoding):
        _add_row(passages, place, row)
    for passage_id, passage in passages.items():
        tokens = _tokens(passage, passage_id, notes)
        for position, entry in _positions(passage, passage_id, tokens, notes):
            context = " ".join(tokens[: position - 1])
            words = entry.answers.closed()
            blanks.count += entry.answers.blank
            item_id = f"{passage_id}:{position}"
            yield Item(item_id, passage_id, context, words, tokens[position - 1])


def _tokens(passage: _Passage, passage_id: str, notes: list[str]) -> list[str]:
    """The words of a passage as `Word_Number` counts them: a dash alone is no word."""
    tokens = passage.text.split()
    words = [token for token in tokens if token.strip(_DASHES)]
    if len(words) < len(tokens):
        left_out = len(tokens) - len(words)
        notes.append(f"passage {passage_id}: {left_out} dashes alone in Text are no words")
    if passage.other_texts:
        notes.append(f"passage {passage_id}: {passage.other_texts} rows carry another Text")
    return words


def _positions(
    passage: _Passage, passage_id: str, tokens: list[str], notes: list[str]
) -> Iterator[tuple[int, _Word]]:
    """Each word with its position in the text, also where `Word_Number` slipped at a gap."""
    slip, previous = 0, None
    for number, entry in sorted(passage.words.items()):
        gap = number - previous - 1 if previous is not None else 0
        further = _slip(tokens, number - slip, entry.word, gap)
        if further:
            notes.append(f"passage {passage_id}: Word_Number is {further} too high from {number}")
        slip, previous = slip + further, number
        if number - slip > len(tokens):
            problem = f"Word_Number {number} is past the {len(tokens)} words of Text"
            raise DataError.at(*entry.place, problem, "count words from 1")
        yield number - slip, entry


def _slip(tokens: list[str], position: int, word: str, gap: int) -> int:
    """How far a number after a gap is too high; 0 where the word stands at it, or nowhere near."""
    for further in range(gap + 1):
        if tokens[position - further - 1 : position - further] and (
            _letters(tokens[position - further - 1]) == _letters(word)
        ):
            return further
    return 0


def _letters(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()


def _add_row(passages: dict[str, _Passage], place: Place, row: dict[str, str]) -> None:
    cells = {name: files.required(row, name, place) for name in COLUMNS}
    passage_id = _passage_id(cells["Text_ID"], place)
    number = parse_count(cells["Word_Number"], "Word_Number", place)
    passage = passages.setdefault(passage_id, _Passage(cells["Text"]))
    passage.other_texts += passage.text != cells["Text"]
    entry = passage.words.get(number)
    if entry is None:
        entry = passage.words[number] = _Word(place, cells["Word"], Answers(place))
    response, count = _response(cells["Response"]), cells["Response_Count"]
    if response or count not in _MISSING:
        entry.answers.add(response, parse_count(count, "Response_Count", place))


def _passage_id(text: str, place: Place) -> str:
    """`1` also where a spreadsheet or a data frame wrote `1.0`."""
    text = files.key_of(text, "Text_ID", place).strip()
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text


def _response(text: str) -> str:
    """The published file writes a missing answer as NA."""
    return "" if text.strip() in _MISSING else text.casefold()
