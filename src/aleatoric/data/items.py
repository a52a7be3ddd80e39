"""Building blocks of the corpus readers: answers to one item, unique ids, lazily read items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from aleatoric.data import files
from aleatoric.data.columns import Names, renamed
from aleatoric.data.files import MAX_RESPONSES, Place, Rows
from aleatoric.errors import DataError, counted, quoted
from aleatoric.types import Item

AnyItem = TypeVar("AnyItem")


class AnswerList:
    """The answers to one context; blank and missing ones are dropped and counted in `notes`."""

    def __init__(self, place: Place, notes: ReadingNotes) -> None:
        self._place, self._notes = place, notes
        self._words: list[str] = []
        self._persons: list[str] = []
        self._lines: dict[str, int] = {}

    def add_of(self, person: str, word: str, place: Place) -> None:
        """Add the answer of a person, who may answer a context only once."""
        person = person.strip()
        if person in self._lines:
            first = self._lines[person]
            problem = f"person {quoted(person)} answers a context twice (line {first})"
            raise DataError.at(*place, problem, "keep one answer per person and context")
        self._lines[person] = place[1]
        if word.strip() and word.strip() not in self._notes.missing:
            self._persons.append(person)
        self.add(word, 1)

    def add(self, word: str, count: int) -> None:
        """Add `word` as the answer of `count` people."""
        if len(self._words) + count > MAX_RESPONSES:
            problem = f"the item has over {MAX_RESPONSES} answers"
            raise DataError.at(*self._place, problem, "split the item")
        if not word.strip():
            self._notes.blank += count
        elif word.strip() in self._notes.missing:
            self._notes.coded += count
            self._notes.codes.add(word.strip())
        else:
            self._words.extend([word.strip()] * count)

    def add_counts(self, value: Any, name: str) -> None:
        """Add a JSON object of words and counts."""
        for word, count in files.counts_of(value, name, self._place).items():
            self.add(word, count)

    def words(self, item_id: str | None = None) -> tuple[str, ...]:
        """All answers; an item needs at least one."""
        if not self._words:
            name = "" if item_id is None else f" {quoted(item_id)}"
            problem = f"the item{name} has no answer that is not blank or missing"
            raise DataError.at(*self._place, problem, "give its answers or leave the item out")
        return tuple(self._words)

    @property
    def persons(self) -> tuple[str, ...] | None:
        """Who gave each answer; `None` where the answers have no persons."""
        return tuple(self._persons) if self._lines else None


class ReadingNotes:
    """Notes of the last reading: its layout, dropped answers, and rows that were joined."""

    def __init__(self, missing: Iterable[str] = ()) -> None:
        self.layout: list[str] = []
        self.missing = frozenset(missing)
        self.reset()

    def reset(self) -> None:
        """Start to count again, before the file is read again."""
        self.layout.clear()
        self.blank = self.coded = self.joined = self._repeated = 0
        self.codes: set[str] = set()
        self._contexts: set[int] = set()

    def add_context(self, context: str) -> None:
        """Count the context of an item without an id if an earlier one is alike."""
        alike = hash(" ".join(context.split()).casefold())
        self._repeated += alike in self._contexts
        self._contexts.add(alike)

    def __iter__(self) -> Iterator[str]:
        yield from self.layout
        if self.blank:
            yield f"{counted(self.blank, 'blank answer', 'was', 'were')} dropped"
        if self.coded:
            verbs = (f"with a code of --missing {verb}" for verb in ("was", "were"))
            yield f"{counted(self.coded, 'answer', *verbs)} dropped"
        if unused := sorted(self.missing - self.codes):
            yield f"no answer is {' or '.join(map(quoted, unused))}, named in --missing"
        if self.joined:
            same = "it counts as an answer" if self.joined == 1 else "they count as answers"
            yield (
                f"{counted(self.joined, 'row', 'has', 'have')} no id, and a context that differs "
                f"from an earlier one only in the white space around it: {same} to that one"
            )
        if self._repeated:
            verbs = (f"without an id {verb}" for verb in ("repeats", "repeat"))
            yield (
                f"{counted(self._repeated, 'context', *verbs)} an earlier one, apart from case and "
                "white space: each is an item of its own"
            )


def grouped_items(rows: Rows, notes: ReadingNotes) -> Iterator[Item]:
    """Yield the items of rows with one answer each; rows of one id, or one context, are an item."""
    items: dict[str, tuple[Place, dict[str, str | None], AnswerList]] = {}
    for place, row in rows:
        key, name = (row["id"], "id") if row.get("id") else (row["context"].strip(), "context")
        if not key:
            raise DataError.at(*place, "the context is empty", "write it, or leave the row out")
        item_id = files.key_of(key, name, place)
        # All rows of an id must agree on these.
        facts = {"context": row["context"], "group": row.get("group") or None}
        facts["original"] = row.get("original") or None
        entry = (place, facts, AnswerList(place, notes))
        if item_id not in items and not row.get("id"):
            notes.add_context(row["context"])
        first, first_facts, answers = items.setdefault(item_id, entry)
        if not row.get("id") and facts["context"] != first_facts["context"]:
            notes.joined += 1
            facts["context"] = first_facts["context"]
        for fact in (fact for fact, value in facts.items() if value != first_facts[fact]):
            raise _differing(fact, f"{name} {quoted(item_id)}", place, first)
        _add_answer(answers, row, place)
    for item_id, (_, facts, answers) in items.items():
        words = answers.words(item_id)
        context, group = facts["context"] or "", facts["group"] or item_id
        yield Item(item_id, group, context, words, facts["original"], answers.persons)


def _differing(fact: str, whose: str, place: Place, first: Place) -> DataError:
    """Return the error for rows of one id or context that do not agree."""
    fix = "give every context its own id"
    if fact != "context":
        fix = f"write the same {fact} in all rows of a context"
    return DataError.at(*place, f"{whose} has another {fact} than in line {first[1]}", fix)


def _add_answer(answers: AnswerList, row: Mapping[str, str], place: Place) -> None:
    response = row["response"]
    count = parse_count(row["count"], "count", place) if "count" in row else 1
    if "person" not in row:
        answers.add(response, count)
    elif count == 1:
        answers.add_of(files.key_of(row["person"], "person", place), response, place)
    else:
        problem = f"one person has a count of {count}"
        raise DataError.at(*place, problem, "write one row per answer, without count")


def person_entries(
    value: list[Any], name: str, content: str, place: Place
) -> Iterator[tuple[str, str]]:
    """Yield who gave each answer of a JSON list of objects with `person` and `content`."""
    if len(value) > files.MAX_RESPONSES:
        problem = f"{name} has over {files.MAX_RESPONSES} entries"
        raise DataError.at(*place, problem, "split the item")
    for entry in value:
        if not isinstance(entry, dict) or entry.keys() != {"person", content}:
            problem = f"an entry of {name} is not an object with exactly person and {content}"
            fix = f'write every entry as {{"person": "p1", "{content}": "..."}}'
            raise DataError.at(*place, problem, fix)
        person = files.key_of(entry["person"], "person", place)
        yield person, files.text_of(entry[content], content, place)


def json_rows(source: Path, encoding: str, columns: str | None, keys: Names) -> Rows:
    """Yield the rows of JSON lines, with their keys renamed as `--columns` says."""
    rows = files.read_json_lines(source, encoding)
    return rows if columns is None else renamed(rows, columns, keys)


def new_id(lines: dict[str, int], item_id: Any, place: Place) -> str:
    """Return the id of an item and record its line; refuse an id that another line has."""
    item_id = files.key_of(item_id, "id", place)
    first = lines.setdefault(item_id, place[1])
    if first != place[1]:
        problem = f"id {quoted(item_id)} is already used in line {first}"
        raise DataError.at(*place, problem, "give every item its own id")
    return str(item_id)


def require_items(items: Iterable[AnyItem], source: Path) -> Iterator[AnyItem]:
    """Yield `items`, and refuse a source that has none."""
    count = 0
    for item in items:
        count += 1
        yield item
    if not count:
        raise DataError.at(source, None, "holds no item", "give at least one")


def optional_text(row: dict[str, Any], key: str, place: Place) -> str | None:
    """A text that may be absent or null."""
    value = row.get(key)
    return None if value is None else files.text_of(value, key, place)


def parse_count(text: str, column: str, place: Place) -> int:
    """A whole number written in a table."""
    value: str | float = text
    with suppress(ValueError):
        value = float(text)
    return files.count_of(value, column, place)
