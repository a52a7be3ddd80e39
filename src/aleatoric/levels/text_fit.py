"""The inputs whose texts a generator matches worst and best, by each probe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

from aleatoric.types import Study, Table, TextItem

N_LISTED = 5
N_TEXTS = 3
TEXT_CHARS = 80
THRESHOLDS = {"lexical-1": 0.3}
"""W1 above which an input counts as badly fitted, as in the paper."""
OTHER_THRESHOLD = 0.2
Side = Literal["M", "C"]
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
        """The metric by which the inputs are ordered."""
        return f"w1_{self.side}/{self.probe}"

    @property
    def summary(self) -> str:
        """The number of badly fitted inputs, as a sentence."""
        return (
            f"{self.probe}: {self.n_beyond} of {self.n_known} inputs have "
            f"W1({self.side}, H) > {self.threshold:g}."
        )


def fit(cases: Sequence[TextCase], probe: str, side: Side = "C", n_listed: int = N_LISTED) -> Fit:
    """The worst and the best fitted inputs; no input is in both lists, and ties are sorted by id.

    Inputs most of whose pairs have no distance are listed only if there are no others: a W1 of
    the few remaining pairs says little.

    >>> cases = [TextCase(TextItem(i, i, (i,), ()), (), {"w1_C/p": w}) for i, w in
    ...          [("a", 0.1), ("b", 0.5), ("c", None)]]
    >>> found = fit(cases, "p")
    >>> [case.item.id for case in found.worst], [case.item.id for case in found.best]
    (['b'], ['a'])
    """
    metric, threshold = f"w1_{side}/{probe}", THRESHOLDS.get(probe, OTHER_THRESHOLD)
    known = [(value, case) for case in cases if (value := case.values.get(metric)) is not None]
    telling = [pair for pair in known if _mostly_defined(pair[1], probe, side)]
    ordered = sorted(telling or known, key=lambda pair: (-pair[0], pair[1].item.id))
    listed = min(n_listed, (len(ordered) + 1) // 2)
    worst = tuple(case for _, case in ordered[:listed])
    best = tuple(case for _, case in ordered[::-1][: min(listed, len(ordered) - listed)])
    beyond = sum(value > threshold for value, _ in known)
    return Fit(probe, side, worst, best, threshold, beyond, len(known))


def _mostly_defined(case: TextCase, probe: str, side: Side) -> bool:
    """Whether at least half of an input's pairs have a distance, on both sides of the comparison.

    Words are cut at white space; nothing is known about user-defined probes.
    """
    kind, _, order = probe.partition("-")
    if kind not in _NEED_BOTH:
        return True
    n_words = int(order) if order.isdecimal() else 1
    people, model = (_filled(texts, n_words) for texts in (case.item.references, case.texts))
    sides = ((people, None), (model, None if side == "M" else people))
    return all(_half(*parts, _NEED_BOTH[kind]) for parts in sides)


def _filled(texts: Sequence[str], n_words: int) -> Filled:
    """A text has content if it has at least `n_words` words."""
    return len(texts), sum(len(text.split(None, n_words)) >= n_words for text in texts)


def _half(left: Filled, right: Filled | None, need_both: bool) -> bool:
    """Whether half of the pairs of left with right, or within left, have a distance."""
    pairs, both = (comb(n, 2) if right is None else n * right[i] for i, n in enumerate(left))
    empty = [n - filled for n, filled in (left, right or left)]
    neither = comb(empty[0], 2) if right is None else empty[0] * empty[1]
    return 2 * (both if need_both else pairs - neither) >= pairs


def run(cases: Sequence[TextCase], seed: int) -> Study:
    """The inputs fitted worst and best by every probe, by W1(C, H) and by W1(M, H)."""
    probes = dict.fromkeys(
        name.partition("/")[2] for case in cases for name in case.values if "w1_C/" in name
    )
    sides: tuple[Side, ...] = ("C", "M")
    return Study(
        "fit", tuple(_table(side, [fit(cases, p, side) for p in probes]) for side in sides)
    )


def _table(side: Side, fits: Sequence[Fit]) -> Table:
    """The worst and best inputs by every probe, with their first texts."""
    rows = []
    for found in fits:
        rows += [_row("worst", case, found) for case in found.worst]
        rows += [_row("best", case, found) for case in found.best]
    columns = ("probe", "fit", "input", f"W1({side}, H)", "text", "people", "generator")
    notes = [found.summary for found in fits]
    shown = f"The first {N_TEXTS} texts of each are shown."
    return Table(f"Fit to people by W1({side}, H)", columns, tuple(rows), (*notes, shown))


def _row(end: str, case: TextCase, found: Fit) -> tuple[str, ...]:
    value = case.values.get(found.metric)
    shown = "–" if value is None else f"{value:.3f}"
    texts = (_short(case.item.input[-1:]), _short(case.item.references), _short(case.texts))
    return (found.probe, end, case.item.id, shown, *texts)


def _short(texts: Iterable[str]) -> str:
    """The first texts, each cut to what fits a table."""
    first = list(texts)[:N_TEXTS]
    return " / ".join(textwrap.shorten(text, TEXT_CHARS, placeholder="…") or "∅" for text in first)
