"""What the corpora share: answers of one item, ids that are unique, items read lazily."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from aleatoric.data import files
from aleatoric.data.files import MAX_RESPONSES, Place
from aleatoric.errors import DataError, quoted
from aleatoric.types import TextItem

AnyItem = TypeVar("AnyItem")


class Answers:
    """The answers to one context; blank ones are dropped, and counted."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._words: list[str] = []
        self._persons: list[str] = []
        self._lines: dict[str, int] = {}
        self.blank = 0

    def add_of(self, person: str, word: str, place: Place) -> None:
        """Add the answer of a person, who answers a context only once."""
        person = person.strip()
        if person in self._lines:
            problem = (
                f"person {quoted(person)} answers a context twice (line {self._lines[person]})"
            )
            raise DataError.at(*place, problem, "keep one answer per person and context")
        self._lines[person] = place[1]
        if word.strip():
            self._persons.append(person)
        self.add(word, 1)

    def add(self, word: str, count: int) -> None:
        """`count` people gave `word`."""
        if len(self._words) + count > MAX_RESPONSES:
            problem = f"the item has over {MAX_RESPONSES} answers"
            raise DataError.at(*self._place, problem, "split the item")
        if word.strip():
            self._words.extend([word.strip()] * count)
        else:
            self.blank += count

    def closed(self) -> tuple[str, ...]:
        """All answers; an item needs at least one."""
        if not self._words:
            problem = "the item has no answer that is not blank"
            raise DataError.at(*self._place, problem, "give its answers or leave the item out")
        return tuple(self._words)

    @property
    def persons(self) -> tuple[str, ...] | None:
        """Who gave each answer; `None` where the answers have no persons."""
        return tuple(self._persons) if self._lines else None


class Blanks:
    """How many blank answers a walk over a corpus has dropped, and how many rows it has joined.

    >>> blanks = Blanks()
    >>> blanks.count += 2
    >>> list(blanks)
    ['2 blank answers were dropped']
    """

    def __init__(self) -> None:
        self.count = self.joined = 0

    def __iter__(self) -> Iterator[str]:
        if self.count:
            yield f"{self.count} blank answers were dropped"
        if self.joined:
            yield (
                f"{self.joined} rows have no id, and a context that differs from an earlier one "
                "only in the white space around it: they count as answers to that one"
            )


class UniqueIds:
    """Remembers ids and where they stood, to refuse a second item of the same id."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def add(self, item_id: str, place: Place) -> None:
        """Note an id, or refuse it."""
        first = self._lines.setdefault(item_id, place[1])
        if first != place[1]:
            problem = f"id {quoted(item_id)} stands in line {first} already"
            raise DataError.at(*place, problem, "give every item its own id")


class PersonsThroughout:
    """Refuses a file in which some answers have a person and others have none."""

    def __init__(self) -> None:
        self._first: tuple[int, bool] | None = None

    def check(self, has_person: bool, place: Place) -> None:
        """Compare answers with the first ones of the file."""
        if self._first is None:
            self._first = place[1], has_person
        line, expected = self._first
        if has_person != expected:
            here, there = ("persons", "none") if has_person else ("no persons", "some")
            problem = f"answers have {here}, but those of line {line} have {there}"
            raise DataError.at(*place, problem, "give every answer its person, or none")


class LazyItems(Collection[AnyItem], Generic[AnyItem]):
    """Items read from their source at every walk, so that they need no memory."""

    def __init__(self, walk: Callable[[], Iterator[AnyItem]], source: Path) -> None:
        self._walk = walk
        self._source = source
        self._length: int | None = None

    def __iter__(self) -> Iterator[AnyItem]:
        count = 0
        for item in self._walk():
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
        return any(item == own for own in self)


def require_items(items: tuple[AnyItem, ...], source: Path) -> tuple[AnyItem, ...]:
    """`items`, unless there is none."""
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
        raise DataError.at(*place, f"{column} {quoted(text, 40)} is no number", fix) from None
    return files.count_of(value, column, place)


LEAST = 2
"""Two texts make a pair; an input with fewer says nothing about variability."""


class Gaps:
    """How many inputs and texts of a walk say nothing about variability, as notes.

    >>> gaps = Gaps()
    >>> gaps.see(TextItem("1", "1", ("a",), ("b",)))
    >>> list(gaps)
    ['1 of 1 inputs has fewer than 2 references: its variability is undefined']
    """

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Forget what an earlier walk saw."""
        self.inputs = self.few = self.empty = 0

    def see(self, item: TextItem) -> None:
        """Count one input."""
        self.inputs += 1
        self.few += len(item.references) < LEAST
        self.empty += sum(not text.strip() for text in item.references)

    def __iter__(self) -> Iterator[str]:
        if self.few:
            verb, whose = ("has", "its") if self.few == 1 else ("have", "their")
            yield (
                f"{self.few} of {self.inputs} inputs {verb} fewer than {LEAST} references: "
                f"{whose} variability is undefined"
            )
        if self.empty:
            yield f"{self.empty} references are empty: a pair of two empty texts is undefined"


def checked(
    walk: Callable[[], Iterator[TextItem]], gaps: Gaps, source: Path
) -> LazyItems[TextItem]:
    """Inputs read at every walk; one of them at least must have two references."""

    def watched() -> Iterator[TextItem]:
        gaps.start()
        for item in walk():
            gaps.see(item)
            yield item
        if gaps.inputs and gaps.few == gaps.inputs:
            problem = f"no input has {LEAST} references, and one text alone does not vary"
            raise DataError.at(source, None, problem, "give several people's texts an input")

    return LazyItems(watched, source)


@dataclass(frozen=True)
class Names:
    """The names that a row gives its input and its references."""

    input: str = "input"
    references: str = "references"


def read_json_lines(
    source: Path, encoding: str, names: Names | None = None, language: str | None = None
) -> Iterator[TextItem]:
    """Rows of an input, references and perhaps `id`, `group`, `original` or `original_reference`.

    Where a row states a language, it must be `language`, unless that is None.
    """
    ids, named = UniqueIds(), names or Names()
    turns, texts = named.input, named.references
    for place, row in files.read_json_lines(source, encoding):
        if language is not None and language_of(row, place) != language:
            here, first = quoted(row.get("language", "en")), quoted(language)
            problem = f"language {here} where the first row has {first}"
            raise DataError.at(*place, problem, "put each language into its own file")
        item_id = files.key_of(row.get("id", place[1]), "id", place)
        ids.add(item_id, place)
        yield TextItem(
            item_id,
            # Without a group every input stands alone.
            files.key_of(row.get("group", item_id), "group", place),
            input_of(files.required(row, turns, place), turns, place),
            tuple(files.texts_of(files.required(row, texts, place), texts, place)),
            _original(row, place),
        )


def language_of(row: dict[str, Any], place: Place) -> str:
    """The language that a row states; English where it states none.

    >>> language_of({"language": "DE"}, (Path("mine.jsonl"), 1))
    'de'
    """
    value = row.get("language", "en")
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z]{2,3}", value):
        problem = f"language {quoted(value, 40)} is no code of a language"
        raise DataError.at(*place, problem, "write it as de or en")
    return value.lower()


def is_json_lines(source: Path) -> bool:
    """Whether a file's name says JSON lines, gzip or not.

    >>> is_json_lines(Path("asset_valid.jsonl.gz")), is_json_lines(Path("asset.valid.orig"))
    (True, False)
    """
    return source.name.lower().removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson"))


def input_of(value: Any, name: str, place: Place) -> tuple[str, ...]:
    """An input: a text, or the turns of a dialogue."""
    turns = files.texts_of(value, name, place) if isinstance(value, list) else [value]
    texts = tuple(files.text_of(turn, name, place) for turn in turns)
    if not any(text.strip() for text in texts):
        fix = f"give what people wrote their texts to in {name!r}, or leave the row out"
        raise DataError.at(*place, f"{name} is empty", fix)
    return texts


def _original(row: dict[str, Any], place: Place) -> str | None:
    key = "original" if row.get("original") is not None else "original_reference"
    return optional_text(row, key, place)
