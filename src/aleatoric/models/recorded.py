"""Recorded model output: JSON lines, one row per item.

A row names its item by `id`, or by `passage` and `position`, and contains one of
- `samples` or `counts`: an object of words and their counts,
- `texts` (or `samples` as a list): raw texts, cut later by the word rule,
- `logprobs`: an object of words and natural log-probabilities, for the biased estimator.
`failed` counts draws without a word. Several rows for one item are further samples of it, except
log-probabilities, which may appear only once per item.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aleatoric.data import files
from aleatoric.data.files import Place
from aleatoric.errors import DataError, UsageError, quoted
from aleatoric.models.base import Ask, LoadOptions, WithoutNotes, Writing
from aleatoric.types import Draws, Item, TextItem, Texts

_ROUNDING = 1e-6
KINDS = ("samples", "counts", "texts", "logprobs")
PLACEHOLDER = -9999.0
"""What servers write for a log-probability that they do not return; lower ones are no better."""


@dataclass(frozen=True)
class RecordedModel(WithoutNotes):
    """The rows of one file as a source of next words."""

    path: Path
    version: str
    estimator: str = "recorded"

    @property
    def label(self) -> str:
        """The file's name without its endings."""
        return files.stem(self.path)

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield every row of the file in order; the run joins them to items."""
        rows_seen: Counter[str] = Counter()
        exact: set[str] = set()
        for place, row in files.read_json_lines(self.path):
            item_id = _item_id(row, place)
            if item_id in exact or ("logprobs" in row and rows_seen[item_id]):
                problem = f"item {quoted(item_id)} has logprobs and another row"
                raise DataError.at(*place, problem, "give log-probabilities once, and alone")
            yield _draws(item_id, rows_seen[item_id], row, place)
            rows_seen[item_id] += 1
            if "logprobs" in row:
                exact.add(item_id)
        if not rows_seen:
            raise DataError.at(self.path, None, "holds no row", "record at least one item")


def load(argument: str) -> RecordedModel:
    """Return the word model of `recorded:FILE`."""
    if not argument:
        raise UsageError("recorded: needs a file; write recorded:FILE.jsonl.")
    path = Path(argument)
    return RecordedModel(path, files.sha256_of(path)[:12])


def _item_id(row: dict[str, Any], place: Place) -> str:
    if "id" in row:
        return files.key_of(row["id"], "id", place)
    if "passage" not in row and "position" not in row:
        files.required(row, "id", place)
    passage = files.key_of(files.required(row, "passage", place), "passage", place)
    position = files.key_of(files.required(row, "position", place), "position", place)
    return f"{passage}:{position}"


def _draws(item_id: str, number: int, row: dict[str, Any], place: Place) -> Draws:
    kinds = [kind for kind in KINDS if kind in row]
    if len(kinds) != 1:
        present = " and ".join(kinds) or "none"
        problem = f"a row holds one of {', '.join(KINDS)}, and this one {present}"
        raise DataError.at(*place, problem, "give exactly one of them")
    name, value = kinds[0], row[kinds[0]]
    failed = files.count_of(row.get("failed", 0), "failed", place, least=0)
    if name == "logprobs":
        return Draws(item_id, {}, failed, number, (), _logprobs(item_id, value, place))
    if name == "texts" or isinstance(value, list):
        return Draws(item_id, {}, failed, number, tuple(files.texts_of(value, name, place)))
    return Draws(item_id, files.counts_of(value, name, place), failed, number)


def _logprobs(item_id: str, value: Any, place: Place) -> dict[str, float]:
    if not isinstance(value, dict) or not value:
        fix = 'write logprobs as an object such as {"word": -1.5}'
        raise DataError.at(*place, "logprobs is no object with words", fix)
    for word, number in value.items():
        files.text_of(word, "a word of logprobs", place)
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number) or number > 0:
            problem = f"{quoted(number, 40)} is no log-probability"
            raise DataError.at(*place, problem, "use natural logarithms, at most 0")
        if number <= PLACEHOLDER:
            said = f"{number:.6g} of {quoted(word, 40)} is what servers write for a log-probability"
            fix = "leave this word out, or record its real log-probability"
            raise DataError.at(*place, f"{said} that they do not return", fix)
    total = math.fsum(map(math.exp, value.values()))
    if total > 1 + _ROUNDING:
        problem = f"the probabilities of item {quoted(item_id)} sum to {total:.6g}, more than 1"
        raise DataError.at(*place, problem, "use natural logarithms of the words' probabilities")
    return {word: float(number) for word, number in value.items()}


TEXT_KINDS = ("texts", "generations")
_NULL, _EMPTY = "texts are null and left out", "rows hold no text"
_ABSENT, _UNKNOWN = "inputs have no row", "rows name no input of those asked for"
_FEW, _MORE = "inputs have fewer texts than --samples", "texts beyond --samples are not used"


@dataclass(frozen=True)
class RecordedTexts:
    """The rows of one system in one file as a text model."""

    path: Path
    version: str
    system: str | None = None
    conventions: Mapping[str, str] = field(default_factory=dict)
    """None: texts are used as they are."""
    _sizes: Counter[int] = field(default_factory=Counter, repr=False, compare=False)
    """Number of texts -> rows."""
    _problems: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    @property
    def label(self) -> str:
        """The system's name, or the file's without its endings."""
        return self.system or files.stem(self.path)

    def notes(self) -> Sequence[str]:
        """Unequal numbers of texts, missing texts, rows and inputs that do not match."""
        sizes, notes = sorted(size for size in self._sizes if size), []
        if len(sizes) > 1:
            notes.append(f"inputs have unequal numbers of texts, {sizes[0]} to {sizes[-1]}")
        problems = self._problems | Counter({_EMPTY: self._sizes[0]})
        kinds = (_NULL, _EMPTY, _ABSENT, _UNKNOWN, _FEW, _MORE)
        notes += [f"{problems[kind]} {kind}" for kind in kinds if problems[kind]]
        return [f"{self.label}: {note}" for note in notes]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """Yield the texts of each input: those of its row, or only the first; or none.

        Draws are exchangeable, and a list of best texts keeps its best ones.
        """
        requested = {item.id for item in items}
        missing = set(requested)
        for item_id, texts in self._rows():
            if item_id not in requested:
                self._problems[_UNKNOWN] += 1
                continue
            missing.discard(item_id)
            yield Texts(item_id, self._counted(texts, ask.most_recorded))
        if requested and missing == requested:
            problem = "no id of its rows is the id of an input"
            raise DataError.at(self.path, None, problem, "give rows the ids of the corpus")
        self._problems[_ABSENT] += len(missing)
        yield from (Texts(item_id, ()) for item_id in sorted(missing))

    def _counted(self, texts: tuple[str, ...], most: int | None) -> tuple[str, ...]:
        """Return the texts that are used, and count those that are too many or too few."""
        used = texts[:most]
        self._problems[_MORE] += len(texts) - len(used)
        self._problems[_FEW] += 0 < len(used) < (most or 0)
        self._sizes[len(used)] += 1
        return used

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
        kinds = [kind for kind in TEXT_KINDS if kind in row]
        if len(kinds) != 1:
            present = "both" if kinds else f"none (found {', '.join(sorted(map(ascii, row))[:12])})"
            problem = f"a row holds one of {' and '.join(TEXT_KINDS)}, and this one {present}"
            raise DataError.at(*place, problem, "give texts as a list of strings")
        value = row[kinds[0]]
        if value is None:
            return ()
        if isinstance(value, list):
            self._problems[_NULL] += value.count(None)
            value = [text for text in value if text is not None]
        return tuple(files.texts_of(value, kinds[0], place))


def _system(row: dict[str, Any], place: Place) -> str | None:
    value = row.get("system")
    return None if value is None else files.key_of(value, "system", place)


def load_texts(argument: str, loading: LoadOptions | None = None) -> RecordedTexts:
    """Return the text model of `recorded:FILE` or `recorded:FILE?system=NAME`."""
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
    names = sorted(system for system in systems if system is not None)
    choices = ", ".join(map(quoted, names[:12]))
    if chosen is not None and chosen not in names:
        problem = f"holds no system {quoted(chosen)}"
        raise DataError.at(path, None, problem, f"its systems are: {choices or 'none'}")
    if chosen is None and len(systems) > 1:
        fix = f"name one, as in recorded:FILE?system=NAME ({choices})"
        raise DataError.at(path, None, "holds texts of several systems", fix)
    return chosen or next(iter(systems))
