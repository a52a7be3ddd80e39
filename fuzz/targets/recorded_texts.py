"""A generator's recorded texts."""

from __future__ import annotations

from aleatoric.models.base import Writing
from aleatoric.models.recorded import load_texts
from aleatoric.types import TextItem
from fuzz.trial import read_all, refusals, written

SEEDS = (
    b'{"id": 1, "texts": ["Hi.", null, "Yes."]}\n{"id": 2, "generations": ["a"]}\n',
    b'{"id": 1, "system": "a", "texts": ["Hi."]}\n{"id": 1, "system": "b", "texts": []}\n',
)
TOKENS = (b'"id"', b'"texts"', b'"generations"', b'"system"', b"null")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "m.jsonl")
    items = [TextItem(name, name, ("Hi?",), ("a", "b")) for name in ("1", "2")]
    for chosen in ("", "?system=a"):
        with refusals():
            model = load_texts(f"{path}{chosen}")
            read_all(model.write(items, Writing()))
            read_all(model.notes())
