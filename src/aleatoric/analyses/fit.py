"""Which inputs a generator fits worst and best, by each probe, with the texts themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aleatoric.types import Study, Table, TextItem

N_LISTED = 5
N_TEXTS = 3
TEXT_CHARS = 80
THRESHOLDS = {"lexical-1": 0.3}
"""W1 beyond which an input is fitted badly, as the paper chose it."""
OTHER_THRESHOLD = 0.2
Side = Literal["M", "C"]


@dataclass(frozen=True, slots=True)
class TextCase:
    """An input, what a system wrote to it, and its statistics by metric."""

    item: TextItem
    texts: tuple[str, ...]
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class Fit:
    """The inputs at both ends of W1 by one probe, and how many lie beyond the threshold."""

    probe: str
    side: Side
    worst: tuple[TextCase, ...]
    best: tuple[TextCase, ...]
    threshold: float
    n_beyond: int
    n_known: int

    @property
    def metric(self) -> str:
        """What the inputs are ordered by."""
        return f"w1_{self.side}/{self.probe}"

    @property
    def summary(self) -> str:
        """How many inputs are fitted badly, in words."""
        return (
            f"{self.probe}: {self.n_beyond} of {self.n_known} inputs have "
            f"W1({self.side}, H) > {self.threshold:g}."
        )


def threshold_of(probe: str) -> float:
    """From which W1 on an input counts as badly fitted.

    >>> threshold_of("lexical-1"), threshold_of("semantic")
    (0.3, 0.2)
    """
    return THRESHOLDS.get(probe, OTHER_THRESHOLD)


def fit(cases: Sequence[TextCase], probe: str, side: Side = "C", n_listed: int = N_LISTED) -> Fit:
    """The worst and the best fitted inputs; none is in both lists, and ties go by id.

    >>> cases = [TextCase(TextItem(i, i, (i,), ()), (), {"w1_C/p": w}) for i, w in
    ...          [("a", 0.1), ("b", 0.5), ("c", None)]]
    >>> found = fit(cases, "p")
    >>> [case.item.id for case in found.worst], [case.item.id for case in found.best]
    (['b'], ['a'])
    """
    metric, threshold = f"w1_{side}/{probe}", threshold_of(probe)
    known = [(value, case) for case in cases if (value := case.values.get(metric)) is not None]
    ordered = sorted(known, key=lambda pair: (-pair[0], pair[1].item.id))
    listed = min(n_listed, (len(ordered) + 1) // 2)
    worst = tuple(case for _, case in ordered[:listed])
    best = tuple(case for _, case in ordered[::-1][: min(listed, len(ordered) - listed)])
    beyond = sum(value > threshold for value, _ in known)
    return Fit(probe, side, worst, best, threshold, beyond, len(known))


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
    """Both ends by every probe, with the first texts of each input."""
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
