"""Building blocks of the corpus readers: answers to one item, unique ids, lazily read items."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from aleatoric.data import files
from aleatoric.data.files import MAX_RESPONSES, Place
from aleatoric.errors import DataError, quoted
from aleatoric.types import MultiRef, TextItem

AnyItem = TypeVar("AnyItem")
MIN_REFERENCES = 2
"""Two texts make a pair; an input with fewer says nothing about variability."""


class AnswerList:
    """The answers to one context; blank ones are dropped and counted in `blank`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._words: list[str] = []
        self._persons: list[str] = []
        self._lines: dict[str, int] = {}
        self.blank = 0

    def add_of(self, person: str, word: str, place: Place) -> None:
        """Add the answer of a person, who may answer a context only once."""
        person = person.strip()
        if person in self._lines:
            first = self._lines[person]
            problem = f"person {quoted(person)} answers a context twice (line {first})"
            raise DataError.at(*place, problem, "keep one answer per person and context")
        self._lines[person] = place[1]
        if word.strip():
            self._persons.append(person)
        self.add(word, 1)

    def add(self, word: str, count: int) -> None:
        """Add `word` as the answer of `count` people."""
        if len(self._words) + count > MAX_RESPONSES:
            problem = f"the item has over {MAX_RESPONSES} answers"
            raise DataError.at(*self._place, problem, "split the item")
        if word.strip():
            self._words.extend([word.strip()] * count)
        else:
            self.blank += count

    def add_counts(self, value: Any, name: str) -> None:
        """Add a JSON object of words and counts."""
        for word, count in files.counts_of(value, name, self._place).items():
            self.add(word, count)

    def words(self) -> tuple[str, ...]:
        """All answers; an item needs at least one."""
        if not self._words:
            problem = "the item has no answer that is not blank"
            raise DataError.at(*self._place, problem, "give its answers or leave the item out")
        return tuple(self._words)

    @property
    def persons(self) -> tuple[str, ...] | None:
        """Who gave each answer; `None` where the answers have no persons."""
        return tuple(self._persons) if self._lines else None


class ReadingNotes:
    """Notes of the last reading: how many answers were blank, and how many rows were joined."""

    def __init__(self) -> None:
        self.blank = self.joined = 0

    def __iter__(self) -> Iterator[str]:
        if self.blank:
            yield f"{self.blank} blank answers were dropped"
        if self.joined:
            yield (
                f"{self.joined} rows have no id, and a context that differs from an earlier one "
                "only in the white space around it: they count as answers to that one"
            )


def add_id(lines: dict[str, int], item_id: str, place: Place) -> None:
    """Record the line of an id in `lines`; refuse an id that another line has."""
    first = lines.setdefault(item_id, place[1])
    if first != place[1]:
        problem = f"id {quoted(item_id)} is already used in line {first}"
        raise DataError.at(*place, problem, "give every item its own id")


class LazyItems(Collection[AnyItem], Generic[AnyItem]):
    """Items that are read from their source at every iteration and never held in memory."""

    def __init__(self, read: Callable[[], Iterator[AnyItem]], source: Path) -> None:
        self._read = read
        self._source = source
        self._length: int | None = None

    def __iter__(self) -> Iterator[AnyItem]:
        count = 0
        for item in self._read():
            count += 1
            yield item
        if not count:
            require_items((), self._source)
        self._length = count

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def __contains__(self, item: object) -> bool:
        return any(item == other for other in self)


def require_items(items: tuple[AnyItem, ...], source: Path) -> tuple[AnyItem, ...]:
    """Return `items`, or refuse a source that has none."""
    if not items:
        raise DataError.at(source, None, "holds no item", "give at least one")
    return items


def optional_text(row: dict[str, Any], key: str, place: Place) -> str | None:
    """A text that may be absent or null."""
    value = row.get(key)
    return None if value is None else files.text_of(value, key, place)


def parse_count(text: str, column: str, place: Place) -> int:
    """A whole number written in a table."""
    try:
        value = float(text)
    except ValueError:
        fix = "use a whole number from 1 up"
        raise DataError.at(*place, f"{column} {quoted(text, 40)} is not a number", fix) from None
    return files.count_of(value, column, place)


class ReferenceNotes:
    """Notes of the last reading: inputs with too few references, and empty references."""

    def __init__(self) -> None:
        self.inputs = self.few = self.empty = 0

    def counted(self, items: Iterator[TextItem], source: Path) -> Iterator[TextItem]:
        """The same items, counted; at least one of them must have two references."""
        self.inputs = self.few = self.empty = 0
        for item in items:
            self.inputs += 1
            self.few += len(item.references) < MIN_REFERENCES
            self.empty += sum(not text.strip() for text in item.references)
            yield item
        if self.inputs and self.few == self.inputs:
            problem = f"no input has {MIN_REFERENCES} references, and one text alone does not vary"
            raise DataError.at(source, None, problem, "give several people's texts per input")

    def __iter__(self) -> Iterator[str]:
        if self.few:
            verb, whose = ("has", "its") if self.few == 1 else ("have", "their")
            yield (
                f"{self.few} of {self.inputs} inputs {verb} fewer than {MIN_REFERENCES} "
                f"references: {whose} variability is undefined"
            )
        if self.empty:
            yield f"{self.empty} references are empty: a pair of two empty texts is undefined"


def multi_reference(
    read: Callable[[], Iterator[TextItem]],
    sources: list[Path],
    name: str,
    version: str,
    licence: str,
    language: str = "en",
) -> MultiRef:
    """A corpus of inputs and references, which `read` reads from `sources` at every iteration."""
    notes = ReferenceNotes()
    items = LazyItems(lambda: notes.counted(read(), sources[0]), sources[0])
    sha256 = files.sha256_of_all(sources)
    return MultiRef(name, version, sha256, licence, items, notes, language)


def read_references(
    source: Path,
    encoding: str,
    language: str | None = None,
    input_name: str = "input",
    references_name: str = "references",
) -> Iterator[TextItem]:
    """JSON rows of an input, references and perhaps `id`, `group`, `original[_reference]`.

    If `language` is given, rows that state another one are refused.
    """
    lines: dict[str, int] = {}
    for place, row in files.read_json_lines(source, encoding):
        if language is not None and language_of(row, place) != language:
            stated, first = quoted(row.get("language", "en")), quoted(language)
            problem = f"language {stated} where the first row has {first}"
            raise DataError.at(*place, problem, "put each language into its own file")
        item_id = files.key_of(row.get("id", place[1]), "id", place)
        add_id(lines, item_id, place)
        original = "original" if row.get("original") is not None else "original_reference"
        references = files.required(row, references_name, place)
        yield TextItem(
            item_id,
            # Without a group every input is a group of its own.
            files.key_of(row.get("group", item_id), "group", place),
            input_of(files.required(row, input_name, place), input_name, place),
            tuple(files.texts_of(references, references_name, place)),
            optional_text(row, original, place),
        )


def language_of(row: dict[str, Any], place: Place) -> str:
    """The language that a row states, in lower case; English if it states none."""
    value = row.get("language", "en")
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z]{2,3}", value):
        problem = f"language {quoted(value, 40)} is not a language code"
        raise DataError.at(*place, problem, "write it as de or en")
    return value.lower()


def input_of(value: Any, name: str, place: Place) -> tuple[str, ...]:
    """An input: a text, or the turns of a dialogue."""
    turns = files.texts_of(value, name, place) if isinstance(value, list) else [value]
    texts = tuple(files.text_of(turn, name, place) for turn in turns)
    if not any(text.strip() for text in texts):
        fix = f"give what people wrote their texts to in {name!r}, or leave the row out"
        raise DataError.at(*place, f"{name} is empty", fix)
    return texts
