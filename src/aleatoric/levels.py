"""A saved run by its level: each level scores and sums up in its own way."""

from __future__ import annotations

from typing import Any

from aleatoric import pipeline, token_pipeline
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.progress import Track, quietly
from aleatoric.store import Store
from aleatoric.types import Result


def level_of(store: Store) -> str:
    """What a run measures: word or token."""
    level: str = store.manifest["level"]
    return level


def score(store: Store, track: Track[Any] = quietly, again: bool = True) -> None:
    """Compute the statistics of a run that need computing; `again` even where they are there.

    The sums of tokens are a run's statistics already.
    """
    if level_of(store) == "word" and (again or not store.has_stats()):
        pipeline.score_word(store, track)


def results(store: Store, interval: str = DEFAULT_METHOD) -> list[Result]:
    """Every system's metrics, from the saved statistics alone; `interval` names their method."""
    if level_of(store) == "token":
        return token_pipeline.results(store, interval)
    return pipeline.results(store, interval)


def notes(store: Store) -> list[str]:
    """What a reader of the numbers should know."""
    return token_pipeline.notes(store) if level_of(store) == "token" else pipeline.notes(store)
