"""Anybody's own next-word answers: JSON lines or a table.

A row is `context` and `responses` (a list of words, a list of objects with `person` and `answer`,
or an object of counts), and may have `id`, `group` and `original`. In a table, one row is one
answer: columns `context`, `response`, and optionally `count` or `person`, `id`, `group` and
`original`; rows of one context belong together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.data.items import (
    Answers,
    Blanks,
    LazyItems,
    PersonsThroughout,
    UniqueIds,
    optional_text,
    parse_count,
    require_items,
)
from aleatoric.errors import DataError, quoted
from aleatoric.types import Corpus, Item


def load(source: Path, encoding: str = "utf-8") -> Corpus:
    """Read a cloze corpus; JSON lines are streamed, a table is held in memory."""
    blanks = Blanks()
    items: Collection[Item]
    if files.is_table(source):
        items = require_items(tuple(_read_table(source, encoding, blanks)), source)
    else:
        items = LazyItems(lambda: _read_json_lines(source, encoding, blanks), source)
    name = source.name.partition(".")[0]
    sha256 = files.sha256_of(source)
    return Corpus(name, "own", sha256, "as its owner states", items, blanks)


def _read_json_lines(source: Path, encoding: str, blanks: Blanks) -> Iterator[Item]:
    ids, throughout = UniqueIds(), PersonsThroughout()
    blanks.count = 0
    for place, row in files.read_json_lines(source, encoding):
        context = files.text_of(files.required(row, "context", place), "context", place)
        answers = _answers(files.required(row, "responses", place), place)
        throughout.check(answers.persons is not None, place)
        blanks.count += answers.blank
        item_id = files.key_of(row.get("id", place[1]), "id", place)
        ids.add(item_id, place)
        # Without a group every context stands alone.
        group = files.key_of(row.get("group", item_id), "group", place)
        original = optional_text(row, "original", place)
        yield Item(item_id, group, context, answers.closed(), original, answers.persons)


def _answers(value: Any, place: Place) -> Answers:
    answers = Answers(place)
    if isinstance(value, dict):
        for word, count in files.counts_of(value, "responses", place).items():
            answers.add(word, count)
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


@dataclass
class _Open:
    """A context of a table whose answers are still being read."""

    place: Place
    facts: dict[str, str | None]
    answers: Answers


def _read_table(source: Path, encoding: str, blanks: Blanks) -> Iterator[Item]:
    found: dict[str, _Open] = {}
    for place, row in files.read_table(source, encoding):
        item_id, facts = _table_facts(row, place)
        entry = found.setdefault(item_id, _Open(place, facts, Answers(place)))
        if not row.get("id") and facts["context"] != entry.facts["context"]:
            blanks.joined += 1
            facts["context"] = entry.facts["context"]
        _check_same(item_id, entry, facts, place)
        response = files.required(row, "response", place)
        count = _table_count(row, "count", place)
        if "person" not in row:
            entry.answers.add(response, count)
        elif count == 1:
            person = files.key_of(row["person"], "person", place)
            entry.answers.add_of(person, response, place)
        else:
            problem = f"one person has a count of {count}"
            raise DataError.at(*place, problem, "write one row per answer, without count")
    for item_id, entry in found.items():
        words = entry.answers.closed()
        blanks.count += entry.answers.blank
        context, group = entry.facts["context"] or "", entry.facts["group"] or item_id
        original, persons = entry.facts["original"], entry.answers.persons
        yield Item(item_id, group, context, words, original, persons)


def _table_facts(row: dict[str, str], place: Place) -> tuple[str, dict[str, str | None]]:
    """The id of a row's context, and what all rows of that id must agree on."""
    context = files.required(row, "context", place)
    key, name = row.get("id") or context.strip(), "id" if "id" in row else "context"
    item_id = files.key_of(key, name, place)
    facts = {"group": row.get("group") or None, "original": row.get("original") or None}
    return item_id, {"context": context, **facts}


def _check_same(item_id: str, entry: _Open, facts: dict[str, str | None], place: Place) -> None:
    for name, value in facts.items():
        if value != entry.facts[name]:
            problem = f"id {quoted(item_id)} has another {name} than in line {entry.place[1]}"
            raise DataError.at(*place, problem, "give every context its own id")


def _table_count(row: dict[str, str], column: str, place: Place) -> int:
    return parse_count(row[column], column, place) if column in row else 1
