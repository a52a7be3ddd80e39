"""Systems drawn down to the same number of draws per item, to be compared as papers do.

TVD falls as draws become more. Where all systems have the same number of draws on every item, that
part of it is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aleatoric import levels, registry, studies
from aleatoric.comparing.comparable import Member
from aleatoric.comparing.statistics import ItemStatistics, Key
from aleatoric.errors import UsageError
from aleatoric.metrics.agreement import COLUMNS as AGREEMENTS
from aleatoric.metrics.agreement import Agreement
from aleatoric.streams import stream
from aleatoric.types import Categorical, Choices, Pair
from aleatoric.words.scoring import pair_of

PAIRWISE = ("tvd", "tvd_debiased", "js")
STATISTICS = (*PAIRWISE, *AGREEMENTS, "sq_distance")
METRICS = ("overlap", *STATISTICS)
"""What can be compared between matched systems."""


@dataclass(frozen=True)
class Matched:
    """Systems with equal numbers of draws: their statistics, and what was done to get them."""

    members: tuple[Member, ...]
    statistics: dict[str, ItemStatistics]
    notes: tuple[str, ...]


def match(members: Sequence[Member], seed: int) -> Matched:
    """Draw every system down to the smallest number of draws that any of them has on an item.

    Draws are taken without replacement, from a random stream per system and item. A system of
    exact probabilities is sampled from them. Items on which no system has draws are left out.
    """
    _check(members)
    sizes = _smallest(members)
    if not sizes:
        listed = ", ".join(member.label for member in members)
        raise UsageError(
            f"--matched needs a system with draws, and {listed} have exact probabilities; leave "
            "it out."
        )
    _check_sizes(members, sizes)
    rows: dict[str, list[tuple[Key, str, list[float]]]] = {m.label: [] for m in members}
    sampled: dict[str, None] = {}
    for member, key, pair in _pairs(members):
        if key in sizes:
            if pair.model.n is None:
                sampled[member.label] = None
            rng = stream(seed, "matched", member.system, *key)
            model = drawn(pair.model, sizes[key], rng)
            rows[member.label].append((key, pair.group, _statistics(replace(pair, model=model))))
    statistics = {label: _table(own) for label, own in rows.items()}
    notes = _notes(sizes, list(sampled), seed)
    return Matched(tuple(_signed(m, sizes, statistics, seed) for m in members), statistics, notes)


def drawn(model: Categorical, n: int, rng: np.random.Generator) -> Categorical:
    """A sample of n: of the draws without replacement, or of exact probabilities.

    Unassigned mass is drawn as words that nobody else gave, each of them once.

    >>> drawn(Categorical.from_counts({"a": 2, "b": 1}), 3, np.random.default_rng(0)).as_dict()
    {'a': 0.6666666666666666, 'b': 0.3333333333333333}
    >>> drawn(Categorical(("a",), (0.0,), rest=1.0), 2, np.random.default_rng(0)).probs
    (0.5, 0.5)
    """
    probs = np.array(model.probs)
    if model.n is not None:
        counts = rng.multivariate_hypergeometric(
            np.rint(probs * model.n).astype(np.int64), n, method="marginals"
        )
        rest = 0
    else:
        mass = np.append(probs, model.rest)
        *counts, rest = rng.multinomial(n, mass / mass.sum()).tolist()
    words = {w: int(k) for w, k in zip(model.support, counts, strict=True) if k}
    return Categorical.from_counts(words | {f"\0unassigned {i}": 1 for i in range(rest)})


def _check(members: Sequence[Member]) -> None:
    for member in members:
        level = levels.level_of(member.store)
        if level != "word":
            raise UsageError(
                f"{member.store.path}: is a run of the {level} level, and --matched is for words; "
                "leave it out."
            )
        if member.system not in studies.model_systems(member.store):
            raise UsageError(
                f"{member.label} is no model and has no draws to match; leave out --matched, or "
                "name models with --system."
            )


def _check_sizes(members: Sequence[Member], sizes: Mapping[Key, int]) -> None:
    """Refuse a system of single draws: two draws of one system would never meet."""
    if max(sizes.values()) > 1:
        return
    single = {m.label for m, _, pair in _pairs(members) if pair.model.n is not None}
    single -= {m.label for m, _, pair in _pairs(members) if (pair.model.n or 0) > 1}
    raise UsageError(
        f"--matched: {', '.join(sorted(single))}: has one draw per item, and agreements need two; "
        "name the other systems with --system."
    )


def _pairs(members: Sequence[Member]) -> Iterator[tuple[Member, Key, Pair]]:
    """People and every system on every item; one walk per run."""
    for store in dict.fromkeys(member.store for member in members):
        choices = Choices(**store.manifest["choices"])
        own = [member for member in members if member.store is store]
        for _, item, systems in store.walk():
            for member in own:
                rows = systems.get(member.system, [])
                for place, pair in enumerate(pair_of(item, rows, choices) if rows else ()):
                    yield member, (item.id, place), pair


def _smallest(members: Sequence[Member]) -> dict[Key, int]:
    """The smallest number of draws that any system has, per item."""
    sizes: dict[Key, int] = {}
    for _, key, pair in _pairs(members):
        if pair.model.n is not None:
            sizes[key] = min(pair.model.n, sizes.get(key, pair.model.n))
    return sizes


def _statistics(pair: Pair) -> list[float]:
    values: dict[str, float | None] = {}
    values |= {name: registry.find("metrics", name)(pair) for name in PAIRWISE}
    found = Agreement.of(pair)
    values |= found.columns() if found else {}
    known = (values.get(name) for name in STATISTICS)
    return [np.nan if value is None else value for value in known]


def _table(rows: Sequence[tuple[Key, str, list[float]]]) -> ItemStatistics:
    values = np.array([own for _, _, own in rows]).reshape(-1, len(STATISTICS))
    columns = {name: values[:, i : i + 1] for i, name in enumerate(STATISTICS)}
    return ItemStatistics([key for key, _, _ in rows], [group for _, group, _ in rows], columns)


def _signed(
    member: Member, sizes: dict[Key, int], statistics: dict[str, ItemStatistics], seed: int
) -> Member:
    """A system with the results that can be matched, whose signatures say that they are."""
    keys = statistics[member.label].keys
    n = f"{np.mean([sizes[key] for key in keys]):g} matched" if keys else "0 matched"
    results = {}
    for metric in METRICS:
        if metric in member.results:
            old = member.results[metric]
            protocol = {**old.signature.protocol, "matched": f"seed={seed}"}
            signature = replace(old.signature, n=n, protocol=protocol)
            results[metric] = replace(old, signature=signature)
    return replace(member, results=results)


def _notes(sizes: dict[Key, int], sampled: Sequence[str], seed: int) -> tuple[str, ...]:
    low, high = min(sizes.values()), max(sizes.values())
    number = f"{low}" if low == high else f"{low} to {high}"
    drawn_down = (
        f"matched: every system has the same number of draws per item ({number}), taken without "
        f"replacement with seed {seed}"
    )
    if not sampled:
        return (drawn_down,)
    return (drawn_down, f"matched: {', '.join(sampled)}: draws are samples of exact probabilities")
