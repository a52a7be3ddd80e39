"""Temperature scaling as a baseline: the temperature with the least expected TVD, fold by fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aleatoric.decoding import Decoder
from aleatoric.errors import UsageError
from aleatoric.training.folds import Fold
from aleatoric.types import Item
from aleatoric.words.exact import Search, exact
from aleatoric.words.lm import TreeLM
from aleatoric.words.vocabulary import Vocabulary

GRID = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
Distances = Mapping[str, float]
"""Item id -> its distance from people."""


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


def distances(
    lm: TreeLM, items: Sequence[Item], temperature: float, search: Search, vocabulary: Vocabulary
) -> dict[str, float]:
    """Each item's total variation distance between people and the model at a temperature."""
    from aleatoric.training.soft_labels import question_of  # needs torch

    questions = [question_of(item) for item in items]
    decoder = Decoder(temperature=temperature)
    found = exact(lm, questions, decoder=decoder, search=search, vocabulary=vocabulary)
    people = [dict(zip(q.words, q.weights or (), strict=True)) for q in questions]
    values = [own.tvd(human).value for own, human in zip(found, people, strict=True)]
    return {item.id: value for item, value in zip(items, values, strict=True)}


def best_temperature(fold: Fold, found: Mapping[float, Distances]) -> float:
    """The temperature whose mean distance over the fold's training passages is least."""
    ids = [item.id for passage in fold.train for item in passage.items]
    return min(found, key=lambda value: sum(found[value][item_id] for item_id in ids))
