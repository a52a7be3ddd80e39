"""Texts that were recorded before: JSON lines, one row an input.

A row names its input by `id` and holds `texts` (or `generations`), a list of texts; `null` stands
for a text that is not there. `system` may name who wrote them; of a file with several systems one
is chosen by `recorded:FILE?system=NAME`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aleatoric import files
from aleatoric.errors import DataError, UsageError
from aleatoric.files import Place
from aleatoric.models.base import LoadOptions, Writing
from aleatoric.showing import quoted
from aleatoric.types import TextItem, Texts

KINDS = ("texts", "generations")


@dataclass
class _Found:
    """What the rows were like."""

    sizes: Counter[int] = field(default_factory=Counter)
    null: int = 0
    absent: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class RecordedTexts:
    """The rows of one system in one file."""

    path: Path
    version: str
    system: str | None = None
    _found: _Found = field(default_factory=_Found, repr=False, compare=False)

    @property
    def label(self) -> str:
        """The system's name, or the file's without its endings."""
        return self.system or self.path.name.partition(".")[0]

    @property
    def conventions(self) -> Mapping[str, str]:
        """Texts are taken as they stand."""
        return {}

    def notes(self) -> Sequence[str]:
        """Unequal numbers, texts that are not there, rows and inputs that do not join."""
        found, sizes = self._found, sorted(size for size in self._found.sizes if size)
        said = []
        if len(sizes) > 1:
            said.append(f"inputs have unequal numbers of texts, {sizes[0]} to {sizes[-1]}")
        if found.null:
            said.append(f"{found.null} texts are null and left out")
        if found.sizes[0]:
            said.append(f"{found.sizes[0]} rows hold no text")
        if found.absent:
            said.append(f"{found.absent} inputs have no row")
        if found.unknown:
            said.append(f"{found.unknown} rows name no input of those asked for")
        return [f"{self.label}: {sentence}" for sentence in said]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """The texts of each input: its row, or none. All texts of a row count."""
        wanted = {item.id for item in items}
        missing = set(wanted)
        for item_id, texts in self._rows():
            if item_id not in wanted:
                self._found.unknown += 1
                continue
            missing.discard(item_id)
            self._found.sizes[len(texts)] += 1
            yield Texts(item_id, texts)
        if wanted and missing == wanted:
            problem = "no id of its rows is the id of an input"
            raise DataError.at(self.path, None, problem, "give rows the ids of the corpus")
        self._found.absent += len(missing)
        yield from (Texts(item_id, ()) for item_id in sorted(missing))

    def _rows(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        seen: dict[str, int] = {}
        for place, row in files.read_json_lines(self.path):
            if _system(row, place) != self.system:
                continue
            item_id = files.key_of(files.required(row, "id", place), "id", place)
            if item_id in seen:
                problem = f"id {quoted(item_id)} stands in line {seen[item_id]} already"
                raise DataError.at(*place, problem, "put all texts of an input into one row")
            seen[item_id] = place[1]
            yield item_id, self._texts(row, place)

    def _texts(self, row: dict[str, Any], place: Place) -> tuple[str, ...]:
        kinds = [kind for kind in KINDS if kind in row]
        if len(kinds) != 1:
            found = "both" if kinds else f"none (found {', '.join(sorted(map(ascii, row))[:12])})"
            problem = f"a row holds one of {' and '.join(KINDS)}, and this one {found}"
            raise DataError.at(*place, problem, "give texts as a list of strings")
        value = row[kinds[0]]
        if value is None:
            return ()
        is_list = isinstance(value, list)
        texts = [text for text in value if text is not None] if is_list else value
        self._found.null += len(value) - len(texts) if is_list else 0
        return tuple(files.texts_of(texts, kinds[0], place))


def _system(row: dict[str, Any], place: Place) -> str | None:
    value = row.get("system")
    return None if value is None else files.key_of(value, "system", place)


def load(argument: str, loading: LoadOptions | None = None) -> RecordedTexts:
    """`recorded:FILE` or `recorded:FILE?system=NAME`."""
    name, _, chosen = argument.partition("?system=")
    if not name:
        raise UsageError("recorded: needs a file; write recorded:FILE.jsonl.")
    path = Path(name)
    version = files.sha256_of(path)[:12]
    systems = {_system(row, place) for place, row in files.read_json_lines(path)}
    if not systems:
        raise DataError.at(path, None, "holds no row", "record at least one input")
    return RecordedTexts(path, version, _chosen(path, systems, chosen or None))


def _chosen(path: Path, systems: set[str | None], chosen: str | None) -> str | None:
    named = sorted(system for system in systems if system is not None)
    if chosen is not None and chosen not in named:
        problem = f"holds no system {quoted(chosen)}"
        known = ", ".join(f"{quoted(name)}" for name in named[:12]) or "none"
        raise DataError.at(path, None, problem, f"its systems are: {known}")
    if chosen is not None:
        return chosen
    if len(systems) > 1:
        known = ", ".join(f"{quoted(name)}" for name in named[:12])
        fix = f"name one, as in recorded:FILE?system=NAME ({known})"
        raise DataError.at(path, None, "holds texts of several systems", fix)
    return next(iter(systems))
