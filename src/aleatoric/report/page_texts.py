"""What the page of a text-level run shows of single inputs: lists of both ends, and their texts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aleatoric import text_pipeline
from aleatoric.analyses.fit import Fit, Side, TextCase, fit
from aleatoric.report.collect_texts import main_of, probes_of
from aleatoric.report.numbers import number
from aleatoric.report.tables import printable
from aleatoric.store import Store
from aleatoric.store.texts import Produced, TextShelf

N_LISTED = 3
INPUT_CHARS = 160
TEXT_CHARS = 4000
_SIDES: tuple[Side, ...] = ("C", "M")


@dataclass(frozen=True)
class Line:
    """An input in a list: where it stands and how it begins."""

    anchor: str
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


@dataclass(frozen=True)
class Instance:
    """One input with all its texts, safe to be shown."""

    anchor: str
    item: str
    turns: tuple[str, ...]
    people: tuple[str, ...]
    systems: Mapping[str, tuple[str, ...]]


def ends_of(store: Store) -> list[Ends]:
    """A list for every system, probe and side."""
    found: list[Ends] = []
    for system in text_pipeline.model_systems(store):
        cases = list(text_pipeline.cases(store, system))
        fits = (fit(cases, p, side, N_LISTED) for p in probes_of(store) for side in _SIDES)
        found.extend(_ends(system, one) for one in fits)
    return found


def listed(ends: Sequence[Ends]) -> dict[str, str | None]:
    """Every listed input once, with the system by which it was listed first."""
    found: dict[str, str | None] = {}
    for end in ends:
        for line in (*end.worst, *end.best):
            found.setdefault(line.item, end.system)
    return found


def drawn(ends: Sequence[Ends]) -> dict[str, str | None]:
    """The inputs whose distances are drawn: the first of each list by a main probe."""
    main = main_of([end.probe for end in ends])
    chosen = [end for end in ends if end.probe in main]
    return listed([replace(end, worst=end.worst[:1], best=end.best[:1]) for end in chosen])


def instances(store: Store, item_ids: Iterable[str]) -> Iterator[Instance]:
    """Inputs by id with their texts."""
    shelf = TextShelf(store)
    return (_instance(shelf.find(item_id)) for item_id in item_ids)


def _ends(system: str, found: Fit) -> Ends:
    worst, best = (tuple(_line(case, found) for case in end) for end in (found.worst, found.best))
    return Ends(system, found.probe, found.summary, worst, best)


def _line(case: TextCase, found: Fit) -> Line:
    w1_c, w1_m = (number(case.values.get(f"w1_{side}/{found.probe}")) for side in ("C", "M"))
    beginning = textwrap.shorten(" / ".join(case.item.input), INPUT_CHARS, placeholder="…")
    return Line(anchor_of(case.item.id), case.item.id, w1_c, w1_m, printable(beginning))


def anchor_of(item_id: str) -> str:
    """An input's place on the page: plain characters, whatever its id has.

    >>> anchor_of("a b")
    'input-612062'
    """
    return f"input-{item_id.encode('utf-8', 'surrogatepass').hex()}"


def _instance(found: Produced) -> Instance:
    return Instance(
        anchor_of(found.item.id),
        found.item.id,
        _safe(found.item.input),
        _safe(found.item.references),
        {name: _safe(texts) for name, texts in found.systems.items()},
    )


def _safe(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(printable(text[:TEXT_CHARS]) for text in texts)
