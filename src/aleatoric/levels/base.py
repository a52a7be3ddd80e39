"""A saved run by its level: each level scores and sums up in its own way."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.probes.base import disallowed_probes
from aleatoric.registry import Track, quietly
from aleatoric.runs import Store
from aleatoric.types import Results

FINETUNE = "finetune"
"""The command whose runs of the word level have curves too."""


def is_finetuned(store: Store) -> bool:
    """Whether a run is one of `aleatoric finetune`."""
    return bool(store.manifest.get("command") == FINETUNE)


def level_of(store: Store) -> str:
    """What a run measures: word, token or text."""
    level: str = store.manifest["level"]
    return level


def score(
    store: Store, track: Track[Any] = quietly, again: bool = True, said: Collection[str] = ()
) -> None:
    """Compute the statistics of a run that need computing; `again` even where they are there.

    The sums of tokens are a run's statistics already. Probes that are code run where they are
    `said`: without, those statistics stay that are there.
    """
    scorer = _scorer(level_of(store), said)
    again = again and not unsaid_probes(store, said)
    if scorer is not None and (again or not store.has_stats()):
        with store.alone():
            scorer(store, track)


def unsaid_probes(store: Store, said: Collection[str]) -> list[str]:
    """The functions that a run names and nobody here: they are not called."""
    return disallowed_probes(store.manifest.get("probes") or (), said)


def results(
    store: Store, interval: str = DEFAULT_METHOD, systems: Collection[str] | None = None
) -> Results:
    """The metrics of all systems or of some, from the saved statistics alone.

    `interval` names the method of the intervals.
    """
    found: Results = _pipeline(level_of(store)).results(store, interval, systems)
    return found


def notes(store: Store) -> list[str]:
    """What a reader of the numbers should know."""
    found: list[str] = _pipeline(level_of(store)).notes(store)
    return found


def _scorer(level: str, said: Collection[str]) -> Callable[[Store, Track[Any]], None] | None:
    if level == "token":
        return None
    pipeline = _pipeline(level)
    scorer: Callable[[Store, Track[Any]], None]
    scorer = pipeline.score_word if level == "word" else partial(pipeline.score_text, said=said)
    return scorer


def _pipeline(level: str) -> Any:
    """The module of a level; to import those of the others takes as long as many items' scores."""
    if level == "word":
        from aleatoric.levels import word as pipeline

        return pipeline
    if level == "text":
        from aleatoric.levels import text

        return text
    from aleatoric.levels import token

    return token
