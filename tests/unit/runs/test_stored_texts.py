"""Texts stored in a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aleatoric.errors import UsageError
from aleatoric.runs.run import TEXTS_PAGE, EmbeddingCache, Store, StoredTexts
from aleatoric.types import TextItem, Texts

HOSTILE = "\x00<script>\ud800 'é\" --\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "run", {"level": "text"}) as made:
        yield made


def item(name: object, *references: str) -> TextItem:
    return TextItem(str(name), "g", ("Hi?", "Who?"), references or ("a", "b"), "o")


def test_inputs_round_trip(store: Store) -> None:
    shelf = StoredTexts(store)
    items = [item(n, f"a {n}", "é") for n in range(TEXTS_PAGE + 3)]
    assert shelf.store.add_items(items) == len(items)
    assert [found.item for found in shelf.walk()] == items


def test_texts_are_saved_incrementally_and_matched_by_id(store: Store) -> None:
    shelf = StoredTexts(store)
    shelf.store.add_items([item(1), item(2)])
    store.add_system("m", {})
    store.add_system("n", {})
    assert shelf.add("m", Texts("2", ("x", "")))
    assert shelf.add("m", Texts("2", ("y",)))
    assert shelf.add("n", Texts("2", ("z",)))
    assert not shelf.add("m", Texts("3", ("x",)))
    assert shelf.find("2").systems == {"m": ("x", "", "y"), "n": ("z",)}
    assert [found.id for found in shelf.pending_items("m")] == ["1"]
    with pytest.raises(UsageError, match="no input '3'"):
        shelf.find("3")


def test_hostile_texts_round_trip(store: Store) -> None:
    shelf = StoredTexts(store)
    hostile = HOSTILE.replace("\ud800", "")
    shelf.store.add_items([item(hostile, hostile, "b")])
    store.add_system("m", {})
    shelf.add("m", Texts(hostile, (hostile,)))
    found = shelf.find(hostile)
    assert found.item.references[0] == hostile
    assert found.systems["m"] == (hostile,)


def test_embeddings_are_kept_in_the_run(store: Store) -> None:
    EmbeddingCache(store).update({"a": b"12", "b": b"34"})
    again = EmbeddingCache(store)
    assert dict(again) == {"a": b"12", "b": b"34"}
    assert again.get("c") is None
    del again["a"]
    assert list(again) == ["b"]
