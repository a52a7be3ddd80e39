"""A run as arrays, taken at one moment: what every page sorts, filters and draws from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from aleatoric.codec import load_texts
from aleatoric.engine.text_scoring import CONTROL
from aleatoric.levels import level_of
from aleatoric.store import Store
from aleatoric.store.reading import StatColumns, item_heads, stat_columns
from aleatoric.types import Floats, Ints
from aleatoric.viewer.measures import Measure, text_measures, word_measures
from aleatoric.viewer.search import TextIndex
from aleatoric.words.scoring import CONTROLS


@dataclass(frozen=True)
class Items:
    """Every item: its number in the run, its group, and its context to be searched."""

    numbers: Ints
    groups: tuple[str, ...]
    group_of: Ints
    """The place of each item's group among `groups`."""
    texts: TextIndex

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Columns:
    """One system's measures; a row an item, or several where repeated rows stay separate."""

    name: str
    places: Ints
    """Where each row's item stands among the items."""
    values: Mapping[str, Floats]

    def mean(self, key: str) -> float | None:
        """The mean of a measure over the items that have it."""
        own = self.values.get(key, np.zeros(0))
        known = own[np.isfinite(own)]
        return float(known.mean()) if len(known) else None


@dataclass(frozen=True)
class Snapshot:
    """All that pages need of a run but its texts and draws."""

    version: tuple[int, ...]
    level: str
    corpus: str
    corpus_sha256: str
    items: Items
    systems: Mapping[str, Columns]
    """Those that have been scored; empty before."""
    measures: tuple[Measure, ...] = ()
    tagger: str | None = None
    """What tags words, where the run was asked for it."""
    probes: tuple[str, ...] = ()

    def measure(self, key: str) -> Measure | None:
        """A measure by its key."""
        return next((one for one in self.measures if one.key == key), None)

    @property
    def everything(self) -> Columns:
        """The items alone, as they come in the corpus: what an unscored run can show."""
        return Columns("", np.arange(len(self.items)), {})


def take(store: Store, version: tuple[int, ...], earlier: Snapshot | None = None) -> Snapshot:
    """Read a run as it is now; the items of an earlier look are taken over where they are all."""
    level, manifest = level_of(store), store.manifest
    whole = earlier is not None and len(earlier.items) == store.n_items
    items = earlier.items if earlier is not None and whole else _items(store, level)
    saved = store.stat_columns() if level != "token" and store.has_stats() else []
    probes = tuple(store.meta("probe_facts") or ()) if level == "text" else ()
    measures = text_measures(saved, probes) if level == "text" else word_measures(saved)
    names = list(store.systems()) if saved else []
    return Snapshot(
        version=version,
        level=level,
        corpus=manifest["corpus"]["name"],
        corpus_sha256=manifest["corpus"]["sha256"],
        items=items,
        systems={name: _columns(store, name, measures, items) for name in names},
        measures=measures,
        tagger=manifest["tagger"] if "tvd_syn" in manifest.get("abstractions", ()) else None,
        probes=probes,
    )


def model_names(store: Store) -> list[str]:
    """The systems of a run of any level that are models, not controls."""
    return [name for name in store.systems() if not is_control(name)]


def is_control(name: str) -> bool:
    """Whether a system is people's control, not a model.

    >>> is_control("oracle"), is_control("gpt2")
    (True, False)
    """
    return name in (CONTROL, *CONTROLS)


def _items(store: Store, level: str) -> Items:
    plain: Callable[[str], str] = in_one_line if level == "text" else str
    numbers, groups, texts = [], [], []
    for no, item_id, group, context in item_heads(store):
        numbers.append(no)
        groups.append(group)
        texts.append(f"{item_id} {plain(context)}")
    names = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    codes = np.array([names[group] for group in groups], dtype=np.int64)
    return Items(np.array(numbers, dtype=np.int64), tuple(names), codes, TextIndex.of(texts))


def in_one_line(turns: str) -> str:
    """The saved turns of an input, one after the other.

    >>> in_one_line('["How?", "So."]')
    'How? / So.'
    """
    return " / ".join(load_texts(turns))


def _columns(store: Store, system: str, measures: tuple[Measure, ...], items: Items) -> Columns:
    wanted = list(dict.fromkeys(stat for one in measures for stat in one.stats))
    if not wanted:
        return Columns(system, np.zeros(0, dtype=np.int64), {})
    found = stat_columns(store, system, wanted)
    places = np.searchsorted(items.numbers, found.items)
    return Columns(system, places, {one.key: _values(found, one) for one in measures})


def _values(found: StatColumns, measure: Measure) -> Floats:
    own = found.values[measure.stat]
    return own if measure.less is None else own - found.values[measure.less]
