"""How a run's rows are written and read: draws as JSON, statistics as numbers and packed splits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Categorical, Draws, Exact, Item, TextItem

Floats = NDArray[np.float64]


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
    found = json.loads(payload)
    texts, failed = tuple(found.get("texts", ())), found.get("failed", 0)
    exact = _load_exact(found["exact"]) if "exact" in found else None
    return Draws(item_id, found["counts"], failed, row, texts, found.get("logprobs"), exact)


def _load_exact(found: dict[str, Any]) -> Exact:
    words = found.pop("words")
    support, probs = tuple(words["support"]), tuple(words["probs"])
    return Exact(Categorical(support, probs, words["rest"], words["n"]), **found)


def load_item(item_id: str, group: str, context: str, original: str | None, responses: str) -> Item:
    """An item from its columns; responses are a JSON list.

    >>> load_item("1", "g", "There", None, '["are"]').responses
    ('are',)
    """
    return Item(item_id, group, context, tuple(json.loads(responses)), original)


def dump_text_item(item: TextItem) -> tuple[str, str, str, str | None, str]:
    """An input with people's texts as the columns of an item; its turns are a JSON list.

    >>> dump_text_item(TextItem("1", "g", ("Hi?",), ("Yes.", "No.")))
    ('1', 'g', '["Hi?"]', None, '["Yes.","No."]')
    """
    return item.id, item.group, dump(item.input), item.original, dump(item.references)


def load_text_item(
    item_id: str, group: str, turns: str, original: str | None, references: str
) -> TextItem:
    """The input that `dump_text_item` wrote.

    >>> load_text_item("1", "g", '["Hi?"]', None, '["Yes."]').input
    ('Hi?',)
    """
    texts = tuple(json.loads(references))
    return TextItem(item_id, group, tuple(json.loads(turns)), texts, original)


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
