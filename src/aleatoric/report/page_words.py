"""What the page of a word-level part shows of single contexts: every one that fits, with words."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aleatoric import pipeline
from aleatoric.report.numbers import number
from aleatoric.report.parts import Member, Part
from aleatoric.report.serial import short, shown
from aleatoric.types import FAILED, Case, Categorical

MOST_CONTEXTS = 4000
"""So many contexts fit a page; of more, both ends and an even choice between them."""
MOST_PEOPLE_WORDS = 60
MOST_MODEL_WORDS = 20
N_WORST = 10
N_FIRST_WORDS = 5
CONTEXT_CHARS = 160
Values = Mapping[str, float | None]


def contexts(part: Part, most: int = MOST_CONTEXTS) -> dict[str, Any]:
    """People's and every system's words by context, words as numbers of one common list.

    A system's words are its likeliest and those that people said; what is left of either side is
    its share of other words.
    """
    numbers: dict[str, int] = {}
    tvds = {m.label: _by_item(m, "tvd") for m in part.members}
    chosen = _chosen(tvds.values(), most)
    items: dict[str, dict[str, Any]] = {}
    for place, member in enumerate(part.members):
        squares = _by_item(member, "sq_distance")
        for case in _cases(member, chosen):
            row = items.setdefault(case.item.id, _item(case, numbers, len(part.members)))
            row["systems"][place] = _system(case, tvds[member.label], squares, numbers)
    total = len({item_id for own in tvds.values() for item_id in own})
    return {
        "kind": "word",
        "systems": [shown(member.label) for member in part.members],
        "words": ["(no word)" if word == FAILED else shown(word) for word in numbers],
        "items": list(items.values()),
        "total": total,
    }


def worst(part: Part) -> list[dict[str, Any]]:
    """By system the contexts with the highest TVD, with the first words of both sides."""
    return [_worst(member) for member in part.members]


def _chosen(tvds: Iterable[Values], most: int) -> set[str] | None:
    """The ids of an even choice over the order of distances; none where all fit."""
    highest: dict[str, float] = {}
    for own in tvds:
        for item_id, value in own.items():
            highest[item_id] = max(highest.get(item_id, 0.0), value or 0.0)
    if len(highest) <= most:
        return None
    ordered = sorted(highest, key=lambda item_id: -highest[item_id])
    step = (len(ordered) - 1) / (most - 1)
    return {ordered[round(i * step)] for i in range(most)}


def _cases(member: Member, chosen: set[str] | None) -> Iterator[Case]:
    """A case an item: the first where a recording has several rows of it."""
    seen: set[str] = set()
    for case in pipeline.cases(member.store, member.system):
        if case.item.id not in seen and (chosen is None or case.item.id in chosen):
            seen.add(case.item.id)
            yield case


def _by_item(member: Member, column: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for row in member.store.rows(member.system, column):
        found.setdefault(row.item_id, row.value)
    return found


def _item(case: Case, numbers: dict[str, int], n_systems: int) -> dict[str, Any]:
    item, human = case.item, case.pair.human
    return {
        "id": shown(item.id),
        "group": shown(item.group),
        "context": shown(item.context),
        "original": None if item.original is None else shown(item.original),
        "n": human.n,
        "words": _numbered(_likeliest(human, MOST_PEOPLE_WORDS), human, numbers),
        "systems": [None] * n_systems,
    }


def _system(case: Case, tvds: Values, squares: Values, numbers: dict[str, int]) -> dict[str, Any]:
    human, model = case.pair.human, case.pair.model
    known = model.as_dict()
    said = [word for word in _likeliest(human, MOST_PEOPLE_WORDS) if word in known]
    words = dict.fromkeys([*_likeliest(model, MOST_MODEL_WORDS), *said])
    value, square = tvds.get(case.item.id), squares.get(case.item.id)
    own = {"tvd": short(value), "sq_distance": short(square), "n": model.n}
    return {**own, "words": _numbered(words, model, numbers)}


def _likeliest(side: Categorical, most: int) -> list[str]:
    mass = side.as_dict()
    return heapq.nlargest(most, mass, key=lambda word: mass[word])


def _numbered(
    words: Iterable[str], side: Categorical, numbers: dict[str, int]
) -> list[float | int | None]:
    """Number, share, number, share, ...: half the size of pairs."""
    mass = side.as_dict()
    found: list[float | int | None] = []
    for word in words:
        found += [numbers.setdefault(word, len(numbers)), round(mass[word], 4)]
    return found


def _worst(member: Member) -> dict[str, Any]:
    values = {k: v for k, v in _by_item(member, "tvd").items() if v is not None}
    chosen = set(heapq.nlargest(N_WORST, values, key=lambda item_id: values[item_id]))
    ordered = sorted(_cases(member, chosen), key=lambda case: -values[case.item.id])
    return {"system": member.label, "rows": [_row(c, values[c.item.id]) for c in ordered]}


def _row(case: Case, tvd: float) -> dict[str, str]:
    context = case.item.context
    cut = "…" + context[-CONTEXT_CHARS:] if len(context) > CONTEXT_CHARS else context
    return {
        "item": case.item.id,
        "tvd": number(tvd),
        "context": cut,
        "people": _first_words(case.pair.human),
        "model": _first_words(case.pair.model),
    }


def _first_words(side: Categorical) -> str:
    mass = side.as_dict()
    return ", ".join(f"{_word(w)} {mass[w]:.0%}" for w in _likeliest(side, N_FIRST_WORDS))


def _word(word: str) -> str:
    return "(no word)" if word == FAILED else word[:40]
