"""Whether two systems' numbers mean the same: their signatures, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from aleatoric.errors import UsageError
from aleatoric.levels import level_of
from aleatoric.store import Store
from aleatoric.types import Result


@dataclass(frozen=True)
class Member:
    """One system of one run, under the label that it has among all compared ones."""

    store: Store
    system: str
    label: str
    results: Mapping[str, Result]
    """By metric."""


def check_levels(stores: Sequence[Store]) -> None:
    """Refuse runs of different levels."""
    first, *others = stores
    for other in others:
        if level_of(first) != level_of(other):
            raise _refusal(first, other, {"level": (level_of(first), level_of(other))})


def check_comparable(members: Sequence[Member]) -> None:
    """Refuse systems whose signatures differ in anything but the system itself."""
    for first, second in combinations(members, 2):
        for metric in first.results.keys() & second.results.keys():
            found = differing(_fields(first, metric), _fields(second, metric))
            if found:
                raise _refusal(first.store, second.store, found)


def without_clusters(members: Sequence[Member], asked: Sequence[str]) -> list[Member]:
    """The members without TVD_sem where they are of several runs: each run has its own clusters."""
    if len({member.store.path for member in members}) == 1:
        return list(members)
    if "tvd_sem" in asked:
        raise UsageError(
            "tvd_sem cannot be compared between runs: its clusters are those of one run's systems; "
            "give all models to one command."
        )
    return [
        replace(m, results={name: r for name, r in m.results.items() if name != "tvd_sem"})
        for m in members
    ]


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The fields that both have and that differ.

    >>> differing({"rule": "paper", "seed": "0"}, {"rule": "corrected"})
    {'rule': ('paper', 'corrected')}
    """
    shared = (name for name in first if name in second)
    return {name: (first[name], second[name]) for name in shared if first[name] != second[name]}


def _fields(member: Member, metric: str) -> dict[str, str]:
    """What must agree: the corpus and how it was measured, not what the system itself is."""
    signature = member.results[metric].signature
    own = member.store.systems()[member.system].get("conventions", {})
    protocol = {name: value for name, value in signature.protocol.items() if name not in own}
    return {"corpus": f"{signature.corpus}#{signature.corpus_sha256[:12]}", **protocol}


def _refusal(first: Store, second: Store, found: Mapping[str, tuple[str, str]]) -> UsageError:
    listed = ", ".join(f"{name} ({one} v {other})" for name, (one, other) in found.items())
    differ = "differs" if len(found) == 1 else "differ"
    return UsageError(
        f"{first.path} and {second.path} cannot be compared: {listed} {differ}; "
        "run both on the same corpus with the same choices."
    )
