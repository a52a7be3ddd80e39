"""Every input on its own: does a system vary there as people do, and is it close to them?

Per input, system and probe there are two tests: of mean M = mean H (variability), and of people's
and the system's texts being one population (closeness); a third one compares lengths. The
p-values are saved with the statistics; labels control the false discovery rate over inputs. The
inputs that a generator matches worst and best are found here too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.inference.two_samples import (
    ALPHA,
    FEWEST,
    N_PERMUTATIONS,
    Permutations,
    benjamini_hochberg,
    means_test,
    orders,
    permutations,
    population_tests,
    spread_test,
    within,
)
from aleatoric.probes.tools import Tools
from aleatoric.result_types import Labels, Study, Table
from aleatoric.runs.run import Store, stat_columns
from aleatoric.types import Floats, TextItem, Texts

P_M, P_ENERGY, P_LENGTH = "p_M", "p_energy", "p_length"
SAME_LENGTH = "M_same_length"
"""What follows dmu_ and p_ in statistics of variability on texts cut to the same lengths."""
MOST_TEXTS = 100
"""Texts per side that the test of closeness uses: its cost grows with their square."""
GAPPY_SHARE = 0.2
"""The share of undefined distances beyond which there is no test: the rest is a biased sample."""
MORE, AS_PEOPLE, LESS = "varies more", "varies as people", "varies less"
VARIABILITY = {1: MORE, 0: AS_PEOPLE, -1: LESS}
CLOSENESS = {1: "differs", 0: "no difference"}
LENGTH = {1: "longer", 0: "as long", -1: "shorter"}


@dataclass(frozen=True)
class Testing:
    """The seed and the number of random permutations of the tests; 0 tests nothing."""

    seed: int = 0
    n_permutations: int = N_PERMUTATIONS

    def ways(self, n_people: int, n_texts: int) -> Permutations | None:
        """Return the permutations for these numbers of texts; `None` if there are too few."""
        if not self.n_permutations or min(n_people, n_texts) < FEWEST:
            return None
        ways = permutations(n_people, n_texts, self.n_permutations, self.seed)
        return ways if ways.can_reject else None


def p_values(
    distances: Floats, n_people: int, item_ids: Sequence[str], testing: Testing
) -> dict[str, Floats]:
    """Return (probes, inputs) p-values from (probes, inputs, texts, texts), people's texts first.

    Variability must differ by two tests, and has the larger p-value of both: texts are exchanged
    between the sides, which is exact where both are one population, and Welch's test allows for
    two populations, such as two topics. Each alone finds too much where the other holds.
    """
    shape, n_texts = distances.shape[:2], distances.shape[2] - n_people
    ways = testing.ways(min(n_people, MOST_TEXTS), min(n_texts, MOST_TEXTS))
    if ways is None:
        return {name: np.full(shape, np.nan) for name in (P_M, P_ENERGY)}
    flat = distances.reshape(-1, n_people + n_texts, n_people + n_texts)
    used = _used(flat, n_people, ways)
    order = orders(ways.width, item_ids, testing.seed, "text-closeness")
    energy, spread = population_tests(used, ways, np.tile(order, (len(distances), 1)))
    is_gappy = np.any([_is_gappy(side) for side in within(flat, n_people)], axis=0)
    variability = np.where(is_gappy, np.nan, np.maximum(spread, spread_test(flat, n_people)))
    closeness = np.where(_is_gappy(used), np.nan, energy)
    return {P_M: variability.reshape(shape), P_ENERGY: closeness.reshape(shape)}


def _used(flat: Floats, n_people: int, ways: Permutations) -> Floats:
    """Return the distances of the texts that are permuted: the first ones of both sides."""
    kept = np.r_[: ways.n_first, n_people : n_people + ways.width - ways.n_first]
    return flat[:, kept[:, None], kept]


def length_p_values(
    lengths: Floats, n_people: int, item_ids: Sequence[str], testing: Testing
) -> Floats:
    """Return p-values of equal mean lengths from (inputs, texts) lengths, people's first."""
    ways = testing.ways(n_people, lengths.shape[1] - n_people)
    if ways is None:
        return np.full(len(lengths), np.nan)
    return means_test(lengths, ways, orders(ways.width, item_ids, testing.seed, "text-lengths"))


def _is_gappy(distances: Floats) -> NDArray[np.bool_]:
    """Whether too many of the pairs of (items, n, n) distances are undefined."""
    n = distances.shape[1]
    n_undefined = (np.isnan(distances) & ~np.eye(n, dtype=bool)).sum(axis=(1, 2))
    is_gappy: NDArray[np.bool_] = n_undefined > GAPPY_SHARE * n * (n - 1)
    return is_gappy


# Labels ------------------------------------------------------------------------------------


def probes_tested(store: Store) -> list[str]:
    """Return the probes whose tests are saved."""
    prefix = f"{P_M}/"
    return [c.removeprefix(prefix) for c in store.stat_columns() if c.startswith(prefix)]


def labels_of(store: Store, system: str) -> dict[str, Labels]:
    """Return the labels of a system, per scored input in the order of its rows."""
    return _labels(_tests(store, system), probes_tested(store))


def _tests(store: Store, system: str) -> dict[str, Floats]:
    """Return the p-values of a system, and the differences that they are of."""
    prefixes = ("p_", f"dmu_{SAME_LENGTH}/", "dmu_M/", "length_")
    names = [name for name in store.stat_columns() if name.startswith(prefixes)]
    return stat_columns(store, system, names)[1]


def _labels(tests: Mapping[str, Floats], probes: Sequence[str]) -> dict[str, Labels]:
    labels = {}
    for probe in probes:
        side = SAME_LENGTH if _is_at_same_length(tests, probe) else "M"
        sign = _signed(tests[f"p_{side}/{probe}"], tests[f"dmu_{side}/{probe}"])
        labels[f"variability/{probe}"] = Labels(sign, VARIABILITY)
        p = tests[f"{P_ENERGY}/{probe}"]
        labels[f"closeness/{probe}"] = Labels(_signed(p, np.ones(len(p))), CLOSENESS)
    if probes:
        sign = _signed(tests[P_LENGTH], tests["length_M"] - tests["length_H"])
        labels["length"] = Labels(sign, LENGTH)
    return labels


def _is_at_same_length(tests: Mapping[str, Floats], probe: str) -> bool:
    """Whether variability is judged on texts cut to the same lengths, as in the verdicts."""
    cut = tests.get(f"dmu_{SAME_LENGTH}/{probe}")
    return cut is not None and bool(np.isfinite(cut).any())


def _signed(p_values: Floats, gaps: Floats) -> Floats:
    """Return the sign of the gap where it is significant, else 0; NaN where there is no test."""
    known = np.isfinite(p_values)
    adjusted = np.ones(len(p_values))
    adjusted[known] = benjamini_hochberg(p_values[known].tolist())
    return np.where(known, np.where(adjusted <= ALPHA, np.sign(gaps), 0.0), np.nan)


@dataclass(frozen=True)
class LabelCounts:
    """How many inputs of a system have each label by a probe."""

    system: str
    probe: str
    more: int
    as_people: int
    less: int
    differ: int
    n_compared: int
    """Inputs with a test of closeness."""
    longer: int
    shorter: int
    n_untested: int
    """Inputs without a test of variability: too few texts, or too many undefined distances."""
    same_length: bool
    """Whether variability is judged on texts cut to the same lengths."""


def label_counts(store: Store, systems: Sequence[str]) -> Iterator[LabelCounts]:
    """Yield the numbers of inputs by label, per probe and system."""
    probes = probes_tested(store)
    tests = {system: _tests(store, system) for system in systems}
    labels = {system: _labels(own, probes) for system, own in tests.items()}
    for probe in probes:
        for system, own in labels.items():
            variability, closeness = own[f"variability/{probe}"], own[f"closeness/{probe}"]
            yield LabelCounts(
                system,
                probe,
                more=variability.count(1),
                as_people=variability.count(0),
                less=variability.count(-1),
                differ=closeness.count(1),
                n_compared=len(closeness.codes) - closeness.n_undefined,
                longer=own["length"].count(1),
                shorter=own["length"].count(-1),
                n_untested=variability.n_undefined,
                same_length=_is_at_same_length(tests[system], probe),
            )


N_LISTED = 5
N_TEXTS = 3
TEXT_CHARS = 80
THRESHOLDS = {"lexical-1": 0.3}
"""W1 above which an input counts as badly fitted, as in the paper."""
OTHER_THRESHOLD = 0.2
Side = Literal["M", "C"]
SIDES: tuple[Side, ...] = ("C", "M")
_NEED_BOTH = {"lexical": False, "syntactic": False, "semantic": True}
"""Whether both texts of a pair must have content, or one is enough, for it to have a distance."""
Filled = tuple[int, int]
"""The number of texts, and the number of those that have content."""


@dataclass(frozen=True, slots=True)
class TextCase:
    """An input, a system's texts for it, and its statistics by metric."""

    item: TextItem
    texts: tuple[str, ...]
    values: Mapping[str, float | None]
    written: Texts = field(default_factory=lambda: Texts("", ()))
    """The texts with their log-probabilities, if these are saved."""


@dataclass(frozen=True)
class StudyOptions:
    """What a study of texts is given besides the inputs."""

    tools: Tools = field(default_factory=Tools)
    """The tokenizer and other tools of the run."""
    argument: str = ""
    """What follows = in the name of the study."""

    @cached_property
    def tokens(self) -> Callable[[Sequence[str]], Mapping[str, list[str]]]:
        """Returns the tokens of each text, by the run's tokenizer."""
        return self.tools.length_reader().tokens


@dataclass(frozen=True)
class Fit:
    """The inputs with the largest and smallest W1, and how many exceed the threshold."""

    probe: str
    side: Side
    worst: tuple[TextCase, ...]
    best: tuple[TextCase, ...]
    threshold: float
    n_beyond: int
    n_known: int

    @property
    def metric(self) -> str:
        """The metric that orders the inputs."""
        return f"w1_{self.side}/{self.probe}"

    @property
    def summary(self) -> str:
        """The number of badly fitted inputs, as a sentence."""
        return (
            f"{self.probe}: {self.n_beyond} of {self.n_known} inputs have "
            f"W1({self.side}, H) > {self.threshold:g}."
        )


def fit(cases: Sequence[TextCase], probe: str, side: Side = "C", n_listed: int = N_LISTED) -> Fit:
    """Return the worst and best fitted inputs; no input is in both lists, ties are sorted by id.

    Inputs most of whose pairs have no distance are listed only if there are no others.
    """
    metric, threshold = f"w1_{side}/{probe}", THRESHOLDS.get(probe, OTHER_THRESHOLD)
    with_value = [(value, case) for case in cases if (value := case.values.get(metric)) is not None]
    reliable = [pair for pair in with_value if _mostly_defined(pair[1], probe, side)]
    ordered = sorted(reliable or with_value, key=lambda pair: (-pair[0], pair[1].item.id))
    listed = min(n_listed, (len(ordered) + 1) // 2)
    worst = tuple(case for _, case in ordered[:listed])
    best = tuple(case for _, case in ordered[::-1][: min(listed, len(ordered) - listed)])
    beyond = sum(value > threshold for value, _ in with_value)
    return Fit(probe, side, worst, best, threshold, beyond, len(with_value))


def _mostly_defined(case: TextCase, probe: str, side: Side) -> bool:
    """Return whether at least half of the pairs have a distance, on both sides of the comparison.

    Words are split at white space; user-defined probes are assumed to be always defined.
    """
    kind, _, order = probe.partition("-")
    if kind not in _NEED_BOTH:
        return True
    n_words = int(order) if order.isdecimal() else 1
    people, model = (
        (len(texts), sum(len(text.split(None, n_words)) >= n_words for text in texts))
        for texts in (case.item.references, case.texts)
    )
    sides = ((people, None), (model, None if side == "M" else people))
    return all(_half(*parts, _NEED_BOTH[kind]) for parts in sides)


def _half(left: Filled, right: Filled | None, need_both: bool) -> bool:
    """Return whether half of the pairs of left and right, or within left, have a distance."""
    pairs, both = (comb(n, 2) if right is None else n * right[i] for i, n in enumerate(left))
    empty = [n - filled for n, filled in (left, right or left)]
    neither = comb(empty[0], 2) if right is None else empty[0] * empty[1]
    return 2 * (both if need_both else pairs - neither) >= pairs


def run(cases: Sequence[TextCase], seed: int, options: StudyOptions | None = None) -> Study:
    """List the worst and best fitted inputs per probe, by W1(C, H) and by W1(M, H)."""
    names = (name for case in cases for name in case.values if "w1_C/" in name)
    probes = dict.fromkeys(name.partition("/")[2] for name in names)
    tables = [_table(side, [fit(cases, probe, side) for probe in probes]) for side in SIDES]
    return Study("fit", tuple(tables))


def _table(side: Side, fits: Sequence[Fit]) -> Table:
    rows = []
    for result in fits:
        rows += [_row("worst", case, result) for case in result.worst]
        rows += [_row("best", case, result) for case in result.best]
    columns = ("probe", "fit", "input", f"W1({side}, H)", "text", "people", "generator")
    notes = (*(result.summary for result in fits), f"The first {N_TEXTS} texts of each are shown.")
    return Table(f"Fit to people by W1({side}, H)", columns, tuple(rows), notes)


def _row(end: str, case: TextCase, result: Fit) -> tuple[str, ...]:
    value = case.values.get(result.metric)
    shown = "–" if value is None else f"{value:.3f}"
    texts = (_short(case.item.input[-1:]), _short(case.item.references), _short(case.texts))
    return (result.probe, end, case.item.id, shown, *texts)


def _short(texts: Iterable[str]) -> str:
    first = list(texts)[:N_TEXTS]
    return " / ".join(textwrap.shorten(text, TEXT_CHARS, placeholder="…") or "∅" for text in first)
