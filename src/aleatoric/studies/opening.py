"""Run a study of a saved run, on one of its systems."""

from __future__ import annotations

from typing import Any

from aleatoric.errors import UsageError
from aleatoric.levels.base import level_of
from aleatoric.registry import Track, quietly
from aleatoric.runs import Store
from aleatoric.types import Study


def run_study(
    store: Store, name: str, system: str | None = None, track: Track[Any] = quietly
) -> Study:
    """Run the study `name` on a system of a run; by default on its only one."""
    level = level_of(store)
    known = level.model_systems(store)
    if not known:
        fix = f"give --model to aleatoric {level.name}"
        raise UsageError(f"{store.path}: has no model to study; {fix}.")
    if system is None and len(known) > 1:
        raise UsageError(f"{store.path}: name one system with --system: {', '.join(known)}.")
    chosen = system or known[0]
    if chosen not in known:
        listed = ", ".join(known)
        raise UsageError(f"{store.path}: has no model {chosen!r} to study; its models: {listed}.")
    return level.study(store, name, chosen, track)
