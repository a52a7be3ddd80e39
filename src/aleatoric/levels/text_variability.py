"""Statistics of texts: does a system's output vary as much as people's texts do?

Per input, H are the pairwise distances of people's texts, M those of a system's texts, and C those
between both; energy is 2 mean C - mean M - mean H, and divergences (such as W1) compare M and C
with H. Undefined distances are left out and counted; a statistic without any distance is NaN. Of
one-text statistics, `value_H` and `value_M` are means, and `w1_value` is the Wasserstein-1 distance
between the values of a system's texts and of people's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from aleatoric.inference.estimate import at_level
from aleatoric.metrics.distances import Divergence, energy_distance, mean, w1
from aleatoric.probes.base import Block, OneText, Probe, is_one_text
from aleatoric.result_types import Result
from aleatoric.rng import stream
from aleatoric.types import Estimate, Floats, Ints

N_SPLITS = 20
"""Default number of random splits over which the human control is averaged."""
PAPER_SEED = 42
UNDEFINED = "undefined_"
"""Prefix of H, M or C: number of undefined distances per input."""
Statistics = dict[str, Floats]
"""Statistic -> its values."""
Divergences = Mapping[str, Divergence]
Reference = Callable[[Floats], Floats]
"""(inputs, pairs) distances of people -> the distances that a system is compared with."""


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """One input: people's texts, and each system's texts in an order that all inputs share."""

    item_id: str
    people: tuple[str, ...]
    systems: tuple[tuple[str, ...], ...] = ()

    def block(self) -> Block:
        """Return all texts in the form that probes take."""
        parts = (self.people, *self.systems)
        return Block(tuple(text for part in parts for text in part), tuple(map(len, parts)))


@dataclass(frozen=True)
class Group:
    """Inputs (`rows` of a batch) with equal numbers of texts: (probes, inputs, texts, texts)."""

    rows: Ints
    sizes: tuple[int, ...]
    distances: Floats

    def human(self) -> Floats:
        """H: (probes, inputs, pairs of people's texts), pairs i < j in reading order."""
        return self._pairs(np.arange(self.sizes[0]))

    def model(self, system: int) -> Floats:
        """M: (probes, inputs, pairs of the system's texts)."""
        return self._pairs(self._texts_of(system))

    def cross(self, system: int) -> Floats:
        """C: (probes, inputs, system's text x person's text)."""
        texts, people = self._texts_of(system), np.arange(self.sizes[0])
        return self._take(np.repeat(texts, len(people)), np.tile(people, len(texts)))

    def with_people(self, system: int) -> Floats:
        """Return the (probes, inputs, texts, texts) distances of people and one system only."""
        texts = np.concatenate([np.arange(self.sizes[0]), self._texts_of(system)])
        return self.distances[:, :, texts[:, None], texts]

    def _texts_of(self, system: int) -> Ints:
        start = sum(self.sizes[: system + 1])
        return np.arange(start, start + self.sizes[system + 1])

    def _pairs(self, texts: Ints) -> Floats:
        first, second = np.triu_indices(len(texts), 1)
        return self._take(texts[first], texts[second])

    def _take(self, first: Ints, second: Ints) -> Floats:
        n_probes, n_inputs, width, _ = self.distances.shape
        flat = self.distances.reshape(n_probes, n_inputs, width * width)
        distances: Floats = flat.take(first * width + second, axis=2)
        return distances


@dataclass(frozen=True)
class Scores:
    """Statistics of a batch of inputs, one value per input.

    Keys are such as `mean_H/lexical-1`; `undefined_H/lexical-1` counts undefined distances.
    `groups` hold the distances.
    """

    people: Statistics
    systems: dict[str, Statistics]
    groups: tuple[Group, ...]


def score_blocks(
    items: Sequence[ScoredTexts],
    names: Sequence[str],
    probes: Sequence[Probe],
    divergences: Divergences,
    reference: Reference = lambda human: human,
) -> Scores:
    """Compute the statistics of inputs, for every probe and every system in `names`."""
    groups = tuple(_grouped([item.block() for item in items], probes))
    people: Statistics = {}
    systems: dict[str, Statistics] = {name: {} for name in names}
    for group in groups:
        human = group.human()
        own = {"mean_H": _means(human), f"{UNDEFINED}H": _n_undefined(human)}
        place(people, own, group.rows, probes, len(items))
        for index, name in enumerate(names):
            sides = {"M": group.model(index), "C": group.cross(index)}
            statistics = _system(human, sides, divergences, reference)
            place(systems[name], statistics, group.rows, probes, len(items))
    return Scores(people, systems, groups)


def place(
    columns: Statistics, values: Statistics, rows: Ints, probes: Sequence[Probe], n_items: int
) -> None:
    """Write the (probes, inputs) values of a group to its rows of the columns, else NaN."""
    for statistic, by_probe in values.items():
        for probe, row in zip(probes, by_probe, strict=True):
            key = f"{statistic}/{probe.name}"
            columns.setdefault(key, np.full(n_items, np.nan))[rows] = row


def _grouped(blocks: Sequence[Block], probes: Sequence[Probe]) -> Iterator[Group]:
    shapes: dict[tuple[int, ...], list[int]] = {}
    for row, block in enumerate(blocks):
        shapes.setdefault(block.sizes, []).append(row)
    # A probe gets the whole batch at once, so that an encoder can fill its batches.
    matrices = [probe.matrices(blocks) for probe in probes]
    for sizes, rows in shapes.items():
        shape = (len(probes), len(rows), sum(sizes), sum(sizes))
        stacked = [by_block[row] for by_block in matrices for row in rows]
        yield Group(np.array(rows), sizes, np.array(stacked, dtype=np.float64).reshape(shape))


def _system(
    human: Floats, sides: Statistics, divergences: Divergences, reference: Reference
) -> Statistics:
    """Return the (probes, inputs) statistics of a system, from H and from M and C in `sides`."""
    statistics = {"mean_H": _means(human)}
    statistics |= {f"mean_{side}": _means(distances) for side, distances in sides.items()}
    statistics["energy"] = energy_distance(*(statistics[f"mean_{side}"] for side in "HMC"))
    people, shape = reference(flat(human)), human.shape[:2]
    for side, distances in sides.items():
        compared = _compare(f"_{side}", flat(distances), people, divergences)
        statistics |= {name: values.reshape(shape) for name, values in compared.items()}
        statistics[f"{UNDEFINED}{side}"] = _n_undefined(distances)
    return statistics


def flat(distances: Floats) -> Floats:
    """Return (probes, inputs, pairs) distances as (probes * inputs, pairs)."""
    n_probes, n_inputs, n_pairs = distances.shape
    return distances.reshape(n_probes * n_inputs, n_pairs)


def _means(distances: Floats) -> Floats:
    return mean(flat(distances)).reshape(distances.shape[:2])


def _n_undefined(distances: Floats) -> Floats:
    return np.asarray(np.isnan(distances).sum(axis=2), dtype=np.float64)


# The human control -------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """Inputs with the same numbers of texts: their ids, and (inputs, texts, texts) distances.

    The first `n_people` texts are people's, the rest one system's; NaN is an undefined distance.
    """

    ids: Sequence[str]
    matrices: Floats
    n_people: int


@dataclass(frozen=True)
class Splitting:
    """Seed and number of the random splits of people."""

    seed: int = 0
    n_splits: int = N_SPLITS


def random_orders(
    n: int, item_ids: Sequence[str], seed: int, n_splits: int = N_SPLITS, kind: str = "text-control"
) -> Ints:
    """Return random orders (items, splits, n) of people's texts, or of others for another kind."""
    base = np.tile(np.arange(n, dtype=np.int64), (n_splits, 1))
    orders = [stream(seed, kind, item_id).permuted(base, axis=1) for item_id in item_ids]
    return np.array(orders, dtype=np.int64).reshape(len(item_ids), n_splits, n)


def paper_people(distances: Floats) -> Floats:
    """Return the sample of people's (inputs, pairs) distances that the authors' code uses.

    >>> paper_people(np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]])).tolist()
    [[0.0, 0.4, 0.3]]
    """
    n_pairs = distances.shape[1]
    drawn = np.random.default_rng(PAPER_SEED).choice(np.arange(n_pairs), n_pairs)
    return distances[:, np.asarray(drawn[: n_pairs // 2], dtype=np.int64)]


def paper_batch(distances: Floats, divergences: Divergences) -> Statistics:
    """Return the published control: the drawn half of (inputs, pairs) against the first half."""
    drawn, first = paper_people(distances), distances[:, : distances.shape[1] // 2]
    return _compare("", drawn, first, divergences)


def corrected_batch(inputs: Inputs, divergences: Divergences, splitting: Splitting) -> Statistics:
    """Return the control on disjoint halves a (floor) and b (ceil) of people, averaged over splits.

    `_M` compares H_a with H_b, `_C` the distances between a and b with H_b. A half of one person
    has no pair: `_M` needs at least four people, `_C` three.
    """
    orders = random_orders(inputs.n_people, inputs.ids, splitting.seed, splitting.n_splits)
    half = inputs.n_people // 2
    return _of_splits(inputs.matrices, orders[:, :, :half], orders[:, :, half:], divergences)


def matched_batch(inputs: Inputs, divergences: Divergences, splitting: Splitting) -> Statistics:
    """Return a system's statistics at the sample sizes of the control.

    floor(n / 2) generated texts are compared with half b of the `corrected_batch` splits. All NaN
    for a system with fewer texts than that.
    """
    half, n = inputs.n_people // 2, int(inputs.matrices.shape[1]) - inputs.n_people
    if n < half:
        names = [f"{name}{side}" for side in ("_M", "_C") for name in (*divergences, "dmu")]
        return {name: np.full(len(inputs.ids), np.nan) for name in names}
    seeds = inputs.ids, splitting.seed, splitting.n_splits
    people = random_orders(inputs.n_people, *seeds)[:, :, half:]
    model = inputs.n_people + random_orders(n, *seeds, "text-matched")[:, :, :half]
    return _of_splits(inputs.matrices, model, people, divergences)


def _of_splits(matrices: Floats, model: Ints, people: Ints, divergences: Divergences) -> Statistics:
    """Compare M and C of the `model` texts, (inputs, splits, texts), with H of the `people`."""
    human = _within(matrices, people)
    statistics = _compare("_M", _within(matrices, model), human, divergences)
    statistics |= _compare("_C", _between(matrices, model, people), human, divergences)
    by_split = (len(matrices), model.shape[1])
    return {name: mean(values.reshape(by_split)) for name, values in statistics.items()}


def _within(matrices: Floats, texts: Ints) -> Floats:
    """Return distances of unordered pairs of texts: (inputs * splits, pairs)."""
    first, second = np.triu_indices(texts.shape[2], k=1)
    return _distances(matrices, texts[:, :, first], texts[:, :, second])


def _between(matrices: Floats, rows: Ints, columns: Ints) -> Floats:
    """Return distances of all pairs of a row text and a column text: (inputs * splits, pairs)."""
    first, second = np.repeat(rows, columns.shape[2], axis=2), np.tile(columns, rows.shape[2])
    return _distances(matrices, first, second)


def _distances(matrices: Floats, first: Ints, second: Ints) -> Floats:
    inputs = np.arange(len(matrices))[:, None, None]
    n_rows = first.shape[0] * first.shape[1]
    return matrices[inputs, first, second].reshape(n_rows, first.shape[2])


def _compare(suffix: str, left: Floats, right: Floats, divergences: Divergences) -> Statistics:
    values = {f"{name}{suffix}": distance(left, right) for name, distance in divergences.items()}
    return values | {f"dmu{suffix}": mean(left) - mean(right)}


# Verdicts ----------------------------------------------------------------------------------

DIFFERS = "differs from people"
CLOSE = "no significant difference from people"
DEPENDENT = "energy below 0, which texts independent of people's rarely reach (copied?)"
MORE = "varies more than people"
LESS = "varies less than people"
ALIKE = "no significant difference in variability"
UNKNOWN = "not known"
CUT = "on texts cut to the same lengths"
TOLERATED_RATIO = 1.1
"""Mean lengths differ if the longer is more than 10% above the shorter."""
LEVEL = 0.95
STRICT_LEVEL = 0.99
"""Confidence level of a verdict on texts cut to the same lengths."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of one probe on one system; `basis` is the metric that judges `variability`."""

    system: str
    probe: str
    closeness: str
    variability: str
    basis: str
    reason: str | None = None
    """Why a verdict is unknown, or based on other texts than the tables."""


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Return a verdict for every system and probe that has an energy distance."""
    by_system: dict[str, dict[str, Estimate]] = {}
    for result in results:
        by_system.setdefault(result.system, {})[result.metric] = result.estimate
    energies = [result for result in results if result.metric.startswith("energy/")]
    judged = [(result.system, result.metric.removeprefix("energy/")) for result in energies]
    n_systems = Counter(probe for _, probe in judged)
    sizes = {probe: (number, len(judged)) for probe, number in n_systems.items()}
    return [_verdict(by_system[name], name, probe, *sizes[probe]) for name, probe in judged]


def sentences(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one sentence per system, with the probes of each verdict."""
    by_system: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_system.setdefault(verdict.system, []).append(verdict)
    return [f"{system}: {'; '.join(_parts(judged))}." for system, judged in by_system.items()]


def _verdict(
    estimates: Mapping[str, Estimate], system: str, probe: str, n_systems: int, n_all: int
) -> Verdict:
    """Judge a system by a probe; levels are adjusted over systems.

    To call texts dependent, the level is adjusted over all `n_all` systems and probes.
    """
    energy = at_level(estimates[f"energy/{probe}"], 1 - (1 - LEVEL) / n_systems)
    strict = at_level(estimates[f"energy/{probe}"], 1 - (1 - LEVEL) / n_all)
    basis, note, level = f"dmu_M/{probe}", None, LEVEL
    lengths = (estimates.get(name) for name in ("length_H", "length_M"))
    is_of_one_text = f"value_H/{probe}" in estimates
    if not is_of_one_text and lengths_differ(*(each.value if each else None for each in lengths)):
        basis, level = f"dmu_M_same_length/{probe}", STRICT_LEVEL
        note = f"lengths differ: variability is judged {CUT}, at the {STRICT_LEVEL:.0%} level"
    difference = estimates.get(basis)
    if difference is not None:
        difference = at_level(difference, 1 - (1 - level) / n_systems)
    closeness = _side(energy, above=DIFFERS, below=CLOSE, between=CLOSE)
    if closeness == CLOSE:
        closeness = _side(strict, above=CLOSE, below=DEPENDENT, between=CLOSE)
    variability = _side(difference, above=MORE, below=LESS, between=ALIKE)
    lacking = [e for e in (energy, difference) if e is None or e.interval is None]
    reason = lacking[0].reason if lacking and lacking[0] else note
    return Verdict(system, probe, closeness, variability, basis, reason)


def _side(estimate: Estimate | None, above: str, below: str, between: str) -> str:
    """Return the verdict for an interval above, below or around 0; unknown without one."""
    if estimate is None or estimate.interval is None:
        return UNKNOWN
    low, high = estimate.interval.low, estimate.interval.high
    return above if low > 0 else below if high < 0 else between


def _parts(judged: Sequence[Verdict]) -> Iterator[str]:

    def named(probes: Sequence[str]) -> str:
        return "all probes" if 1 < len(probes) == len(judged) else ", ".join(probes)

    for closeness in (DIFFERS, CLOSE, DEPENDENT):
        if probes := [verdict.probe for verdict in judged if verdict.closeness == closeness]:
            yield f"{closeness} ({named(probes)})"
    for variability, is_cut in product((MORE, LESS, ALIKE), (True, False)):
        alike = [verdict for verdict in judged if verdict.variability == variability]
        probes = [v.probe for v in alike if ("same_length" in v.basis) == is_cut]
        if probes:
            yield f"{variability} ({named(probes)}{f', {CUT}' if is_cut else ''})"
    reasons: dict[str, list[str]] = {}
    for verdict in judged:
        if UNKNOWN in (verdict.closeness, verdict.variability):
            reasons.setdefault(verdict.reason or "too little data", []).append(verdict.probe)
    for reason, probes in reasons.items():
        yield f"no verdict, {reason} ({named(probes)})"


VALUE_H, VALUE_M, VALUE_W1 = "value_H", "value_M", "w1_value"
VALUE_W1_MATCHED = f"{VALUE_W1}_matched"
VALUES_OF_SYSTEMS = (VALUE_M, VALUE_W1_MATCHED)
"""Statistics that people have none of."""


def value_columns(probes: Sequence[Probe]) -> list[str]:
    """Return the names of the statistics of the probes that are one-text statistics."""
    names = [probe.name for probe in probes if is_one_text(probe)]
    return [
        f"{name}/{probe}"
        for name in (VALUE_H, VALUE_M, VALUE_W1, VALUE_W1_MATCHED)
        for probe in names
    ]


def score_values(
    items: Sequence[ScoredTexts], n_systems: int, probes: Sequence[Probe], splitting: Splitting
) -> list[Statistics]:
    """Return the statistics of people, then those of each system, one value per input."""
    found: list[Statistics] = [{} for _ in range(n_systems + 1)]
    for probe in filter(is_one_text, probes):
        for row, (item, sides) in enumerate(zip(items, _by_input(items, probe), strict=True)):
            for column, values in zip(found, _of_input(item, sides, splitting), strict=True):
                for name, value in values.items():
                    key = f"{name}/{probe.name}"
                    column.setdefault(key, np.full(len(items), np.nan))[row] = value
    return found


def _by_input(items: Sequence[ScoredTexts], probe: OneText) -> Iterator[list[Floats]]:
    """Yield, per input, the values of people's texts and of each system's."""
    parts = [[item.people, *item.systems] for item in items]
    values = iter(probe.values([text for sides in parts for side in sides for text in side]))
    for sides in parts:
        yield [np.array([next(values) for _ in side], dtype=np.float64) for side in sides]


def _of_input(
    item: ScoredTexts, sides: Sequence[Floats], splitting: Splitting
) -> Iterator[dict[str, float]]:
    people, *systems = sides
    half, seeds = len(people) // 2, ([item.item_id], splitting.seed, splitting.n_splits)
    orders = random_orders(len(people), *seeds)[0]
    one, other = people[orders[:, :half]], people[orders[:, half:]]
    mean_h = {VALUE_H: _mean(people)}
    yield mean_h | {VALUE_W1: _mean(w1(one, other))}
    for own in systems:
        values = mean_h | {VALUE_M: _mean(own), VALUE_W1: _mean(w1(own[None], people[None]))}
        if len(own) >= half:
            drawn = random_orders(len(own), *seeds, "text-matched")[0][:, :half]
            values[VALUE_W1_MATCHED] = _mean(w1(own[drawn], other))
        yield values


def _mean(values: Floats) -> float:
    """Return the mean of the values that are defined; NaN if there are none."""
    return float(mean(values[None])[0])


def lengths_differ(people: float | None, system: float | None) -> bool:
    """Return whether the mean lengths of people's and a system's texts are more than 10% apart."""
    if people is None or system is None:
        return False
    shorter, longer = sorted((people, system))
    return longer > TOLERATED_RATIO * shorter
