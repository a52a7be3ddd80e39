"""A saved run by its level: each level scores and sums up in its own way."""

from __future__ import annotations

from typing import Any

from aleatoric import pipeline, text_pipeline, token_pipeline
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.progress import Track, quietly
from aleatoric.store import Store
from aleatoric.types import Results

_LEVELS: dict[str, Any] = {"word": pipeline, "token": token_pipeline, "text": text_pipeline}


def level_of(store: Store) -> str:
    """What a run measures: word, token or text."""
    level: str = store.manifest["level"]
    return level


def score(store: Store, track: Track[Any] = quietly, again: bool = True) -> None:
    """Compute the statistics of a run that need computing; `again` even where they are there.

    The sums of tokens are a run's statistics already.
    """
    scorers = {"word": pipeline.score_word, "text": text_pipeline.score_text}
    scorer = scorers.get(level_of(store))
    if scorer is not None and (again or not store.has_stats()):
        with store.alone():
            scorer(store, track)


def results(store: Store, interval: str = DEFAULT_METHOD) -> Results:
    """Every system's metrics, from the saved statistics alone; `interval` names their method."""
    found: Results = _LEVELS[level_of(store)].results(store, interval)
    return found


def notes(store: Store) -> list[str]:
    """What a reader of the numbers should know."""
    found: list[str] = _LEVELS[level_of(store)].notes(store)
    return found
