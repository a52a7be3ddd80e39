"""Temperature scaling as a baseline: the temperature with the lowest squared distance, per fold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from aleatoric.errors import UsageError
from aleatoric.metrics.agreement import sq_distance
from aleatoric.metrics.entropy import log_loss
from aleatoric.models.base import Ask, WordModel
from aleatoric.training.folds import Fold
from aleatoric.types import Item
from aleatoric.words.scoring import pair_of

GRID = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
SCORES = ("sq_distance", "log_loss")
"""The two proper scores of a temperature; the first one chooses."""
Scores = Mapping[str, Mapping[str, float]]
"""Score -> item id -> value."""


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Temperatures by commas.

    >>> parse_temperatures("0.8, 1")
    (0.8, 1.0)
    """
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if not found:
        raise UsageError(f"--temperatures {text!r}: use numbers above 0 by commas, as 0.8,1,1.2.")
    check_temperatures(found)
    return found


def check_temperatures(values: Sequence[float]) -> None:
    """Refuse what is no temperature.

    >>> check_temperatures((0.8, 1.0))
    """
    for value in values:
        if not 0 < value < float("inf"):
            raise UsageError(f"--temperatures {value:g}: use numbers above 0, as 0.8,1,1.2.")


def scores(model: WordModel, items: Sequence[Item], temperature: float, ask: Ask) -> Scores:
    """The squared distance and the log loss of each item at a temperature."""
    by_id = {item.id: item for item in items}
    found: dict[str, dict[str, float]] = {name: {} for name in SCORES}
    for draws in model.draws(items, replace(ask, decoder=f"temperature={temperature:g}")):
        for pair in pair_of(by_id[draws.item_id], [draws], ask.choices):
            values = sq_distance(pair), log_loss(pair.human, pair.model)
            for name, value in zip(SCORES, values, strict=True):
                found[name][draws.item_id] = math.inf if value is None else value
    return found


def best_temperature(fold: Fold, found: Mapping[float, Scores], score: str = SCORES[0]) -> float:
    """The temperature with the lowest mean score over the fold's training passages."""
    ids = [item.id for passage in fold.train for item in passage.items]
    return min(found, key=lambda value: sum(found[value][score].get(i, 0.0) for i in ids))
