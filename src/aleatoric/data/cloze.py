"""Users' own next-word answers: JSON lines or a table.

A row is `context` and `responses` (a list of words, a list of objects with `person` and `answer`,
or an object of counts), and may have `id`, `group` and `original`. In a table, one row is one
answer: columns `context`, `response`, and optionally `count` or `person`, `id`, `group` and
`original`; rows of one context belong together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import (
    AnswerList,
    LazyItems,
    ReadingNotes,
    add_id,
    optional_text,
    parse_count,
    require_items,
)
from aleatoric.errors import DataError, quoted
from aleatoric.types import Corpus, Item


def load(source: Path, encoding: str = "utf-8") -> Corpus:
    """Read a cloze corpus; JSON lines are streamed, a table is held in memory."""
    notes = ReadingNotes()
    items: Collection[Item]
    if files.is_table(source):
        items = require_items(tuple(_read_table(source, encoding, notes)), source)
    else:
        items = LazyItems(lambda: _read_json_lines(source, encoding, notes), source)
    name, sha256 = source.name.partition(".")[0], files.sha256_of(source)
    return Corpus(name, "own", sha256, "as its owner states", items, notes)


def _read_json_lines(source: Path, encoding: str, notes: ReadingNotes) -> Iterator[Item]:
    lines: dict[str, int] = {}
    first: tuple[int, bool] | None = None
    notes.blank = 0
    for place, row in files.read_json_lines(source, encoding):
        context = files.text_of(files.required(row, "context", place), "context", place)
        answers = _answers(files.required(row, "responses", place), place)
        has_persons = answers.persons is not None
        first = first or (place[1], has_persons)
        if has_persons != first[1]:
            here, there = ("persons", "none") if has_persons else ("no persons", "some")
            problem = f"answers have {here}, but those of line {first[0]} have {there}"
            raise DataError.at(*place, problem, "give every answer its person, or none")
        notes.blank += answers.blank
        item_id = files.key_of(row.get("id", place[1]), "id", place)
        add_id(lines, item_id, place)
        # Without a group every context is a group of its own.
        group = files.key_of(row.get("group", item_id), "group", place)
        original = optional_text(row, "original", place)
        yield Item(item_id, group, context, answers.words(), original, answers.persons)


def _answers(value: Any, place: Place) -> AnswerList:
    answers = AnswerList(place)
    if isinstance(value, dict):
        answers.add_counts(value, "responses")
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for person, word in _persons_answers(value, place):
            answers.add_of(person, word, place)
    else:
        for word in files.texts_of(value, "responses", place):
            answers.add(word, 1)
    return answers


def _persons_answers(value: list[Any], place: Place) -> Iterator[tuple[str, str]]:
    if len(value) > files.MAX_RESPONSES:
        problem = f"responses has over {files.MAX_RESPONSES} entries"
        raise DataError.at(*place, problem, "split the item")
    for entry in value:
        if not isinstance(entry, dict) or entry.keys() != {"person", "answer"}:
            problem = "an entry of responses is not an object with exactly person and answer"
            fix = 'write every entry as {"person": "p1", "answer": "word"}'
            raise DataError.at(*place, problem, fix)
        person = files.key_of(entry["person"], "person", place)
        yield person, files.text_of(entry["answer"], "answer", place)


def _read_table(source: Path, encoding: str, notes: ReadingNotes) -> Iterator[Item]:
    items: dict[str, tuple[Place, dict[str, str | None], AnswerList]] = {}
    for place, row in files.read_table(source, encoding):
        context = files.required(row, "context", place)
        key, name = row.get("id") or context.strip(), "id" if "id" in row else "context"
        item_id = files.key_of(key, name, place)
        # All rows of an id must agree on these.
        facts = {"context": context, "group": row.get("group") or None}
        facts["original"] = row.get("original") or None
        first, first_facts, answers = items.setdefault(item_id, (place, facts, AnswerList(place)))
        if not row.get("id") and facts["context"] != first_facts["context"]:
            notes.joined += 1
            facts["context"] = first_facts["context"]
        for name, value in facts.items():
            if value != first_facts[name]:
                problem = f"id {quoted(item_id)} has another {name} than in line {first[1]}"
                raise DataError.at(*place, problem, "give every context its own id")
        _add_answer(answers, row, place)
    for item_id, (_, facts, answers) in items.items():
        words = answers.words()
        notes.blank += answers.blank
        context, group = facts["context"] or "", facts["group"] or item_id
        yield Item(item_id, group, context, words, facts["original"], answers.persons)


def _add_answer(answers: AnswerList, row: dict[str, str], place: Place) -> None:
    response = files.required(row, "response", place)
    count = parse_count(row["count"], "count", place) if "count" in row else 1
    if "person" not in row:
        answers.add(response, count)
    elif count == 1:
        answers.add_of(files.key_of(row["person"], "person", place), response, place)
    else:
        problem = f"one person has a count of {count}"
        raise DataError.at(*place, problem, "write one row per answer, without count")
