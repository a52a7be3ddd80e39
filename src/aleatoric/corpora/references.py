"""What the corpora of the text level share: inputs with several people's texts, and their notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric import files
from aleatoric.corpora.items import LazyItems, UniqueIds, optional_text
from aleatoric.errors import DataError
from aleatoric.files import Place
from aleatoric.showing import quoted
from aleatoric.types import TextItem

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
