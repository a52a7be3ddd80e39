"""What the corpora share: answers of one item, ids that are unique, items read lazily."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from aleatoric import files
from aleatoric.errors import DataError
from aleatoric.files import MAX_RESPONSES, Place
from aleatoric.showing import quoted

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
