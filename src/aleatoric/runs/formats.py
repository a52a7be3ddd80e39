"""How a run's rows are written and read: draws as JSON, statistics as compressed tables.

A run may come from others, and a checksum proves nothing about who wrote a row: every row is
checked when it is decoded, and one that this package would not have written is damage.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Categorical, Choices, Draws, Exact, Floats, Item, TextItem

ItemRow = tuple[str, str, str, str | None, str]
"""Id, group, context, original, responses."""
RowOf = tuple[Any, ...]
"""The columns of a table: its key first, its contents last."""
CELLS = 1_000_000
"""Numbers in one page of statistics, but for its last row."""
MAX_DRAWS = 10**8
"""Draws of one item that can be drawn from again; some samplers take memory for each."""
_ROUNDING = 1e-3


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


@dataclass(frozen=True)
class StatPage:
    """A page of saved statistics: ids, groups, and name -> (items, splits) values."""

    ids: list[str]
    groups: list[str]
    values: dict[str, Floats]


class DamagedRowError(ValueError):
    """A saved row does not hold what was written."""


class Facts(dict[Any, Any]):
    """A dictionary of saved values; a key that is read and missing is damage."""

    def __missing__(self, key: Any) -> Any:
        raise DamagedRowError(f"{key!r} is missing")


def seal(row: RowOf) -> RowOf:
    """Return a row with a checksum of all its columns behind them: SQLite itself keeps none.

    It covers the key, so that a row under another key is noticed like one with other contents.

    >>> seal((7, '["a"]'))
    (7, '["a"]', 1311578035)
    """
    return (*row, _checksum(row))


def unseal(row: RowOf) -> RowOf:
    """Return the row that was sealed, without its checksum.

    >>> unseal(seal((7, '["a"]')))
    (7, '["a"]')
    """
    contents = tuple(row[:-1])
    if _checksum(contents) != row[-1]:
        raise DamagedRowError("a row is not what was written")
    return contents


def _checksum(row: RowOf) -> int:
    *key, content = row
    parts = ["\1" if part is None else str(part) for part in key]
    # A single flipped bit turns a text into a blob of the same bytes.
    parts.append("\2" if isinstance(content, bytes) else "")
    start = zlib.crc32("\0".join(parts).encode("utf-8", "surrogatepass"))
    if not isinstance(content, bytes):
        content = str(content).encode("utf-8", "surrogatepass")
    return zlib.crc32(content, start)


def load(text: str, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value that `dump` wrote.

    >>> load(dump(["é"]))
    ['é']
    """
    try:
        return json.loads(text, object_hook=hook)
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedRowError(str(error)) from None


def load_facts(text: str) -> Any:
    """The value of a fact, whose objects are `Facts`.

    >>> load_facts('{"a": {}}')["a"]["b"]
    Traceback (most recent call last):
    aleatoric.runs.formats.DamagedRowError: 'b' is missing
    """
    return load(text, Facts)


def load_texts(text: str) -> tuple[str, ...]:
    """A saved list of one text or more.

    >>> load_texts('["a", "b"]')
    ('a', 'b')
    """
    found = load(text)
    if type(found) is not list or not found:
        raise DamagedRowError("no list of texts")
    return texts(found)


def texts(found: Sequence[Any]) -> tuple[str, ...]:
    """Texts that can be written anywhere: without half of a surrogate pair.

    >>> texts(["a"])
    ('a',)
    """
    try:
        "".join(found).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise DamagedRowError(str(error)) from None
    return tuple(found)


def dump(value: Any) -> str:
    """Short JSON, texts as they are.

    >>> dump({"é": 1})
    '{"é":1}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dump_draws(draws: Draws) -> str:
    """Draws as JSON, without what they do not have.

    >>> dump_draws(Draws("1", {"a": 2}, failed=1))
    '{"counts":{"a":2},"failed":1}'
    """
    payload: dict[str, Any] = {"counts": dict(draws.counts)}
    if draws.failed:
        payload["failed"] = draws.failed
    if draws.texts:
        payload["texts"] = draws.texts
    if draws.logprobs is not None:
        payload["logprobs"] = dict(draws.logprobs)
    if draws.exact is not None:
        payload["exact"] = asdict(draws.exact)
    return dump(payload)


def load_draws(item_id: str, row: int, payload: str) -> Draws:
    """The draws that `dump_draws` wrote.

    >>> load_draws("1", 0, '{"counts":{"a":2}}').counts
    {'a': 2}
    """
    found = load(payload)
    if type(found) is not dict or type(counts := found.get("counts")) is not dict:
        raise DamagedRowError("draws have no counts")
    texts([*counts])
    written, failed = found.get("texts", []), found.get("failed", 0)
    logprobs = found.get("logprobs")
    _check(type(written) is list and type(row) is int, "texts of draws are no list")
    numbers = [failed, *counts.values()]
    is_valid = all(type(number) is int and number > 0 for number in numbers[1:])
    _check(is_valid and type(failed) is int and failed >= 0, "counts of draws")
    _check(sum(numbers) < MAX_DRAWS, "too many draws")
    if logprobs is not None:
        _check(type(logprobs) is dict and _are_numbers(logprobs.values()), "log-probabilities")
        texts([*logprobs])
    exact = _load_exact(found["exact"]) if "exact" in found else None
    return Draws(item_id, counts, failed, row, texts(written), logprobs, exact)


def _load_exact(found: Any) -> Exact:
    try:
        words, bounds = found["words"], found["bounds"]
        support, probs = texts(words["support"]), tuple(words["probs"])
        numbers = [found["failed"], words["rest"], *probs]
        ends = {name: (low, high) for name, (low, high) in bounds.items()}
        is_valid = (
            words["n"] is None
            and len(support) == len(set(support)) == len(probs) > 0
            and _are_numbers(numbers)
            and -_ROUNDING <= min(numbers) <= sum(probs) <= 1 + _ROUNDING
            and type(found["certified"]) is bool
            # The log loss of a word without probability is infinite.
            and all(type(low) in (int, float) and low == low for low, _ in ends.values())
            and _are_numbers(high for _, high in ends.values() if high is not None)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedRowError(str(error)) from None
    _check(is_valid, "probabilities of words")
    distribution = Categorical(support, probs, words["rest"], None)
    return Exact(distribution, ends, found["certified"], found["failed"])


def _check(is_valid: bool, problem: str) -> None:
    if not is_valid:
        raise DamagedRowError(problem)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(type(value) in (int, float) and math.isfinite(value) for value in values)


def dump_item(item: Item) -> ItemRow:
    """An item as its columns; responses are a JSON list of words, or of (person, word) pairs.

    >>> dump_item(Item("1", "g", "There", ("are",)))
    ('1', 'g', 'There', None, '["are"]')
    >>> dump_item(Item("1", "g", "There", ("are",), persons=("ann",)))[-1]
    '[["ann","are"]]'
    """
    responses: Sequence[Any] = item.responses
    if item.persons is not None:
        responses = list(zip(item.persons, item.responses, strict=True))
    return item.id, item.group, item.context, item.original, dump(responses)


def load_item(item_id: str, group: str, context: str, original: str | None, responses: str) -> Item:
    """An item from its columns.

    >>> load_item(*dump_item(Item("1", "g", "There", ("are",)))).responses
    ('are',)
    >>> load_item(*dump_item(Item("1", "g", "There", ("are",), persons=("ann",)))).persons
    ('ann',)
    """
    found = load(responses)
    texts([item_id, group, context, original or ""])
    if type(found) is not list or not found:
        raise DamagedRowError("no list of responses")
    if isinstance(found[0], str):
        return Item(item_id, group, context, texts(found), original)
    try:
        persons, words = zip(*found, strict=True)
    except (TypeError, ValueError) as error:
        raise DamagedRowError(str(error)) from None
    return Item(item_id, group, context, texts(words), original, texts(persons))


def dump_text_item(item: TextItem) -> ItemRow:
    """An input with people's texts as the columns of an item; its turns are a JSON list.

    >>> dump_text_item(TextItem("1", "g", ("Hi?",), ("Yes.", "No.")))[2]
    '["Hi?"]'
    """
    return item.id, item.group, dump(item.input), item.original, dump(item.references)


def load_text_item(
    item_id: str, group: str, turns: str, original: str | None, references: str
) -> TextItem:
    """The input that `dump_text_item` wrote.

    >>> load_text_item(*dump_text_item(TextItem("1", "g", ("Hi?",), ("Yes.",)))).input
    ('Hi?',)
    """
    texts([item_id, group, original or ""])
    return TextItem(item_id, group, load_texts(turns), load_texts(references), original)


def dump_stats(rows: Sequence[StatRow], columns: Sequence[str], n_splits: int) -> bytes:
    """Rows of one system as a compressed table, which may have splits: the first byte says so.

    Its rows are item, row, columns and splits: values of one column are alike, and lie together.
    What a row does not have is undefined.

    >>> page = dump_stats([StatRow(7, "m", 0, {"tvd": 0.5}, {})], ["tvd"], 0)
    >>> load_stats(page, ["tvd"], 0).values["tvd"].tolist()
    [[0.5]]
    """
    table = np.full((2 + len(columns) + n_splits, len(rows)), np.nan)
    places = {name: 2 + i for i, name in enumerate(columns)}
    for i, row in enumerate(rows):
        table[:2, i] = row.item, row.row
        for name, value in row.values.items():
            if name not in places:
                raise DamagedRowError(f"there is no statistic {name!r}")
            table[places[name], i] = np.nan if value is None else value
        if row.splits:
            table[2 + len(columns) :, i] = np.concatenate([*row.splits.values()])
    table[np.isnan(table)] = np.nan  # one form of NaN, and of zero
    return bytes([n_splits > 0]) + zlib.compress((table + 0.0).astype("<f8").tobytes(), 1)


def load_stats(page: bytes, columns: Sequence[str], n_splits: int) -> StatTable:
    """The rows that `dump_stats` wrote; splits are undefined in a page without them."""
    _check(type(page) is bytes and page[:1] in (b"\0", b"\1"), "statistics are no table")
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
    values = Facts((name, table[2 + i][:, None]) for i, name in enumerate(columns))
    items, rows = keys.astype(np.int64)
    return StatTable(items, rows, values, splits)


def or_none(values: Floats) -> list[float | None]:
    """Numbers, with `None` for what is undefined.

    >>> or_none(np.array([0.5, np.nan]))
    [0.5, None]
    """
    return [None if value != value else value for value in values.tolist()]


def whole(value: float) -> int:
    """A sum of counts.

    >>> whole(2.0)
    2
    """
    _check(math.isfinite(value), "a sum of counts is infinite")
    return int(value)


DATABASE = "run.sqlite"
ITEMS_SAVED = "n_items"
"""The fact that says how many items a run was given: fewer in its table have been lost."""
SCHEMA_VERSION = 5
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
    # Which items a system has answered is needed often: this index tells without the answers.
    "CREATE INDEX draws_by_system ON draws (system, item)",
    "CREATE TABLE token_sums (system INTEGER PRIMARY KEY, items INTEGER NOT NULL, "
    "unscored INTEGER NOT NULL, tokens INTEGER NOT NULL, payload BLOB NOT NULL, "
    "checksum INTEGER NOT NULL)",
    STATS,
    EMBEDDINGS,
)
"""One statement each: a new run is made in one transaction, whole or not at all."""
COLUMNS = {
    "meta": ("key", "value", "checksum"),
    "systems": ("no", "name", "facts", "checksum"),
    "items": ("no", "id", "grp", "context", "original", "responses", "checksum"),
    "draws": ("item", "system", "row", "payload", "checksum"),
    "token_sums": ("system", "items", "unscored", "tokens", "payload", "checksum"),
    "stats": ("generation", "system", "page", "last_item", "payload", "checksum"),
}
"""The tables whose rows are sealed: the key first, then the contents, the checksum last."""


def select(table: str) -> str:
    """Return the statement that reads the sealed rows of a table.

    >>> select("meta")
    'SELECT key, value, checksum FROM meta'
    """
    return f"SELECT {', '.join(COLUMNS[table])} FROM {table}"


def insert(table: str, how: str = "INSERT") -> str:
    """Return the statement that writes a sealed row to a table, which may be of one database.

    >>> insert("meta"), insert("temp.meta", "INSERT OR REPLACE")
    ('INSERT INTO meta VALUES (?, ?, ?)', 'INSERT OR REPLACE INTO temp.meta VALUES (?, ?, ?)')
    """
    n_columns = len(COLUMNS[table.rpartition(".")[2]])
    return f"{how} INTO {table} VALUES ({', '.join('?' * n_columns)})"


def temporary(statement: str) -> str:
    """The statement that creates a table which disappears with the connection.

    >>> temporary(META)[:22]
    'CREATE TEMP TABLE IF N'
    """
    return statement.replace("CREATE TABLE", "CREATE TEMP TABLE IF NOT EXISTS", 1)


Shape = Any
_CHOICES = {field.name for field in fields(Choices)}


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has a shape.

    >>> fits(["a", None], [(str, None)]), fits({"n": -1}, {"n": whole_between(0)}), fits(True, int)
    (True, False, False)
    """
    if shape is None or isinstance(shape, type):
        return value is None if shape is None else type(value) is shape
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return type(value) is list and all(fits(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            fits(value[key], own) for key, own in shape.items() if key in value
        )
    return bool(shape(value))


def whole_between(low: int, high: int = 2**63 - 1) -> Callable[[Any], bool]:
    """Whole numbers between two ends, both included."""
    return lambda value: type(value) is int and low <= value <= high


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def is_text(value: Any) -> bool:
    """Whether a value is text that can be written anywhere: no half of a surrogate pair."""
    return type(value) is str and not any("\ud800" <= char <= "\udfff" for char in value)


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(map(is_text, value))


def each(shape: Shape) -> Callable[[Any], bool]:
    """Dictionaries with any names, and values of one shape."""
    return lambda value: (
        isinstance(value, dict)
        and all(is_text(name) and fits(own, shape) for name, own in value.items())
    )


def _is_choices(value: Any) -> bool:
    return each(is_text)(value) and value.keys() <= _CHOICES


_TEXT_OR_NONE = (is_text, None)
_COUNT = whole_between(0)
_MANIFEST: Shape = {
    **dict.fromkeys(("level", "command"), is_text),
    "corpus": dict.fromkeys(("name", "version", "sha256", "spec", "encoding"), is_text),
    "choices": _is_choices,
    "contents": each(is_text),
    "versions": each(_TEXT_OR_NONE),
    "assignment": each((int, is_text)),
}
"""What a manifest holds beside the fields of its job, which are checked by their types."""
_NUMBERS = each((int, float, None))
_PER_NAME = each(_NUMBERS)
_TRAINED: Shape = {
    "fluency": (_NUMBERS, None),
    "kept": each(_COUNT),
    "curves": each([_NUMBERS]),
    "temperatures": each(is_number),
    "temperatures_by_log_loss": each(is_number),
}
_FACTS: dict[str, Shape] = {
    "manifest": lambda value: fits(value, _MANIFEST) and "level" in value,
    "n_items": _COUNT,
    "notes": _are_texts,
    "finished models": _are_texts,
    "complete": bool,
    "has_control": bool,
    "stat_columns": lambda value: _are_texts(value) and 0 < len(set(value)) == len(value),
    "split_names": each(_are_texts),
    "stats": {"generation": _COUNT, "rows": each(_COUNT)},
    "probe_facts": each(each(is_text)),
    "probe_bounds": each(lambda value: fits(value, [_is_real]) and len(value) == 2),
    "finetuning": lambda value: each(_TRAINED)(value) and _PER_NAME(value.get("grid", {})),
}
_TALLY = {"texts", "cut", "empty", "short_of_room"}
_NAMED: dict[str, Shape] = {
    "done": bool,
    "tally": lambda value: each(_COUNT)(value) and value.keys() <= _TALLY,
    "persons": each((is_text, [whole_between(1, 1000)])),
}
"""Facts about one system, whose name follows."""
_SYSTEM: Shape = {
    **dict.fromkeys(("model", "decoder", "estimator", "label", "reads"), is_text),
    "vocabulary": whole_between(1, 10**7),
    "conventions": each(_TEXT_OR_NONE),
}


def check_fact(key: str, value: Any) -> None:
    """Refuse a fact that is not of the shape that this package saves."""
    shape = _FACTS.get(key, _NAMED.get(str(key).partition(" ")[0], lambda value: True))
    if not fits(value, shape):
        raise DamagedRowError(f"the fact {key!r} has another shape")


def check_system(name: str, facts: Any) -> None:
    """Refuse a system whose name or facts are not of the shape that this package saves."""
    if not (is_text(name) and name and isinstance(facts, dict) and fits(facts, _SYSTEM)):
        raise DamagedRowError(f"the system {name!r} has another shape")
