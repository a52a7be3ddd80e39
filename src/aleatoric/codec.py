"""How a run's rows are written and read: draws as JSON, statistics as numbers and packed splits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Categorical, Draws, Exact, Item, TextItem

Floats = NDArray[np.float64]
ItemRow = tuple[str, str, str, str | None, str]
"""Id, group, context, original, responses."""
RowOf = tuple[Any, ...]
"""The columns of a table: its key first, its contents last."""
_SEAL = 4
"""Bytes of a checksum behind bytes."""


@dataclass(frozen=True)
class StatRow:
    """Statistics of one system on one item, ready to be saved."""

    item: int
    system: str
    row: int
    values: Mapping[str, float | None]
    splits: Mapping[str, Floats]


@dataclass(frozen=True)
class StatPage:
    """A page of saved statistics: groups, and name -> (items, splits) values."""

    groups: list[str]
    values: dict[str, Floats]


class DamagedRowError(ValueError):
    """A saved row does not hold what was written."""


def seal(row: RowOf) -> RowOf:
    """A row whose last column ends in a checksum of all of them: SQLite itself keeps none.

    It covers the key, so that a row under another key is noticed as one with other contents.

    >>> seal((7, '["a"]'))
    (7, '["a"]\\n1638c5a7')
    """
    *key, content = row
    if isinstance(content, bytes):
        return (*key, content + _checksum(key, content).to_bytes(_SEAL, "little"))
    return (*key, f"{content}\n{_checksum(key, content.encode('utf-8', 'surrogatepass')):08x}")


def unseal(row: RowOf) -> RowOf:
    """The row that was sealed, its last column without the checksum.

    >>> unseal(seal((7, '["a"]')))
    (7, '["a"]')
    """
    *key, found = row
    content = found[:-_SEAL] if isinstance(found, bytes) else str(found).rpartition("\n")[0]
    if seal((*key, content))[-1] != found:
        raise DamagedRowError("a row is not what was written")
    return (*key, content)


def _checksum(key: Sequence[Any], content: bytes) -> int:
    names = "\0".join("\1" if part is None else str(part) for part in key)
    return zlib.crc32(content, zlib.crc32(names.encode("utf-8", "surrogatepass")))


def load(text: str) -> Any:
    """The value that `dump` wrote.

    >>> load(dump(["é"]))
    ['é']
    """
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise DamagedRowError(str(error)) from None


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
    texts, failed = tuple(found.get("texts", ())), found.get("failed", 0)
    exact = _load_exact(found["exact"]) if "exact" in found else None
    return Draws(item_id, found["counts"], failed, row, texts, found.get("logprobs"), exact)


def _load_exact(found: dict[str, Any]) -> Exact:
    words = found.pop("words")
    support, probs = tuple(words["support"]), tuple(words["probs"])
    found["bounds"] = {name: (low, high) for name, (low, high) in found["bounds"].items()}
    return Exact(Categorical(support, probs, words["rest"], words["n"]), **found)


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
    if not found or isinstance(found[0], str):
        return Item(item_id, group, context, tuple(found), original)
    persons, words = zip(*found, strict=True)
    return Item(item_id, group, context, words, original, persons)


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
    return TextItem(item_id, group, tuple(load(turns)), tuple(load(references)), original)


def flat(row: StatRow, system: int, columns: Sequence[str]) -> tuple[Any, ...]:
    """A row of statistics as the values of one SQL row; splits are packed.

    >>> flat(StatRow(7, "m", 0, {"tvd": 0.5}, {}), 3, ["tvd"])
    (3, 7, 0, 0.5, None)
    """
    splits = b"".join(part.astype("<f8").tobytes() for part in row.splits.values())
    values: dict[str, float | None] = dict.fromkeys(columns)  # in their order
    values.update(row.values)
    if len(values) > len(columns):
        raise KeyError(f"no columns for {', '.join(values.keys() - set(columns))}")
    return (system, row.item, row.row, *values.values(), splits or None)


def seal_stats(rows: Sequence[RowOf]) -> Iterator[RowOf]:
    """Flat rows of statistics, a checksum of each behind its packed splits.

    >>> [row] = seal_stats([flat(StatRow(7, "m", 0, {"tvd": 0.5}, {}), 3, ["tvd"])])
    >>> len(row[-1])
    4
    """
    for row, checksum in zip(rows, _checksums(_numbers(rows), rows, 0), strict=True):
        yield (*row[:-1], (row[-1] or b"") + checksum)


def check_stats(rows: Sequence[RowOf]) -> list[RowOf]:
    """Sealed rows of statistics without their checksums; refuses one that has changed.

    >>> check_stats([*seal_stats([(3, 7, 0, 0.5, None)])])
    [(3, 7, 0, 0.5, b'')]
    """
    for row, checksum in zip(rows, _checksums(_numbers(rows), rows, _SEAL), strict=True):
        if not isinstance(row[-1], bytes) or row[-1][-_SEAL:] != checksum:
            raise DamagedRowError("statistics are not what was written")
    return [(*row[:-1], row[-1][:-_SEAL]) for row in rows]


def _numbers(rows: Sequence[RowOf]) -> Floats:
    """The numbers of flat rows, their keys first; each value in the one form that is saved."""
    try:
        table = np.array([row[:-1] for row in rows], dtype=np.float64)
    except (TypeError, ValueError):
        raise DamagedRowError("statistics are no numbers") from None
    table[np.isnan(table)] = np.nan
    return table + 0.0  # SQLite does not keep the sign of zero


def _checksums(table: Floats, rows: Sequence[RowOf], behind: int) -> Iterator[bytes]:
    for numbers, row in zip(table, rows, strict=True):
        packed = row[-1] if isinstance(row[-1], bytes) else b""
        own = zlib.crc32(packed[: len(packed) - behind], zlib.crc32(numbers))
        yield own.to_bytes(_SEAL, "little")


def stat_page(
    rows: list[tuple[Any, ...]], columns: list[str], names: list[str], n_splits: int = 1
) -> StatPage:
    """Rows (group, values, packed splits) as arrays; split statistics replace their means.

    >>> stat_page([("g", 0.5, None)], ["tvd"], []).values["tvd"].tolist()
    [[0.5]]
    """
    scalars = np.array([row[1:-1] for row in rows], dtype=np.float64)
    values = {name: scalars[:, [i]] for i, name in enumerate(columns)}
    blobs = [row[-1] for row in rows]
    if names:
        values |= _unpack(blobs, names, n_splits)
    return StatPage([row[0] for row in rows], values)


def _unpack(blobs: list[bytes | None], names: list[str], n_splits: int) -> dict[str, Floats]:
    """The packed splits of a page; an item without any is undefined in all of them."""
    undefined = np.full(len(names) * n_splits, np.nan, dtype="<f8").tobytes()
    flat = np.frombuffer(b"".join(blob or undefined for blob in blobs), dtype="<f8")
    cube = flat.reshape(len(blobs), len(names), n_splits)
    return {name: cube[:, i, :] for i, name in enumerate(names)}
