"""The sums of a stream by named group: what two systems are paired by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aleatoric.metrics.bins import ece_debiased_of, ece_of, mce_of
from aleatoric.metrics.reduction import divide
from aleatoric.tokens.results import SCORES, State, agreement_sums
from aleatoric.types import Floats

Value = Callable[[Floats], Floats]
"""(rows, k) sums -> (rows,) values; NaN where undefined."""
_OF_THE_PLAIN_CURVE: Mapping[str, Value] = {"ece_debiased": ece_debiased_of, "mce": mce_of}


@dataclass(frozen=True, eq=False)
class Summed:
    """A metric's sums, (groups, k), and its value of any of them added up."""

    table: Floats
    value: Value


@dataclass(frozen=True, eq=False)
class GroupedSums:
    """Groups by name, their numbers of tokens, and the sums of every metric that has some."""

    names: tuple[str, ...]
    tokens: Floats
    metrics: Mapping[str, Summed]


def grouped(state: State) -> GroupedSums:
    """The sums of every metric that is a function of sums over groups."""
    curves = {
        name: Summed(own.units.table, own.by_unit(ece_of)) for name, own in state.curves.items()
    }
    plain = state.curves["ece"]
    others = {
        name: Summed(plain.units.table, plain.by_unit(error))
        for name, error in _OF_THE_PLAIN_CURVE.items()
    }
    return GroupedSums(
        state.groups.names, state.scores.table[:, 0], {**curves, **others, **_means(state)}
    )


def _means(state: State) -> dict[str, Summed]:
    """Means over tokens: a sum and the number of tokens."""
    table = state.scores.table
    sums = {name: table[:, [column, 0]] for name, column in SCORES.items()} | agreement_sums(state)
    return {
        name: Summed(own, lambda rows: divide(rows[..., 0], rows[..., 1]))
        for name, own in sums.items()
    }
