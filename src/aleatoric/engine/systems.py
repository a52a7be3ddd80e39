"""The systems of a run that draws or writes item by item: their names, and notes on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from aleatoric.errors import UsageError
from aleatoric.store import Store
from aleatoric.store.schema import ITEMS_SAVED

PLAIN = ("ancestral", "as recorded", "none")
"""Decoders that change nothing: every other one is part of a system's name."""


def system_name(
    store: Store, label: str, facts: Mapping[str, Any], several: bool, controls: Collection[str]
) -> str:
    """The name a system has in the run, or a new one that no other has.

    A decoder is part of it unless it is the only one and plain.
    """
    for name, known in store.systems().items():
        if known == facts:
            return name
    decoded = several or facts["decoder"] not in PLAIN
    short = f"{label} {facts['decoder']}" if decoded else label
    taken = (*store.systems(), *controls)
    return short if short not in taken else f"{facts['model']} {facts['decoder']}"


def check_version(store: Store, spec: str, version: str) -> None:
    """Refuse a model that is not the one whose answers the run holds."""
    content = (store.manifest.get("contents") or {}).get(spec, version)[:12]
    models = [facts["model"].rpartition("@") for facts in store.systems().values()]
    others = [held for known, _, held in models if known == spec and held != version]
    if others or not version.startswith(content):
        raise UsageError(
            f"{spec}: is not the model that the run began with ({[*others, content][0]} then, "
            f"{version} now); restore it, or start a new run."
        )


def saved_notes(store: Store) -> list[str]:
    """What was noted while items were read and answered."""
    found: list[str] = store.meta("notes") or []
    return found


def lost_notes(store: Store) -> Iterator[str]:
    """What a salvaged run lacks of its corpus, until it is resumed."""
    n_saved = store.meta(ITEMS_SAVED) or 0
    if n_saved > store.n_items:
        yield (
            f"warning: {n_saved - store.n_items} of {n_saved} items were lost when this run was "
            "damaged, and every number is about the others; resume it to ask for them again"
        )


def add_notes(store: Store, found: Iterable[str]) -> None:
    """Save notes that the run has not."""
    saved = saved_notes(store)
    store.set_meta("notes", [*saved, *(note for note in found if note not in saved)])
