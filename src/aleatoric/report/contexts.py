"""What the page of a text-level part shows of single inputs: both ends, and their texts."""

from __future__ import annotations

import heapq
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aleatoric.levels import text as text_pipeline
from aleatoric.levels import word as pipeline
from aleatoric.levels.text_fit import Fit, Side, TextCase, fit
from aleatoric.levels.text_scoring import CONTROL
from aleatoric.report.captions import short, shown, to_data
from aleatoric.report.data import instance_panels, main_of, probes_of
from aleatoric.report.parts import Member, Part
from aleatoric.report.tables import number
from aleatoric.runs.run import StoredTexts
from aleatoric.studies.figure_data import Panels
from aleatoric.types import FAILED, Case, Categorical

N_LISTED = 3
INPUT_CHARS = 160
TEXT_CHARS = 20_000
MOST_CHARS = 4_000_000
"""So many characters of texts fit a page; inputs at both ends of the lists come first."""
MOST_DRAWN = 40
"""Of so many inputs, those at the ends of the lists, distances are computed again and drawn."""
_SIDES: tuple[Side, ...] = ("C", "M")
_OF_PEOPLE = ("mean_H",)
_OF_SYSTEMS = ("energy", "mean_M", "mean_C", "w1_M", "w1_C")
Numbers = dict[str, dict[str, list[float | None]]]


@dataclass(frozen=True)
class Line:
    """An input in a list: its id, its divergences and how it begins."""

    item: str
    w1_C: str  # noqa: N815 - the metric's own name
    w1_M: str  # noqa: N815
    beginning: str


@dataclass(frozen=True)
class Ends:
    """The worst and best fitted inputs of a system by a probe."""

    system: str
    probe: str
    summary: str
    worst: tuple[Line, ...]
    best: tuple[Line, ...]


def ends_of(part: Part) -> list[Ends]:
    """A list for every system, probe and side."""
    found: list[Ends] = []
    for member in part.members:
        cases = list(text_pipeline.cases(member.store, member.system))
        probes = probes_of(part.first)
        fits = (fit(cases, probe, side, N_LISTED) for probe in probes for side in _SIDES)
        found.extend(_ends(member.label, one) for one in fits)
    return found


def listed(ends: Sequence[Ends]) -> dict[str, str]:
    """Every listed input once, with the system by which it was listed first."""
    found: dict[str, str] = {}
    for end in ends:
        for line in (*end.worst, *end.best):
            found.setdefault(line.item, end.system)
    return found


def drawn(ends: Sequence[Ends]) -> dict[str, str]:
    """The inputs whose distances are drawn: the first of each list by a main probe."""
    main = main_of([end.probe for end in ends])
    chosen = [end for end in ends if end.probe in main]
    return listed([replace(end, worst=end.worst[:1], best=end.best[:1]) for end in chosen])


def inputs_data(
    part: Part, ends: Sequence[Ends], asked: Sequence[str] = (), most: int = MOST_CHARS
) -> dict[str, Any]:
    """Inputs with all their texts and numbers: those asked for, or as many as fit."""
    chosen = dict.fromkeys(asked) if asked else _that_fit(part, listed(ends), most)
    values = {name: _numbers(part, name) for name in (CONTROL, *_labels(part))}
    pictures = {item_id: (place, one) for item_id, place, one in _pictures(part, asked, ends)}
    items = [_text_item(part, item_id, values, *pictures.get(item_id, _NONE)) for item_id in chosen]
    return {
        "kind": "text",
        "systems": [shown(label) for label in _labels(part)],
        "probes": probes_of(part.first),
        "items": items,
        "total": part.first.n_items,
    }


def _labels(part: Part) -> list[str]:
    return [member.label for member in part.members]


def _that_fit(part: Part, first: Iterable[str], most: int) -> dict[str, None]:
    """The ids of the inputs whose texts fit together, those to come first before all others."""
    sizes = _sizes(part)
    chosen: dict[str, None] = {}
    for item_id in dict.fromkeys([*first, *sizes]):
        most -= sizes[item_id]
        if most < 0 and chosen:
            break
        chosen[item_id] = None
    # On the page they stand in the order of the corpus.
    return {item_id: None for item_id in sizes if item_id in chosen}


def _sizes(part: Part) -> dict[str, int]:
    found: dict[str, int] = {}
    for store in part.stores:
        for one in StoredTexts(store).walk():
            sides = [one.item.references, *one.systems.values()]
            size = sum(min(len(text), TEXT_CHARS) for side in sides for text in side)
            found[one.item.id] = found.get(one.item.id, 0) + size
    return found


def _numbers(part: Part, label: str) -> Numbers:
    """Item -> statistic -> its values by probe."""
    where = {m.label: (m.store, m.system) for m in part.members}
    store, system = where.get(label, (part.first, CONTROL))
    probes = probes_of(part.first)
    saved = set(store.stat_columns())
    found: Numbers = {}
    for name in _OF_PEOPLE if label == CONTROL else _OF_SYSTEMS:
        for i, probe in enumerate(probes):
            if f"{name}/{probe}" not in saved:
                continue
            for row in store.rows(system, f"{name}/{probe}"):
                own = found.setdefault(row.item_id, {}).setdefault(name, [None] * len(probes))
                own[i] = short(row.value)
    return found


_NONE: tuple[int | None, Panels | None] = (None, None)


def _pictures(
    part: Part, asked: Sequence[str], ends: Sequence[Ends]
) -> Iterator[tuple[str, int | None, Panels]]:
    """Distances of single inputs, with the place of the system that each is listed for."""
    labels = _labels(part)
    wanted: dict[str, int | None] = {i: labels.index(name) for i, name in drawn(ends).items()}
    if asked:
        wanted = dict.fromkeys(asked, 0 if labels else None)
    for item_id, place in list(wanted.items())[:MOST_DRAWN]:
        member = None if place is None else part.members[place]
        store, system = (member.store, member.system) if member else (part.first, None)
        for _, panels in instance_panels(store, {item_id: system}):
            yield item_id, place, panels


def _text_item(
    part: Part,
    item_id: str,
    values: Mapping[str, Numbers],
    pictured: int | None,
    picture: Panels | None,
) -> dict[str, Any]:
    found = StoredTexts(part.first).find(item_id)
    systems = []
    for member in part.members:
        own = StoredTexts(member.store).find(item_id).systems.get(member.system)
        systems.append(None if own is None else _safe(own))
    return {
        "id": shown(item_id),
        "group": shown(found.item.group),
        "input": _safe(found.item.input),
        "people": _safe(found.item.references),
        "systems": systems,
        "numbers": [values[name].get(item_id, {}) for name in (CONTROL, *_labels(part))],
        "pictured": pictured,
        "picture": None if picture is None else to_data(picture),
    }


def _ends(system: str, found: Fit) -> Ends:
    worst, best = (tuple(_line(case, found) for case in end) for end in (found.worst, found.best))
    return Ends(system, found.probe, found.summary, worst, best)


def _line(case: TextCase, found: Fit) -> Line:
    w1_c, w1_m = (number(case.values.get(f"w1_{side}/{found.probe}")) for side in ("C", "M"))
    beginning = textwrap.shorten(" / ".join(case.item.input), INPUT_CHARS, placeholder="…")
    return Line(case.item.id, w1_c, w1_m, beginning)


def _safe(texts: Iterable[str]) -> list[str]:
    return [shown(_cut(text)) for text in texts]


def _cut(text: str) -> str:
    """A text as far as it fits, with how much is left out.

    >>> _cut("a" * 20_007)[-22:]
    'a… (7 more characters)'
    """
    over = len(text) - TEXT_CHARS
    return text if over <= 0 else f"{text[:TEXT_CHARS]}… ({over} more characters)"


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
            row = items.setdefault(case.item.id, _word_item(case, numbers, len(part.members)))
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


def _word_item(case: Case, numbers: dict[str, int], n_systems: int) -> dict[str, Any]:
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
