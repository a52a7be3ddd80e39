"""How a run's rows are written and read: draws as JSON, statistics as numbers and packed splits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Categorical, Draws, Exact, Item, TextItem

Floats = NDArray[np.float64]
ItemRow = tuple[str, str, str, str | None, str]
"""Id, group, context, original, responses."""


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


def seal(text: str, *others: str | None) -> str:
    """A text with a checksum of it and of what belongs to it: SQLite itself keeps none.

    >>> seal('["a"]')
    '["a"]\\n78a7a40c'
    """
    return f"{text}\n{_checksum(text, others)}"


def unseal(text: str, *others: str | None) -> str:
    """The text that was sealed; rows of the first version are without a seal.

    >>> unseal(seal('["a"]')), unseal('["a"]')
    ('["a"]', '["a"]')
    """
    try:
        content, mark, found = text.rpartition("\n")
    except (AttributeError, TypeError):
        raise DamagedRowError("a row holds no text") from None
    if not mark:
        return text
    if found != _checksum(content, others):
        raise DamagedRowError("a row is not what was written")
    return content


def _checksum(text: str, others: Sequence[str | None]) -> str:
    whole = "\n".join([text, *(other or "" for other in others)])
    return f"{zlib.crc32(whole.encode('utf-8', 'surrogatepass')):08x}"


def load(text: str) -> Any:
    """The value that `dump` wrote, sealed or not.

    >>> load(seal(dump(["é"])))
    ['é']
    """
    try:
        return json.loads(unseal(text))
    except (TypeError, ValueError) as error:
        raise DamagedRowError(str(error)) from None


def dump(value: Any) -> str:
    """Short JSON, texts as they are.

    >>> dump({"é": 1})
    '{"é":1}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dump_draws(draws: Draws) -> str:
    """Draws as JSON, sealed, without what they do not have.

    >>> unseal(dump_draws(Draws("1", {"a": 2}, failed=1)))
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
    return seal(dump(payload))


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
    return Exact(Categorical(support, probs, words["rest"], words["n"]), **found)


def dump_item(item: Item) -> ItemRow:
    """An item as its columns; responses are a JSON list, sealed with the others.

    >>> dump_item(Item("1", "g", "There", ("are",)))[:4]
    ('1', 'g', 'There', None)
    """
    return _sealed(item.id, item.group, item.context, item.original, dump(item.responses))


def load_item(item_id: str, group: str, context: str, original: str | None, responses: str) -> Item:
    """An item from its columns.

    >>> load_item(*dump_item(Item("1", "g", "There", ("are",)))).responses
    ('are',)
    """
    said = load_responses(item_id, group, context, original, responses)
    return Item(item_id, group, context, tuple(said), original)


def dump_text_item(item: TextItem) -> ItemRow:
    """An input with people's texts as the columns of an item; its turns are a JSON list.

    >>> dump_text_item(TextItem("1", "g", ("Hi?",), ("Yes.", "No.")))[2]
    '["Hi?"]'
    """
    return _sealed(item.id, item.group, dump(item.input), item.original, dump(item.references))


def load_text_item(
    item_id: str, group: str, turns: str, original: str | None, references: str
) -> TextItem:
    """The input that `dump_text_item` wrote.

    >>> load_text_item(*dump_text_item(TextItem("1", "g", ("Hi?",), ("Yes.",)))).input
    ('Hi?',)
    """
    texts = tuple(load_responses(item_id, group, turns, original, references))
    return TextItem(item_id, group, tuple(load(turns)), texts, original)


def load_responses(*columns: str | None) -> list[str]:
    """What people said, the last of an item's columns, if no column has changed since."""
    *others, responses = columns
    said: list[str] = load(unseal(responses or "", *others))
    return said


def _sealed(
    item_id: str, group: str, context: str, original: str | None, responses: str
) -> ItemRow:
    sealed = seal(responses, item_id, group, context, original)
    return item_id, group, context, original, sealed


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
