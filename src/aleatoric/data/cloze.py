"""Users' own next-word answers: JSON lines or a table.

In JSON lines, a row is `context` and `responses` (a list of words, a list of objects with `person`
and `answer`, or an object of counts), and may have `id`, `group` and `original`. In a table, one
row is one answer: columns `context`, `response`, and optionally `count` or `person`, `id`, `group`
and `original`; rows of one context belong together. `aleatoric.data.columns` has other layouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from aleatoric.data import files, items
from aleatoric.data.columns import answer_rows
from aleatoric.data.files import Place
from aleatoric.data.items import AnswerList, ReadingNotes, require_items
from aleatoric.data.selection import DEFAULT_OPTIONS, TableOptions
from aleatoric.errors import DataError
from aleatoric.types import Corpus, Item, LazyItems

WORD_NAMES = {n: n for n in ("context", "response", "count", "person", "id", "group", "original")}
WORD_NAMES |= {"responsecount": "count"}
"""Names that `--columns` and a header may use -> what the column holds."""
WORD_KEYS = {name: name for name in ("context", "responses", "id", "group", "original")}
WORD_KEYS |= {"response": "responses"}
"""Names that `--columns` may use for JSON lines -> our keys."""


def load(source: Path, encoding: str = "utf-8", options: TableOptions = DEFAULT_OPTIONS) -> Corpus:
    """Read a cloze corpus; JSON lines are streamed, a table is held in memory."""
    notes = ReadingNotes(options.missing_codes)
    contexts: Collection[Item] = LazyItems(
        lambda: require_items(_read_json_lines(source, encoding, options, notes), source)
    )
    if files.is_table(source):
        rows = answer_rows(source, encoding, options.columns, WORD_NAMES, notes.layout)
        grouped = items.grouped_items(rows, notes)
        contexts = tuple(require_items(grouped, source))
    name, sha256 = source.name.partition(".")[0], files.sha256_of(source)
    return Corpus(name, "own", sha256, "as its owner states", contexts, notes)


def _read_json_lines(
    source: Path, encoding: str, options: TableOptions, notes: ReadingNotes
) -> Iterator[Item]:
    lines: dict[str, int] = {}
    first: tuple[int, bool] | None = None
    notes.reset()
    for place, row in items.json_rows(source, encoding, options.columns, WORD_KEYS):
        context = files.text_of(files.required(row, "context", place), "context", place)
        answers = AnswerList(place, notes)
        _add_answers(answers, files.required(row, "responses", place), place)
        has_persons = answers.persons is not None
        first = first or (place[1], has_persons)
        if has_persons != first[1]:
            here, there = ("persons", "none") if has_persons else ("no persons", "some")
            problem = f"answers have {here}, but those of line {first[0]} have {there}"
            raise DataError.at(*place, problem, "give every answer its person, or none")
        if "id" not in row:
            notes.add_context(context)
        item_id = items.new_id(lines, row.get("id", place[1]), place)
        # Without a group every context is a group of its own.
        group = files.key_of(row.get("group", item_id), "group", place)
        original = items.optional_text(row, "original", place)
        yield Item(item_id, group, context, answers.words(), original, answers.persons)


def _add_answers(answers: AnswerList, value: Any, place: Place) -> None:
    if isinstance(value, dict):
        answers.add_counts(value, "responses")
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for person, word in items.person_entries(value, "responses", "answer", place):
            answers.add_of(person, word, place)
    else:
        for word in files.texts_of(value, "responses", place):
            answers.add(word, 1)
