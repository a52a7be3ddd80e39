"""Model output that was recorded before: JSON lines, one row an item.

A row names its item by `id`, or by `passage` and `position`, and holds one of
- `samples` or `counts`: an object of words and their counts,
- `texts` (or `samples` as a list): raw texts, cut later by the word rule,
- `logprobs`: an object of words and natural log-probabilities, for the biased estimator.
`failed` counts draws without a word. Several rows for one item are further samples of it; only
log-probabilities, which are no samples, come once an item.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric import files
from aleatoric.errors import DataError, UsageError
from aleatoric.files import Place
from aleatoric.models.base import Ask
from aleatoric.showing import quoted
from aleatoric.types import Draws, Item

_ROUNDING = 1e-6
KINDS = ("samples", "counts", "texts", "logprobs")


@dataclass(frozen=True)
class RecordedModel:
    """The rows of one file."""

    path: Path
    version: str

    @property
    def label(self) -> str:
        """The file's name without its endings."""
        return self.path.name.partition(".")[0]

    @property
    def estimator(self) -> str:
        """Whatever made the recording."""
        return "recorded"

    def notes(self) -> Sequence[str]:
        """Nothing beyond its numbers."""
        return ()

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Every row of the file, in its order; the run joins them to items."""
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
    """`recorded:FILE`."""
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
        found = " and ".join(kinds) or "none"
        problem = f"a row holds one of {', '.join(KINDS)}, and this one {found}"
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
    total = math.fsum(map(math.exp, value.values()))
    if total > 1 + _ROUNDING:
        problem = f"the probabilities of item {quoted(item_id)} sum to {total:.6g}, more than 1"
        raise DataError.at(*place, problem, "use natural logarithms of the words' probabilities")
    return {word: float(number) for word, number in value.items()}
