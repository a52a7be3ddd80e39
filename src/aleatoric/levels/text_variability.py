"""From the texts of inputs to statistics: do a system's texts vary as people's do?

Of an input with people's texts and a system's, H are the distances of people's texts two by two, M
those of the system's, and C those of every text of the system to every one of people. A system is
compared with people by the energy distance 2 mean C - mean M - mean H, and, as in the paper, by
divergences (as W1) of M and of C from H and by differences of means.
Undefined distances are left out and counted; a statistic of none is NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.estimate import at_level
from aleatoric.levels.text_protocol import lengths_differ
from aleatoric.metrics.distances import Divergence, counts, energy_distance, mean
from aleatoric.probes.base import Block, Probe
from aleatoric.rng import stream
from aleatoric.types import Estimate, Floats, Ints, Result

BATCH = 256
"""Inputs at a time: more do not fit in a core's cache, fewer leave an encoder's batches short."""
Stands = Callable[[Floats], Floats]
"""(inputs, pairs) -> what stands for people's distances when a system is compared with them."""


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """One input: what people wrote, and what each system wrote, in an order that all inputs share.

    >>> ScoredTexts("1", ("a", "b"), (("c",),)).block()
    Block(texts=('a', 'b', 'c'), sizes=(2, 1))
    """

    item_id: str
    people: tuple[str, ...]
    systems: tuple[tuple[str, ...], ...] = ()

    def block(self) -> Block:
        """Its texts as probes take them."""
        parts = (self.people, *self.systems)
        return Block(tuple(text for part in parts for text in part), tuple(map(len, parts)))


@dataclass(frozen=True)
class Group:
    """Inputs with the same numbers of texts: `rows` of the batch, and their distances.

    `distances` is (probes, inputs, texts, texts).
    """

    rows: Ints
    sizes: tuple[int, ...]
    distances: Floats

    def human(self) -> Floats:
        """H: (probes, inputs, pairs of people), pairs i < j in reading order."""
        return self._taken(_pairs(np.arange(self.sizes[0])))

    def model(self, system: int) -> Floats:
        """M: (probes, inputs, pairs of the system's texts)."""
        return self._taken(_pairs(self._texts_of(system)))

    def cross(self, system: int) -> Floats:
        """C: (probes, inputs, system's text x person's text)."""
        own, people = self._texts_of(system), np.arange(self.sizes[0])
        return self._taken((np.repeat(own, len(people)), np.tile(people, len(own))))

    def with_people(self, system: int) -> Floats:
        """(probes, inputs, texts, texts) of people and one system alone."""
        own = np.concatenate([np.arange(self.sizes[0]), self._texts_of(system)])
        found: Floats = self.distances[:, :, own[:, None], own]
        return found

    def _texts_of(self, system: int) -> Ints:
        start = sum(self.sizes[: system + 1])
        return np.arange(start, start + self.sizes[system + 1])

    def _taken(self, pairs: tuple[Ints, Ints]) -> Floats:
        n_probes, n_inputs, width, _ = self.distances.shape
        flat = self.distances.reshape(n_probes, n_inputs, width * width)
        found: Floats = flat.take(pairs[0] * width + pairs[1], axis=2)
        return found


@dataclass(frozen=True)
class Scores:
    """The statistics of a batch of inputs.

    `people` and, system by system, `systems` map a metric as mean_H/lexical-1 to its values by
    input. `undefined` counts, by system (people's under ""), the distances of an input that are
    undefined, under H/lexical-1, M/lexical-1, C/lexical-1. `groups` keep the distances.
    """

    item_ids: tuple[str, ...]
    people: Mapping[str, Floats]
    systems: Mapping[str, Mapping[str, Floats]]
    undefined: Mapping[str, Mapping[str, NDArray[np.int64]]]
    groups: tuple[Group, ...]


def stream_scores(
    items: Iterable[ScoredTexts],
    names: Sequence[str],
    probes: Sequence[Probe],
    divergences: Mapping[str, Divergence],
    batch: int = BATCH,
) -> Iterator[Scores]:
    """The statistics of any number of inputs, some at a time: memory does not grow with them.

    `names` are those of the systems, in the order in which the inputs have them.
    """
    walk = iter(items)
    while some := list(islice(walk, batch)):
        yield score_blocks(some, names, probes, divergences)


def score_blocks(
    items: Sequence[ScoredTexts],
    names: Sequence[str],
    probes: Sequence[Probe],
    divergences: Mapping[str, Divergence],
    stands: Stands = lambda distances: distances,
) -> Scores:
    """The statistics of these inputs, for every probe and every system of `names`.

    >>> from aleatoric.metrics.distances import w1
    >>> from aleatoric.probes.opening import open_probes
    >>> item = ScoredTexts("1", ("a b", "a c"), (("a b", "a b"),))
    >>> probes = open_probes(["lexical-1"], tokeniser="whitespace")
    >>> found = score_blocks([item], ["copier"], probes, {"w1": w1})
    >>> {metric: value.tolist() for metric, value in found.systems["copier"].items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'mean_H/lexical-1': [0.5], 'mean_M/lexical-1': [0.0], 'mean_C/lexical-1': [0.25],
     'energy/lexical-1': [0.0], 'w1_M/lexical-1': [0.5], 'dmu_M/lexical-1': [-0.5],
     'w1_C/lexical-1': [0.25], 'dmu_C/lexical-1': [-0.25]}
    """
    blocks = [item.block() for item in items]
    groups = tuple(grouped(blocks, probes))
    labels = [probe.name for probe in probes]
    table = _Table(labels, len(items))
    for group in groups:
        human = group.human()
        table.add("", group.rows, {"mean_H": _means(human)}, {"H": _missing(human)})
        for place, name in enumerate(names):
            found, missing = _system(group, place, human, divergences, stands)
            table.add(name, group.rows, found, missing)
    return table.scores(tuple(item.item_id for item in items), names, groups)


def grouped(blocks: Sequence[Block], probes: Sequence[Probe]) -> Iterator[Group]:
    """The distances of blocks, those of one shape together."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for row, block in enumerate(blocks):
        shapes.setdefault(block.sizes, []).append(row)
    # A probe sees the whole batch at once, whatever shapes it has: its encoder fills its batches.
    matrices = [probe.matrices(blocks) for probe in probes]
    for sizes, rows in shapes.items():
        shape = (len(probes), len(rows), sum(sizes), sum(sizes))
        stacked = [own[row] for own in matrices for row in rows]
        distances = np.array(stacked, dtype=np.float64).reshape(shape)
        yield Group(np.array(rows), sizes, distances)


Statistics = dict[str, Floats]
"""Name -> (probes, inputs)."""


def _system(
    group: Group,
    place: int,
    human: Floats,
    divergences: Mapping[str, Divergence],
    stands: Stands,
) -> tuple[Statistics, dict[str, Ints]]:
    sides = {"M": group.model(place), "C": group.cross(place)}
    found = {"mean_H": _means(human)}
    found |= {f"mean_{side}": _means(texts) for side, texts in sides.items()}
    found["energy"] = energy_distance(*(found[f"mean_{side}"] for side in "HMC"))
    people = stands(_flat(human))
    for side, texts in sides.items():
        for name, divergence in divergences.items():
            found[f"{name}_{side}"] = divergence(_flat(texts), people).reshape(texts.shape[:2])
        found[f"dmu_{side}"] = found[f"mean_{side}"] - mean(people).reshape(texts.shape[:2])
    return found, {side: _missing(texts) for side, texts in sides.items()}


class _Table:
    """Values by input as groups of inputs bring them; what no group brings is NaN."""

    def __init__(self, labels: Sequence[str], n_items: int) -> None:
        self._labels, self._n_items = labels, n_items
        self._values: dict[str, dict[str, Floats]] = {}
        self._missing: dict[str, dict[str, Ints]] = {}

    def add(self, system: str, rows: Ints, found: Statistics, missing: Mapping[str, Ints]) -> None:
        """Put the (probes, inputs) values of a group where its inputs are."""
        values, undefined = (
            self._values.setdefault(system, {}),
            self._missing.setdefault(system, {}),
        )
        for metric, own in found.items():
            for label, row in zip(self._labels, own, strict=True):
                key = f"{metric}/{label}"
                values.setdefault(key, np.full(self._n_items, np.nan))[rows] = row
        for side, own_counts in missing.items():
            for label, number in zip(self._labels, own_counts, strict=True):
                key = f"{side}/{label}"
                undefined.setdefault(key, np.zeros(self._n_items, np.int64))[rows] = number

    def scores(
        self, item_ids: tuple[str, ...], names: Sequence[str], groups: tuple[Group, ...]
    ) -> Scores:
        """Everything that was added."""
        systems = {name: self._values.get(name, {}) for name in names}
        return Scores(item_ids, self._values.get("", {}), systems, self._missing, groups)


def _pairs(texts: Ints) -> tuple[Ints, Ints]:
    first, second = np.triu_indices(len(texts), 1)
    return texts[first], texts[second]


def _flat(distances: Floats) -> Floats:
    n_probes, n_inputs, n_pairs = distances.shape
    return distances.reshape(n_probes * n_inputs, n_pairs)


def _means(distances: Floats) -> Floats:
    return mean(_flat(distances)).reshape(distances.shape[:2])


def _missing(distances: Floats) -> Ints:
    found: Ints = distances.shape[2] - counts(_flat(distances)).reshape(distances.shape[:2])
    return found


N_SPLITS = 20
"""How many independent splits a control is the mean of, unless asked otherwise."""


def people_orders(n: int, item_ids: Sequence[str], seed: int, n_splits: int = N_SPLITS) -> Ints:
    """Orders of `n` people, (items, splits, n); the first floor(n / 2) of an order are half a.

    >>> people_orders(4, ["x", "y"], seed=0, n_splits=3).shape
    (2, 3, 4)
    """
    return _orders("text-control", n, item_ids, seed, n_splits)


def generation_orders(n: int, item_ids: Sequence[str], seed: int, n_splits: int = N_SPLITS) -> Ints:
    """Orders of `n` generations, (items, splits, n), independent of those of people.

    >>> generation_orders(4, ["x"], seed=0, n_splits=3).shape
    (1, 3, 4)
    """
    return _orders("text-matched", n, item_ids, seed, n_splits)


def within(matrices: Floats, chosen: Ints) -> Floats:
    """The distances of unordered pairs among the chosen texts: (items * splits, pairs).

    >>> within(np.array([[[0.0, 0.5], [0.5, 0.0]]]), np.array([[[1, 0]]])).tolist()
    [[0.5]]
    """
    first, second = np.triu_indices(chosen.shape[2], k=1)
    return _distances(matrices, chosen[:, :, first], chosen[:, :, second])


def between(matrices: Floats, rows: Ints, columns: Ints) -> Floats:
    """The distances of all pairs of a row text and a column text: (items * splits, pairs).

    >>> between(np.array([[[0.0, 0.5], [0.5, 0.0]]]), np.array([[[0]]]), np.array([[[1]]])).tolist()
    [[0.5]]
    """
    shape = (*rows.shape, columns.shape[2])
    wide = (shape[0], shape[1], shape[2] * shape[3])
    first = np.broadcast_to(rows[..., :, None], shape).reshape(wide)
    second = np.broadcast_to(columns[..., None, :], shape).reshape(wide)
    return _distances(matrices, first, second)


def _distances(matrices: Floats, first: Ints, second: Ints) -> Floats:
    items = np.arange(len(matrices))[:, None, None]
    rows = first.shape[0] * first.shape[1]
    found: Floats = matrices[items, first, second].reshape(rows, first.shape[2])
    return found


def _orders(kind: str, n: int, item_ids: Sequence[str], seed: int, n_splits: int) -> Ints:
    base = np.tile(np.arange(n, dtype=np.int64), (n_splits, 1))
    found = np.empty((len(item_ids), n_splits, n), dtype=np.int64)
    for place, item_id in enumerate(item_ids):
        found[place] = stream(seed, kind, item_id).permuted(base, axis=1)
    return found


PAPER_SEED = 42


@dataclass(frozen=True)
class Inputs:
    """Inputs of one batch: their ids and the distances of their texts, people's first.

    `matrices` is (inputs, texts, texts) with NaN where a distance is undefined; of each input the
    first `n_people` texts are people's, the rest are one system's. Where inputs differ in their
    numbers, each shape is a batch of its own; a value does not depend on its batch.
    """

    ids: Sequence[str]
    matrices: Floats
    n_people: int

    @property
    def n_generations(self) -> int:
        """How many texts of the system an input has."""
        return int(self.matrices.shape[1]) - self.n_people


@dataclass(frozen=True)
class Splitting:
    """How people are split: how often, and from which seed."""

    seed: int = 0
    n_splits: int = N_SPLITS


def paper_choice(n_pairs: int) -> Ints:
    """Which pair distances the authors' code takes for people when it scores anything.

    >>> paper_choice(6).tolist()
    [0, 4, 3]
    """
    drawn = np.random.default_rng(PAPER_SEED).choice(np.arange(n_pairs), n_pairs)
    return np.asarray(drawn[: n_pairs // 2], dtype=np.int64)


def paper_people(distances: Floats) -> Floats:
    """The published stand-in for people's distances, by which systems too are measured.

    >>> paper_people(np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]])).tolist()
    [[0.0, 0.4, 0.3]]
    """
    chosen: Floats = distances[:, paper_choice(distances.shape[1])]
    return chosen


def paper_batch(distances: Floats, divergences: Mapping[str, Divergence]) -> Statistics:
    """The published control of (inputs, pairs) distances in the order of pairs i < j.

    Divergences of the drawn from the first half of the pairs, and `dmu`, their difference of means.

    >>> from aleatoric.metrics.distances import w1
    >>> found = paper_batch(np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]]), {"w1": w1})
    >>> {name: value.round(6).tolist() for name, value in found.items()}
    {'w1': [0.133333], 'dmu': [0.133333]}
    """
    drawn, first = paper_people(distances), distances[:, : distances.shape[1] // 2]
    return _compare("", drawn, first, divergences)


def corrected_batch(
    inputs: Inputs, divergences: Mapping[str, Divergence], splitting: Splitting | None = None
) -> Statistics:
    """The control on disjoint halves a (floor) and b (ceil) of the people, mean over splits.

    `_M` compares H_a with H_b, `_C` the grid a x b with H_b. A half of one person has no pair:
    inputs of fewer than four people have no `_M`, of fewer than three no `_C`.

    >>> from aleatoric.metrics.distances import w1
    >>> everyone = np.full((1, 4, 4), 0.5)
    >>> corrected_batch(Inputs(["x"], everyone, 4), {"w1": w1})["w1_M"].tolist()
    [0.0]
    """
    own = splitting or Splitting()
    orders = people_orders(inputs.n_people, inputs.ids, own.seed, own.n_splits)
    half = inputs.n_people // 2
    return _of_splits(inputs.matrices, orders[:, :, :half], orders[:, :, half:], divergences)


def matched_batch(
    inputs: Inputs, divergences: Mapping[str, Divergence], splitting: Splitting | None = None
) -> Statistics:
    """A system's statistics at the control's numbers: floor(n / 2) generations, half b of people.

    People are split as `corrected_batch` splits them. A system with fewer generations than half a
    has people cannot be matched: NaN.

    >>> from aleatoric.metrics.distances import w1
    >>> everything = np.full((1, 8, 8), 0.5)
    >>> matched_batch(Inputs(["x"], everything, 4), {"w1": w1})["w1_C"].tolist()
    [0.0]
    """
    own = splitting or Splitting()
    half, n = inputs.n_people // 2, inputs.n_generations
    people = people_orders(inputs.n_people, inputs.ids, own.seed, own.n_splits)
    drawn = generation_orders(n, inputs.ids, own.seed, own.n_splits)[:, :, :half]
    if n < half:
        return _undefined(len(inputs.ids), divergences)
    return _of_splits(inputs.matrices, inputs.n_people + drawn, people[:, :, half:], divergences)


def _of_splits(
    matrices: Floats, model: Ints, people: Ints, divergences: Mapping[str, Divergence]
) -> Statistics:
    """M and C of the texts that play the model against H of those that play people."""
    human = within(matrices, people)
    sides = {"_M": within(matrices, model), "_C": between(matrices, model, people)}
    found: Statistics = {}
    for suffix, texts in sides.items():
        found |= _compare(suffix, texts, human, divergences)
    by_split = (len(matrices), model.shape[1])
    return {name: mean(values.reshape(by_split)) for name, values in found.items()}


def _compare(
    suffix: str, left: Floats, right: Floats, divergences: Mapping[str, Divergence]
) -> Statistics:
    found = {f"{name}{suffix}": own(left, right) for name, own in divergences.items()}
    return found | {f"dmu{suffix}": mean(left) - mean(right)}


def _undefined(n: int, divergences: Mapping[str, Divergence]) -> Statistics:
    names = [f"{name}{side}" for side in ("_M", "_C") for name in (*divergences, "dmu")]
    return {name: np.full(n, np.nan) for name in names}


DIFFERS = "differs from people"
CLOSE = "no significant difference from people"
DEPENDENT = "energy below 0, so that its texts are not independent of people's (copied?)"
MORE = "varies more than people"
LESS = "varies less than people"
ALIKE = "no significant difference in variability"
UNKNOWN = "not known"
CUT = "on texts cut to the same lengths"
LEVEL = 0.95
STRICT_LEVEL = 0.99
"""The confidence that a verdict needs where texts were cut to the same lengths."""
Found = Mapping[tuple[str, str], Estimate]


@dataclass(frozen=True)
class Verdict:
    """What one probe says of one system.

    `basis` names the metric that `variability` stands on, and `reason` says why a verdict is not
    known or why it stands on other texts than the tables.
    """

    system: str
    probe: str
    closeness: str
    variability: str
    basis: str
    reason: str | None = None


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Return a verdict for every system and probe that has an energy distance."""
    found = {(result.system, result.metric): result.estimate for result in results}
    judged = [
        (system, probe)
        for system, metric in found
        for name, _, probe in [metric.partition("/")]
        if name == "energy"
    ]
    sizes = Counter(probe for _, probe in judged)
    return [_verdict(found, system, probe, sizes[probe]) for system, probe in judged]


def sentences(found: Sequence[Verdict]) -> list[str]:
    """Return one sentence per system, with the probes of each verdict.

    >>> sentences([Verdict("bot", "lexical-1", DIFFERS, LESS, "dmu_M/lexical-1")])
    ['bot: differs from people (lexical-1); varies less than people (lexical-1).']
    """
    systems = dict.fromkeys(one.system for one in found)
    return [
        f"{system}: {'; '.join(_parts([one for one in found if one.system == system]))}."
        for system in systems
    ]


def _verdict(found: Found, system: str, probe: str, n_systems: int) -> Verdict:
    energy = at_level(found[system, f"energy/{probe}"], 1 - (1 - LEVEL) / n_systems)
    basis, note, level = f"dmu_M/{probe}", None, LEVEL
    lengths = (found.get((system, name)) for name in ("length_H", "length_M"))
    if lengths_differ(*(own.value if own else None for own in lengths)):
        basis, level = f"dmu_M_same_length/{probe}", STRICT_LEVEL
        note = f"lengths differ: variability is judged {CUT}, at the {STRICT_LEVEL:.0%} level"
    difference = found.get((system, basis))
    if difference is not None:
        difference = at_level(difference, 1 - (1 - level) / n_systems)
    closeness = _side(energy, above=DIFFERS, below=DEPENDENT, between=CLOSE)
    variability = _side(difference, above=MORE, below=LESS, between=ALIKE)
    lacking = [own for own in (energy, difference) if own is None or own.interval is None]
    reason = lacking[0].reason if lacking and lacking[0] else note
    return Verdict(system, probe, closeness, variability, basis, reason)


def _side(estimate: Estimate | None, above: str, below: str, between: str) -> str:
    """Return a verdict by where an interval lies; without an interval there is none."""
    if estimate is None or estimate.interval is None:
        return UNKNOWN
    if estimate.interval.low > 0:
        return above
    return below if estimate.interval.high < 0 else between


def _parts(own: Sequence[Verdict]) -> Iterator[str]:
    for said in (DIFFERS, CLOSE, DEPENDENT):
        if probes := [one.probe for one in own if one.closeness == said]:
            yield f"{said} ({_named(probes, own)})"
    cut = f", {CUT}" if any("same_length" in one.basis for one in own) else ""
    for said in (MORE, LESS, ALIKE):
        if probes := [one.probe for one in own if one.variability == said]:
            yield f"{said} ({_named(probes, own)}{cut})"
    unknown = [one for one in own if UNKNOWN in (one.closeness, one.variability)]
    for reason in dict.fromkeys(one.reason or "too little data" for one in unknown):
        probes = [one.probe for one in unknown if (one.reason or "too little data") == reason]
        yield f"no verdict, {reason} ({_named(probes, own)})"


def _named(probes: Sequence[str], own: Sequence[Verdict]) -> str:
    """Return the names of probes, or that they are all."""
    return "all probes" if 1 < len(probes) == len(own) else ", ".join(probes)
