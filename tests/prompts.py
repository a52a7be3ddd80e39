"""Contexts without answers, to draw words from."""

from __future__ import annotations

from aleatoric.types import Item


def prompt(item_id: str, context: str) -> Item:
    """The item of a context, without people's answers."""
    return Item(item_id, "", context, ())
