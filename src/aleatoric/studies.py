"""Studies of a saved run: which one, on which system."""

from __future__ import annotations

from typing import Any

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.pipeline import cases, model_systems
from aleatoric.progress import Track, quietly
from aleatoric.store import Store
from aleatoric.types import Study


def run_study(
    store: Store, name: str, system: str | None = None, track: Track[Any] = quietly
) -> Study:
    """Run the study `name` on a system of a run; on the only one where none is named."""
    chosen = system or _only_system(store)
    if chosen not in model_systems(store):
        known = ", ".join(model_systems(store)) or "none"
        raise UsageError(f"{store.path}: has no model {chosen!r} to study; its models: {known}.")
    run = registry.find("analyses", name)
    found = list(track(cases(store, chosen), store.n_items, f"{name} of {chosen}"))
    study: Study = run(found, store.manifest["seed"])
    return study


def _only_system(store: Store) -> str:
    systems = model_systems(store)
    if not systems:
        raise UsageError(f"{store.path}: has no model to study; give --model to aleatoric word.")
    if len(systems) != 1:
        raise UsageError(f"{store.path}: name one system with --system: {', '.join(systems)}.")
    return systems[0]
