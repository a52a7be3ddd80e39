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
    """A table a probe: the inputs fitted worst and best by W1(C, H), with their first texts."""
    probes = dict.fromkeys(
        name.partition("/")[2] for case in cases for name in case.values if "w1_C/" in name
    )
    return Study("fit", tuple(_table(fit(cases, probe)) for probe in probes))


def _table(found: Fit) -> Table:
    rows = [_row("worst", case, found) for case in found.worst]
    rows += [_row("best", case, found) for case in found.best]
    note = (
        f"{found.n_beyond} of {found.n_known} inputs have W1({found.side}, H) "
        f"> {found.threshold:g}; the first {N_TEXTS} texts of each are shown."
    )
    columns = ("fit", "input", "W1(C, H)", "W1(M, H)", "text", "people", "generator")
    return Table(f"Fit to people by {found.probe}", columns, tuple(rows), (note,))


def _row(end: str, case: TextCase, found: Fit) -> tuple[str, ...]:
    shown = [case.values.get(f"w1_{side}/{found.probe}") for side in ("C", "M")]
    values = ["–" if value is None else f"{value:.3f}" for value in shown]
    texts = (_short(case.item.input[-1:]), _short(case.item.references), _short(case.texts))
    return (end, case.item.id, *values, *texts)


def _short(texts: Iterable[str]) -> str:
    """The first texts, each cut to what fits a table."""
    first = list(texts)[:N_TEXTS]
    return " / ".join(textwrap.shorten(text, TEXT_CHARS, placeholder="…") or "∅" for text in first)
