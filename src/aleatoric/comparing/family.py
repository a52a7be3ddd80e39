"""All pairs of systems by one metric: adjusted p-values, the order of the systems, letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from aleatoric.comparing.statistics import better
from aleatoric.inference.letters import different_pairs, letters
from aleatoric.inference.multiple import benjamini_hochberg, holm
from aleatoric.inference.paired import IDENTICAL, Paired


@dataclass(frozen=True)
class Comparison:
    """Two systems by one metric, with p-values adjusted over all pairs by the same metric."""

    metric: str
    first: str
    second: str
    paired: Paired
    p_holm: float | None = None
    p_bh: float | None = None
    smallest: float | None = None
    """The smallest adjusted p-value (Holm) that this pair could have had."""
    signatures: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        found, test = self.paired, self.paired.test
        return {
            "metric": self.metric,
            "first": self.first,
            "second": self.second,
            "difference": asdict(found.difference),
            "p": test.p if test else None,
            "p_holm": self.p_holm,
            "p_bh": self.p_bh,
            "smallest_p_holm": self.smallest,
            "test": {"method": test.method, "exact": test.exact} if test else None,
            "effect": asdict(found.effect) if found.effect else None,
            "reason": found.reason,
            "signatures": list(self.signatures),
        }

    @property
    def value(self) -> float | None:
        """The first system's value minus the second's, on their common items."""
        return self.paired.difference.value

    def is_significant(self, alpha: float) -> bool:
        """Whether the adjusted p-value reaches the level."""
        return self.p_holm is not None and self.p_holm <= alpha

    def is_impossible(self, alpha: float) -> bool:
        """Whether there is a test, but no adjusted p-value of it could reach the level."""
        return self.smallest is not None and self.smallest > alpha

    def is_decided(self, alpha: float) -> bool:
        """Whether the pair is known to be equal, or has a test that could have found it unequal."""
        if self.paired.reason == IDENTICAL:
            return True
        return self.smallest is not None and self.smallest <= alpha


def by_metric(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """The family of each metric."""
    families: dict[str, list[Comparison]] = {}
    for one in comparisons:
        families.setdefault(one.metric, []).append(one)
    return families


def adjusted(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """The comparisons with p-values adjusted within each metric."""
    for family in by_metric(comparisons).values():
        tests = [one.paired.test for one in family]
        p_values = [test.p if test else None for test in tests]
        # Holm's p-values only fall as p-values fall: with all of them at their smallest, every
        # adjusted one is at its smallest too.
        smallest = holm([test.smallest if test else None for test in tests])
        rows = zip(family, holm(p_values), benjamini_hochberg(p_values), smallest, strict=True)
        for one, by_holm, by_bh, least in rows:
            yield replace(one, p_holm=by_holm, p_bh=by_bh, smallest=least)


def order_of(metric: str, family: Sequence[Comparison]) -> tuple[str, ...]:
    """The systems from best to worst; empty for a metric that has no better direction.

    A system's place is the mean of its paired differences from the others, each on the items of
    its pair. Where all systems have the same items, that is the order of their values.
    """
    direction = better(metric)
    if direction is None:
        return ()
    gaps: dict[str, list[float]] = {}
    for one in family:
        if one.value is not None:
            gaps.setdefault(one.first, []).append(one.value)
            gaps.setdefault(one.second, []).append(-one.value)
    means = {label: sum(own) / len(own) for label, own in gaps.items()}
    return tuple(sorted(means, key=lambda name: means[name], reverse=direction == "higher"))


def letters_of(
    order: Sequence[str], family: Sequence[Comparison], alpha: float
) -> Mapping[str, str]:
    """Letters from Holm's p-values; the best system has an a.

    None where the metric ranks nothing, or where a pair has no test that could reach the level:
    a shared letter would then say nothing.
    """
    if not order or not all(one.is_decided(alpha) for one in family):
        return {}
    p_values = {frozenset((one.first, one.second)): one.p_holm for one in family}
    return letters(order, different_pairs(p_values, alpha))
