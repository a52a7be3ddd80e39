"""Anybody's own next-word answers: JSON lines or a table.

A row is `context` and `responses` (a list, or an object of counts), and may have `id`, `group` and
`original`. In a table, one row is one answer: columns `context`, `response`, and optionally
`count`, `id`, `group` and `original`; rows of one context belong together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric import files
from aleatoric.corpora.items import Answers, LazyItems, UniqueIds, require_items
from aleatoric.errors import DataError
from aleatoric.files import Place
from aleatoric.types import Corpus, Item


def load(source: Path, encoding: str = "utf-8") -> Corpus:
    """Read a cloze corpus; JSON lines are streamed, a table is held in memory."""
    if files.is_table(source):
        items = tuple(_read_table(source, encoding))
        return _corpus(source, require_items(items, source))
    return _corpus(source, LazyItems(lambda: _read_json_lines(source, encoding), source))


def _corpus(source: Path, items: Any) -> Corpus:
    name = source.name.partition(".")[0]
    return Corpus(name, "own", files.sha256_of(source), "as its owner states", items)


def _read_json_lines(source: Path, encoding: str) -> Iterator[Item]:
    ids = UniqueIds()
    for place, row in files.read_json_lines(source, encoding):
        context = files.text_of(files.required(row, "context", place), "context", place)
        responses = _responses(files.required(row, "responses", place), place)
        item_id = files.key_of(row.get("id", place[1]), "id", place)
        ids.add(item_id, place)
        # Without a group every context stands alone.
        group = files.key_of(row.get("group", item_id), "group", place)
        yield Item(item_id, group, context, responses, optional_text(row, "original", place))


def optional_text(row: dict[str, Any], key: str, place: Place) -> str | None:
    """A text that may be absent or null."""
    value = row.get(key)
    return None if value is None else files.text_of(value, key, place)


def _responses(value: Any, place: Place) -> tuple[str, ...]:
    answers = Answers(place)
    if isinstance(value, dict):
        for word, count in files.counts_of(value, "responses", place).items():
            answers.add(word, count)
    else:
        for word in files.texts_of(value, "responses", place):
            answers.add(word, 1)
    return answers.closed()


@dataclass
class _Open:
    """A context of a table whose answers are still being read."""

    place: Place
    item_id: str
    group: str
    context: str
    original: str | None
    answers: Answers


def _read_table(source: Path, encoding: str) -> Iterator[Item]:
    found: dict[str, _Open] = {}
    for place, row in files.read_table(source, encoding):
        context = files.required(row, "context", place)
        item_id = row.get("id") or context
        entry = found.get(item_id)
        if entry is None:
            group = row.get("group") or item_id
            original = row.get("original") or None
            entry = _Open(place, item_id, group, context, original, Answers(place))
            found[item_id] = entry
        elif entry.context != context:
            problem = f"id {item_id!a} has another context than in line {entry.place[1]}"
            raise DataError.at(*place, problem, "give every context its own id")
        response = files.required(row, "response", place)
        entry.answers.add(response, _table_count(row, "count", place))
    for entry in found.values():
        words = entry.answers.closed()
        yield Item(entry.item_id, entry.group, entry.context, words, entry.original)


def _table_count(row: dict[str, str], column: str, place: Place) -> int:
    return parse_count(row[column], column, place) if column in row else 1


def parse_count(text: str, column: str, place: Place) -> int:
    """A whole number written in a table."""
    try:
        value = float(text)
    except ValueError:
        fix = "use a whole number from 1 up"
        raise DataError.at(*place, f"{column} {text!a:.40} is no number", fix) from None
    return files.count_of(value, column, place)
