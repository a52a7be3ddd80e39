"""The inputs whose texts a generator matches worst and best, by each probe."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import Literal

from aleatoric.probes.tools import Tools
from aleatoric.result_types import Study, Table
from aleatoric.types import TextItem, Texts

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
