"""What pages show, as plain data: figures with their captions, items with both sides' answers."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aleatoric.reporting.tables import Column, printable, short
from aleatoric.studies.figure_data import Boxes, Picture, Scatter, dump_pictures
from aleatoric.types import FAILED, Case, Categorical

MOST_POINTS = 4000
"""The most points of a scatter plot that are drawn; larger ones are thinned evenly."""


def to_json(data: Any) -> str:
    """Return JSON for a script element; no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def to_data(picture: Picture) -> dict[str, Any]:
    """Return a picture as plain data with its kind."""
    if isinstance(picture, Boxes):
        samples = {name: np.asarray(sample, np.float64) for name, sample in picture.values.items()}
        boxes = {printable(name): _box(sample) for name, sample in samples.items()}
        return {**_plain(dump_pictures(replace(picture, values={}))), "boxes": boxes}
    if isinstance(picture, Scatter):
        every = -(-len(picture.x) // MOST_POINTS) or 1
        picture = replace(picture, x=picture.x[::every], y=picture.y[::every])
    data: dict[str, Any] = _plain(dump_pictures(picture))
    return data


def _plain(value: Any) -> Any:
    """Return dumped figures with printable texts; numbers of curves and points are rounded.

    Few numbers are not: the page prints them, and rounding twice may change the last digit.
    """
    if isinstance(value, Mapping):
        return {printable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        is_long = len(value) > MOST_PRINTED
        return [short(x) if is_long and isinstance(x, float) else _plain(x) for x in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return printable(value) if isinstance(value, str) else value


def _box(sample: Any) -> dict[str, Any]:
    """Return the number of values, the quartiles and the ends of the whiskers."""
    if not len(sample):
        return {"n": 0}
    low, middle, high = (float(q) for q in np.quantile(sample, [0.25, 0.5, 0.75]))
    # Quartiles of values that are equal up to rounding may lie beyond all of them.
    rounding = 1e-9 * float(np.abs(sample).max())
    reach = 1.5 * abs(high - low) + rounding
    within = sample[(sample >= low - reach) & (sample <= high + reach)]
    ends = [short(float(end)) for end in (within.min(), within.max())]
    return {"n": len(sample), "ends": ends, "quartiles": [short(q) for q in (low, middle, high)]}


MOST_PRINTED = 40
"""Numbers of a list in a figure of which the page may print each."""
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
    names: Mapping[int, str] = field(default_factory=dict)
    """Of a label: the names of its codes. Labels are computed, not saved."""

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
    model, of_people = case.pair.model, _likeliest(case.pair.human, MOST_PEOPLE_WORDS)
    shared = [word for word in of_people if word in model.as_dict()]
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
