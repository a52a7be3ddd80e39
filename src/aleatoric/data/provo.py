"""The Provo Corpus predictability norms (Luke & Christianson 2018).

Read in the published layout (a CSV or TSV file, one row per distinct response) or as JSON lines
with `passage, position, context, original, human`. Item ids are `passage:position`, where the
position counts the words of the passage from 1; the group is the passage.

Known flaws of the published file, each of which is corrected or noted:
- (18, 3) carries the answers of (55, 3) too, which is absent;
- in passages 3 and 13 `Word_Number` skips a number and is one too high from there on: the column
  `Word` shows it, and the position is corrected;
- passage 36 has a dash that is a word of its own, which `Word_Number` does not count;
- rows of one passage write its `Text` with different apostrophes: the first one counts;
- it is encoded as on old Macs (`mac-roman`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aleatoric.data import files, items
from aleatoric.data.columns import table_rows
from aleatoric.data.files import Place
from aleatoric.data.items import AnswerList, ReadingNotes, parse_count
from aleatoric.errors import DataError
from aleatoric.types import Corpus, Item

COLUMNS = ("Text_ID", "Text", "Word_Number", "Word", "Response", "Response_Count")
_MISSING = ("", "NA")


def load(source: Path, encoding: str = "utf-8") -> Corpus:
    """Read the norms from the published table or from JSON lines."""
    notes: list[str] = []
    counts = ReadingNotes()
    if files.is_table(source):
        read = _read_table(source, encoding, counts, notes)
    else:
        read = _read_json_lines(source, encoding, counts)
    words = tuple(items.require_items(read, source))
    if any(item.id == "18:3" and len(item.responses) == 82 for item in words):
        notes.append("item 18:3 holds 82 answers, its own and those of 55:3, which is absent")
    version, sha256 = "predictability norms", files.sha256_of(source)
    return Corpus("provo", version, sha256, "CC BY 4.0", words, (*notes, *counts), "en")


def _read_json_lines(source: Path, encoding: str, counts: ReadingNotes) -> Iterator[Item]:
    lines: dict[str, int] = {}
    for place, row in files.read_json_lines(source, encoding):
        passage = files.key_of(files.required(row, "passage", place), "passage", place)
        position = files.key_of(files.required(row, "position", place), "position", place)
        context = files.text_of(files.required(row, "context", place), "context", place)
        answers = AnswerList(place, counts)
        answers.add_counts(files.required(row, "human", place), "human")
        item_id = items.new_id(lines, f"{passage}:{position}", place)
        original = items.optional_text(row, "original", place)
        yield Item(item_id, passage, context, answers.words(), original)


@dataclass
class _Passage:
    """A text, and word number -> first row, word and the answers given in its place."""

    text: str
    words: dict[int, tuple[Place, str, AnswerList]] = field(default_factory=dict)
    other_texts: int = 0


def _read_table(
    source: Path, encoding: str, counts: ReadingNotes, notes: list[str]
) -> Iterator[Item]:
    passages: dict[str, _Passage] = {}
    for place, row in table_rows(source, encoding):
        _add_row(passages, place, row, counts)
    for passage_id, passage in passages.items():
        tokens = _tokens(passage, passage_id, notes)
        for position, answers in _positions(passage, passage_id, tokens, notes):
            context = " ".join(tokens[: position - 1])
            words, item_id = answers.words(), f"{passage_id}:{position}"
            yield Item(item_id, passage_id, context, words, tokens[position - 1])


def _tokens(passage: _Passage, passage_id: str, notes: list[str]) -> list[str]:
    """The words of a passage as `Word_Number` counts them: a single dash is not a word."""
    tokens = passage.text.split()
    words = [token for token in tokens if token.strip("-\u2010\u2011\u2012\u2013\u2014\u2015")]
    if len(words) < len(tokens):
        left_out = len(tokens) - len(words)
        notes.append(f"passage {passage_id}: {left_out} dashes alone in Text are no words")
    if passage.other_texts:
        notes.append(f"passage {passage_id}: {passage.other_texts} rows carry another Text")
    return words


def _positions(
    passage: _Passage, passage_id: str, tokens: list[str], notes: list[str]
) -> Iterator[tuple[int, AnswerList]]:
    """The answers per position in the text, also where `Word_Number` slipped at a gap."""
    slip, previous = 0, None
    for number in sorted(passage.words):
        place, word, answers = passage.words[number]
        gap = number - previous - 1 if previous is not None else 0
        further = _slip(tokens, number - slip, word, gap)
        if further:
            notes.append(f"passage {passage_id}: Word_Number is {further} too high from {number}")
        slip, previous = slip + further, number
        if number - slip > len(tokens):
            problem = f"Word_Number {number} is past the {len(tokens)} words of Text"
            raise DataError.at(*place, problem, "count words from 1")
        yield number - slip, answers


def _slip(tokens: list[str], position: int, word: str, gap: int) -> int:
    """How much a number after a gap is too high; 0 if the word is there, or not in the gap."""
    for further in range(gap + 1):
        candidate = tokens[position - further - 1 : position - further]
        if candidate and _letters(candidate[0]) == _letters(word):
            return further
    return 0


def _letters(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()


def _add_row(
    passages: dict[str, _Passage], place: Place, row: dict[str, str], counts: ReadingNotes
) -> None:
    cells = {name: files.required(row, name, place) for name in COLUMNS}
    passage_id = files.key_of(cells["Text_ID"], "Text_ID", place).strip()
    if passage_id.removesuffix(".0").isdecimal():  # a spreadsheet may write 1 as 1.0
        passage_id = passage_id.removesuffix(".0")
    number = parse_count(cells["Word_Number"], "Word_Number", place)
    passage = passages.setdefault(passage_id, _Passage(cells["Text"]))
    passage.other_texts += passage.text != cells["Text"]
    word = (place, cells["Word"], AnswerList(place, counts))
    _, _, answers = passage.words.setdefault(number, word)
    response, count = cells["Response"], cells["Response_Count"]
    if response.strip() in _MISSING:
        response = ""
    if response or count not in _MISSING:
        answers.add(response.casefold(), parse_count(count, "Response_Count", place))
