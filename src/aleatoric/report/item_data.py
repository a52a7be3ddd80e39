"""Items with the answers of both sides: what pages and lists show of them, as plain data."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aleatoric.report.tables import Column, printable
from aleatoric.types import FAILED, Case, Categorical

MOST_PEOPLE_WORDS = 60
MOST_MODEL_WORDS = 20
N_FIRST_WORDS = 5


@dataclass(frozen=True)
class Measure:
    """A number per item: a saved statistic with its heading and meaning."""

    key: str
    heading: str
    about: str
    stat: str = ""
    """The saved statistic; by default that of the key."""
    digits: int = 3

    @property
    def column(self) -> str:
        """The saved statistic that it shows."""
        return self.stat or self.key

    @property
    def probe(self) -> str:
        """The probe in the key, after the slash; empty if there is none."""
        return self.key.partition("/")[2]


@dataclass(frozen=True)
class ItemAnswers:
    """One item with the answers of people and of systems: distributions, or texts."""

    id: str
    group: str
    context: tuple[str, ...]
    """One text, or the turns of a dialogue."""
    original: str | None
    people: Categorical | tuple[str, ...] | None
    systems: Mapping[str, Categorical | tuple[str, ...]]


@dataclass(frozen=True)
class ItemList:
    """Items of one system that a page lists: their ids, then numbers and texts."""

    system: str
    summary: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def evenly_chosen(values: Iterable[Mapping[str, float | None]], most: int) -> set[str] | None:
    """Return the ids of an even choice over the order of distances; `None` if all fit."""
    highest: dict[str, float] = {}
    for by_item in values:
        for item_id, value in by_item.items():
            highest[item_id] = max(highest.get(item_id, 0.0), value or 0.0)
    if len(highest) <= most:
        return None
    ordered = sorted(highest, key=lambda item_id: -highest[item_id])
    step = (len(ordered) - 1) / (most - 1)
    return {ordered[round(i * step)] for i in range(most)}


def answer_name(answer: str) -> str:
    """Return how an answer is shown."""
    return "(no word)" if answer == FAILED else printable(answer)


def people_data(case: Case, numbers: dict[str, int], n_systems: int) -> dict[str, Any]:
    """Return an item and people's answers, with a placeholder per system."""
    item, human = case.item, case.pair.human
    return {
        "id": printable(item.id),
        "group": printable(item.group),
        "context": printable(item.context),
        "original": None if item.original is None else printable(item.original),
        "n": human.n,
        "words": _numbered(_likeliest(human, MOST_PEOPLE_WORDS), human, numbers),
        "systems": [None] * n_systems,
    }


def model_data(case: Case, numbers: dict[str, int]) -> dict[str, Any]:
    """Return the likeliest answers of a system, and those that people gave too."""
    human, model = case.pair.human, case.pair.model
    mass = model.as_dict()
    shared = [word for word in _likeliest(human, MOST_PEOPLE_WORDS) if word in mass]
    words = dict.fromkeys([*_likeliest(model, MOST_MODEL_WORDS), *shared])
    return {"n": model.n, "words": _numbered(words, model, numbers)}


def _likeliest(side: Categorical, most: int) -> list[str]:
    mass = side.as_dict()
    return heapq.nlargest(most, mass, key=lambda word: mass[word])


def _numbered(
    words: Iterable[str], side: Categorical, numbers: dict[str, int]
) -> list[float | int | None]:
    """Return number, share, number, share, ...: half the size of pairs."""
    mass = side.as_dict()
    numbered: list[float | int | None] = []
    for word in words:
        numbered += [numbers.setdefault(word, len(numbers)), round(mass[word], 4)]
    return numbered


def first_answers(side: Categorical) -> str:
    """Return the likeliest answers with their shares."""
    mass = side.as_dict()
    words = _likeliest(side, N_FIRST_WORDS)
    return ", ".join(f"{answer_name(word)[:40]} {mass[word]:.0%}" for word in words)
