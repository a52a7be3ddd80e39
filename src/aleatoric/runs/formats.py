"""The tables of a run, and how rows are written and read: JSON, or compressed statistics.

A run may come from others, and a checksum does not prove who wrote a row; so every row is validated
when it is decoded.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Categorical, Choices, Draws, Exact, Floats, Item, TextItem, Texts

DATABASE = "run.sqlite"
ITEMS_SAVED = "n_items"
"""The fact with the number of items a run started with: if its table has fewer, some were lost."""
SCHEMA_VERSION = 7
"""Raised when a table or the manifest changes; kept as SQLite's `user_version`."""
STATS = (
    "CREATE TABLE stats (generation INTEGER NOT NULL, system INTEGER NOT NULL, "
    "page INTEGER NOT NULL, last_item INTEGER NOT NULL, payload BLOB NOT NULL, "
    "checksum INTEGER NOT NULL, PRIMARY KEY (generation, system, page)) WITHOUT ROWID"
)
EMBEDDINGS = "CREATE TABLE embeddings (hash TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL)"
SYSTEMS = (
    "CREATE TABLE systems (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "facts TEXT NOT NULL, checksum INTEGER NOT NULL)"
)
SCHEMA = (
    META,
    "CREATE TABLE items (no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, grp TEXT NOT NULL, "
    "context TEXT NOT NULL, original TEXT, responses TEXT NOT NULL, checksum INTEGER NOT NULL)",
    SYSTEMS,
    "CREATE TABLE draws (item INTEGER NOT NULL, system INTEGER NOT NULL, row INTEGER NOT NULL, "
    "payload TEXT NOT NULL, checksum INTEGER NOT NULL, "
    "PRIMARY KEY (item, system, row)) WITHOUT ROWID",
    # Which items a system has answered is needed often: the index avoids reading the answers.
    "CREATE INDEX draws_by_system ON draws (system, item)",
    "CREATE TABLE token_sums (system INTEGER PRIMARY KEY, items INTEGER NOT NULL, "
    "unscored INTEGER NOT NULL, tokens INTEGER NOT NULL, payload BLOB NOT NULL, "
    "checksum INTEGER NOT NULL)",
    STATS,
    EMBEDDINGS,
)
"""One statement each: a new run is created in one transaction."""
COLUMNS = {
    "meta": ("key", "value", "checksum"),
    "systems": ("no", "name", "facts", "checksum"),
    "items": ("no", "id", "grp", "context", "original", "responses", "checksum"),
    "draws": ("item", "system", "row", "payload", "checksum"),
    "token_sums": ("system", "items", "unscored", "tokens", "payload", "checksum"),
    "stats": ("generation", "system", "page", "last_item", "payload", "checksum"),
}
"""The tables whose rows are sealed: the key first, then the contents, the checksum last."""
CELLS = 1_000_000
"""Most numbers in one page of statistics, not counting its last row."""
_ROUNDING = 1e-3

SqlRow = tuple[Any, ...]
"""The columns of a table: its key first, its contents last."""
ItemRow = tuple[str, str, str, str | None, str]
"""Id, group, context, original, responses."""


class DamagedRowError(ValueError):
    """A saved row does not hold what was written."""


def select(table: str) -> str:
    """Return the statement that reads the sealed rows of a table."""
    return f"SELECT {', '.join(COLUMNS[table])} FROM {table}"


def insert(table: str, how: str = "INSERT") -> str:
    """Return the statement that writes a sealed row to a table; the database may be named."""
    n_columns = len(COLUMNS[table.rpartition(".")[2]])
    return f"{how} INTO {table} VALUES ({', '.join('?' * n_columns)})"


def temporary(statement: str) -> str:
    """Return the statement that creates a table which disappears with the connection."""
    return statement.replace("CREATE TABLE", "CREATE TEMP TABLE IF NOT EXISTS", 1)


def seal(row: SqlRow) -> SqlRow:
    """Append a checksum of all columns to a row, its key included: SQLite itself keeps none.

    >>> seal((7, '["a"]'))
    (7, '["a"]', 1311578035)
    """
    return (*row, _checksum(row))


def unseal(row: SqlRow) -> SqlRow:
    """Return a sealed row without its checksum."""
    contents = tuple(row[:-1])
    _check(_checksum(contents) == row[-1], "a row is not what was written")
    return contents


def _checksum(row: SqlRow) -> int:
    *key, content = row
    names = "\0".join(["\1" if part is None else str(part) for part in key])
    if isinstance(content, bytes):
        names += "\0\2"  # a single flipped bit turns a text into a blob of the same bytes
    else:
        names, content = names + "\0", str(content).encode("utf-8", "surrogatepass")
    return zlib.crc32(content, zlib.crc32(names.encode("utf-8", "surrogatepass")))


def _check(is_valid: bool, problem: str) -> None:
    if not is_valid:
        raise DamagedRowError(problem)


class SavedDict(dict[Any, Any]):
    """A dictionary of saved values; reading a missing key is damage."""

    def __missing__(self, key: Any) -> Any:
        raise DamagedRowError(f"{key!r} is missing")


def dump(value: Any) -> str:
    """Write compact JSON that is not escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def load(text: str, objects: type[dict[str, Any]] | None = None) -> Any:
    """Read JSON; its objects may be read as `SavedDict`."""
    try:
        return json.loads(text, object_hook=objects)
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedRowError(str(error)) from None


def dump_texts(texts: Texts) -> str:
    """Write the texts of an input as a JSON list, or as an object with their log-probabilities."""
    if not texts.logprobs:
        return dump(texts.texts)
    return dump({"texts": texts.texts, "logprobs": texts.logprobs, "cut": texts.n_cut})


def load_written(payload: str) -> Texts:
    """Read and validate what `dump_texts` wrote; the id of the input is not part of it."""
    saved = load(payload)
    if type(saved) is not dict:
        return Texts("", load_texts(payload))
    parts: list[Any] = [saved.get(name) for name in ("texts", "logprobs", "cut")]
    texts, logprobs, n_cut = parts
    lists = type(texts) is type(logprobs) is list and len(texts) == len(logprobs) > 0
    _check(lists and all(is_number(v) and v < 1 for v in logprobs), "log-probabilities of texts")
    _check(type(n_cut) is int and 0 <= n_cut <= len(texts), "number of cut texts")
    return Texts("", valid_texts(texts), tuple(map(float, logprobs)), n_cut)


def load_texts(text: str) -> tuple[str, ...]:
    """Read a JSON list of one text or more."""
    texts = load(text)
    _check(type(texts) is list and len(texts) > 0, "not a list of texts")
    return valid_texts(texts)


def valid_texts(values: Sequence[Any]) -> tuple[str, ...]:
    """Refuse values that are not texts, and texts with half of a surrogate pair."""
    try:
        "".join(values).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise DamagedRowError(str(error)) from None
    return tuple(values)


def dump_item(item: Item | TextItem) -> ItemRow:
    """Return an item as its columns; answers are a JSON list of texts or (person, text) pairs."""
    if isinstance(item, TextItem):
        asked, given = dump(item.input), item.references
    else:
        asked, given = item.context, item.responses
    answers = given if item.persons is None else list(zip(item.persons, given, strict=True))
    return item.id, item.group, asked, item.original, dump(answers)


def load_item(item_id: str, group: str, context: str, original: str | None, responses: str) -> Item:
    """Return the item of its columns."""
    answers = load(responses)
    valid_texts([item_id, group, context, original or ""])
    _check(type(answers) is list and len(answers) > 0, "not a list of responses")
    words, persons = _with_persons(answers)
    return Item(item_id, group, context, words, original, persons)


def _with_persons(answers: Any) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return answers and who gave them, from a list of answers or of (person, answer) pairs."""
    _check(type(answers) is list, "not a list of answers")
    if not answers or isinstance(answers[0], str):
        return valid_texts(answers), None
    try:
        persons, words = zip(*answers, strict=True)
    except (TypeError, ValueError) as error:
        raise DamagedRowError(str(error)) from None
    return valid_texts(words), valid_texts(persons)


def load_text_item(
    item_id: str, group: str, turns: str, original: str | None, references: str
) -> TextItem:
    """Return the input of its columns."""
    valid_texts([item_id, group, original or ""])
    texts, persons = _with_persons(load(references))
    return TextItem(item_id, group, load_texts(turns), texts, original, persons)


def dump_draws(draws: Draws) -> str:
    """Write draws as JSON, without empty parts."""
    payload: dict[str, Any] = {"counts": dict(draws.counts)}
    others = {"failed": draws.failed, "texts": draws.texts}
    payload |= {name: value for name, value in others.items() if value}
    if draws.logprobs is not None:
        payload["logprobs"] = dict(draws.logprobs)
    if draws.exact is not None:
        bounds = draws.exact.bounds.items()  # JSON has no infinity
        ends = {name: (None if low == math.inf else low, high) for name, (low, high) in bounds}
        payload["exact"] = asdict(draws.exact) | {"bounds": ends}
    return dump(payload)


def load_draws(item_id: str, row: int, payload: str) -> Draws:
    """Read and validate what `dump_draws` wrote."""
    saved = load(payload)
    if type(saved) is not dict or type(counts := saved.get("counts")) is not dict:
        raise DamagedRowError("draws have no counts")
    valid_texts([*counts])
    written, failed = saved.get("texts", []), saved.get("failed", 0)
    logprobs = saved.get("logprobs")
    _check(type(written) is list and type(row) is int, "texts of draws are not a list")
    is_valid = set(map(type, counts.values())) <= {int} and min(counts.values(), default=1) > 0
    _check(is_valid and type(failed) is int and failed >= 0, "counts of draws")
    # Some samplers take memory for each draw.
    _check(failed + sum(counts.values()) < 10**8, "too many draws")
    if logprobs is not None:
        is_valid = type(logprobs) is dict and all(map(is_number, logprobs.values()))
        _check(is_valid, "log-probabilities")
        valid_texts([*logprobs])
    exact = _load_exact(saved["exact"]) if "exact" in saved else None
    return Draws(item_id, counts, failed, row, valid_texts(written), logprobs, exact)


def _load_exact(saved: Any) -> Exact:
    try:
        words, bounds = saved["words"], saved["bounds"]
        support, probs = valid_texts(words["support"]), tuple(words["probs"])
        numbers = [saved["failed"], words["rest"], words["agreement"] or 0.0, *probs]
        ends = {  # both ends are null if the log loss is infinite: a word has no probability
            name: (math.inf if low is high is None else low, high)
            for name, (low, high) in bounds.items()
        }
        is_valid = (
            words["n"] is None
            and len(support) == len(set(support)) == len(probs) > 0
            and all(map(is_number, numbers))
            and -_ROUNDING <= min(numbers) <= sum(probs) <= 1 + _ROUNDING
            and type(saved["certified"]) is bool
            and all(_is_real(low) for low, _ in ends.values())
            and all(is_number(high) for _, high in ends.values() if high is not None)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedRowError(str(error)) from None
    _check(is_valid, "probabilities of words")
    distribution = Categorical(support, probs, words["rest"], None, words["agreement"])
    return Exact(distribution, ends, saved["certified"], saved["failed"])


@dataclass(frozen=True)
class StatRow:
    """Statistics of one system on one item, ready to be saved."""

    item: int
    system: str
    row: int
    values: Mapping[str, float | None]
    splits: Mapping[str, Floats]


@dataclass(frozen=True)
class StatTable:
    """Saved statistics of some items: name -> (items, 1) values, and (splits, items) values."""

    items: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: dict[str, Floats]
    splits: Floats


def dump_stats(rows: Sequence[StatRow], columns: Sequence[str], n_splits: int) -> bytes:
    """Compress the rows of one system as a table of item, row, columns and splits.

    Similar values lie together; missing ones are NaN. The first byte says whether there are splits.
    """
    unknown = {name for row in rows for name in row.values}.difference(columns)
    _check(not unknown, f"there is no statistic {', '.join(map(repr, sorted(unknown)))}")
    table = np.full((2 + len(columns) + n_splits, len(rows)), np.nan)
    table[:2] = [row.item for row in rows], [row.row for row in rows]
    for place, name in enumerate(columns, 2):
        table[place] = np.array([row.values.get(name) for row in rows], dtype=np.float64)
    for i, row in enumerate(rows):
        if row.splits:
            table[2 + len(columns) :, i] = np.concatenate([*row.splits.values()])
    table[np.isnan(table)] = np.nan  # one form of NaN, and of zero
    return bytes([n_splits > 0]) + zlib.compress((table + 0.0).astype("<f8").tobytes(), 1)


def load_stats(page: bytes, columns: Sequence[str], n_splits: int) -> StatTable:
    """Read what `dump_stats` wrote; splits are undefined in a page without them."""
    _check(type(page) is bytes and page[:1] in (b"\0", b"\1"), "statistics are not a table")
    height = 2 + len(columns) + n_splits * page[0]
    inflate = zlib.decompressobj()
    try:
        table = np.frombuffer(inflate.decompress(page[1:], 8 * (CELLS + height)), "<f8")
        table = table.reshape(height, -1)
    except (ValueError, zlib.error) as error:
        raise DamagedRowError(str(error)) from None
    keys, n_rows = table[:2], table.shape[1]
    is_whole = inflate.eof and not inflate.unused_data and n_rows > 0
    _check(is_whole and bool(((keys >= 0) & (keys < 2**53) & (keys % 1 == 0)).all()), "statistics")
    splits = table[2 + len(columns) :] if page[0] else np.full((n_splits, n_rows), np.nan)
    values = SavedDict((name, table[2 + i][:, None]) for i, name in enumerate(columns))
    items, rows = keys.astype(np.int64)
    return StatTable(items, rows, values, splits)


def or_none(values: Floats) -> list[float | None]:
    """Return numbers as a list, with `None` for NaN."""
    return [None if value != value else value for value in values.tolist()]


Shape = Any
"""A type, `None`, a list of one shape, a tuple of alternatives, a dict, or a test function."""


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has a shape."""
    if shape is None or isinstance(shape, type):
        return value is None if shape is None else type(value) is shape
    if isinstance(shape, tuple):
        return any(fits(value, alternative) for alternative in shape)
    if isinstance(shape, list):
        return type(value) is list and all(fits(part, shape[0]) for part in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            fits(value[key], inner) for key, inner in shape.items() if key in value
        )
    return bool(shape(value))


def int_between(low: int, high: int = 2**63 - 1) -> Callable[[Any], bool]:
    """Return the test for integers between two ends, both included."""
    return lambda value: type(value) is int and low <= value <= high


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and abs(value) < 1e300


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and value == value  # not NaN


def is_text(value: Any) -> bool:
    """Whether a value is text without half of a surrogate pair."""
    return type(value) is str and not any("\ud800" <= char <= "\udfff" for char in value)


def each(shape: Shape) -> Callable[[Any], bool]:
    """Return the test for dictionaries with any names, and values of one shape."""
    return lambda value: (
        isinstance(value, dict)
        and all(is_text(name) and fits(inner, shape) for name, inner in value.items())
    )


_TEXT_OR_NONE = (is_text, None)
_COUNT = int_between(0)
_MANIFEST: Shape = {
    **dict.fromkeys(("level", "command"), is_text),
    "corpus": dict.fromkeys(("name", "version", "sha256", "spec", "encoding"), is_text),
    "choices": lambda value: each(is_text)(value) and value.keys() <= asdict(Choices()).keys(),
    "contents": each(is_text),
    "versions": each(_TEXT_OR_NONE),
    "assignment": each((int, is_text)),
}
"""What a manifest holds beside the fields of its job, which are checked by their types."""
_NUMBERS = each((int, float, None))
_FINETUNED: Shape = {
    "fluency": (_NUMBERS, None),
    "kept": each(_COUNT),
    "curves": each([_NUMBERS]),
    "temperatures": each(is_number),
    "temperatures_by_log_loss": each(is_number),
}
_FACTS: dict[str, Shape] = {
    "manifest": lambda value: fits(value, _MANIFEST) and "level" in value,
    "n_items": _COUNT,
    "notes": [is_text],
    "finished models": [is_text],
    "complete": bool,
    "has_control": bool,
    "scored by": (is_text, None),
    "stat_columns": lambda value: fits(value, [is_text]) and 0 < len(set(value)) == len(value),
    "split_names": each([is_text]),
    "stats": {"generation": _COUNT, "rows": each(_COUNT)},
    "texts without spaces": each(_COUNT),
    "windows": [
        {
            "probes": [is_text],
            "model": is_text,
            "of_pairs": bool,
            **dict.fromkeys(("limit", "n", "n_too_long"), _COUNT),
        }
    ],
    "probe_facts": each(each(is_text)),
    "probe_bounds": each(lambda value: fits(value, [_is_real]) and len(value) == 2),
    "finetuning": lambda value: each(_FINETUNED)(value) and each(_NUMBERS)(value.get("grid", {})),
}
_TALLY = {"texts", "cut", "empty", "short_of_room"}
_FACTS_OF_A_SYSTEM: dict[str, Shape] = {
    "done": bool,
    "tally": lambda value: each(_COUNT)(value) and value.keys() <= _TALLY,
    "persons": each((is_text, [int_between(1, 1000)])),
}
"""Facts about one system: the key is followed by its name."""
_SYSTEM: Shape = {
    **dict.fromkeys(("model", "decoder", "estimator", "label", "reads"), is_text),
    "vocabulary": int_between(1, 10**7),
    "conventions": each(_TEXT_OR_NONE),
}


def check_fact(key: str, value: Any) -> None:
    """Refuse a fact that does not have the shape that this package saves."""
    of_system = _FACTS_OF_A_SYSTEM.get(str(key).partition(" ")[0], lambda value: True)
    _check(fits(value, _FACTS.get(key, of_system)), f"the fact {key!r} has another shape")


def check_system(name: str, facts: Any) -> None:
    """Refuse a system whose name or facts do not have the shape that this package saves."""
    is_valid = is_text(name) and name and isinstance(facts, dict) and fits(facts, _SYSTEM)
    _check(bool(is_valid), f"the system {name!r} has another shape")
