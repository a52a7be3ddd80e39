"""Comparing statistics of synthetic systems: common items, ranking, letters and notes."""

from __future__ import annotations

import math
import sqlite3
from itertools import combinations

import numpy as np
import pytest

from aleatoric.result_types import Result
from aleatoric.runs.run import Store
from aleatoric.studies.compare import notes_of
from aleatoric.studies.compare_statistics import (
    INFINITE,
    ComparedSystem,
    Comparison,
    ItemEvidence,
    ItemStatistics,
    adjusted,
    letters_of,
    order_of,
)
from aleatoric.types import Estimate, Signature

N_GROUPS = 10


def items(numbers: range, **columns: float | list[float]) -> ItemStatistics:
    """A system with these items in ten groups, and constant or given statistics."""
    n = len(numbers)
    values = {
        name: np.broadcast_to(np.asarray(own, dtype=float), n)[:, None]
        for name, own in columns.items()
    }
    return ItemStatistics(
        [(str(i), 0) for i in numbers], [str(i % N_GROUPS) for i in numbers], values
    )


def compared(metrics: list[str], **systems: ItemStatistics) -> list[Comparison]:
    evidence = ItemEvidence(systems, {}, seed=0)
    pairs = combinations(systems, 2)
    return [
        *adjusted(
            [
                Comparison(metric, *pair, evidence.compare(metric, *pair))
                for pair in pairs
                for metric in metrics
            ]
        )
    ]


def notes(metrics: list[str], **systems: ItemStatistics) -> list[str]:
    signature = Signature("c", "0", "m", "d", "e", {}, "exact", 0, "", "1")
    known = Estimate(0.0, None, 1, 1)
    store = Store.__new__(Store)
    store.db = sqlite3.connect(":memory:")
    store.db.execute("CREATE TABLE meta (key TEXT, value TEXT, checksum TEXT)")
    members = [
        ComparedSystem(
            store, label, label, {m: Result(label, m, signature, known) for m in own.values}
        )
        for label, own in systems.items()
    ]
    family = compared(metrics, **systems)
    return [*notes_of(members, family, ItemEvidence(systems, {}, seed=0), 0.05)]


def noisy(center: float, n: int, seed: int) -> list[float]:
    return (center + np.random.default_rng(seed).normal(0, 0.01, n)).tolist()


def test_values_and_ranking_use_common_items_only() -> None:
    """A system that answered only the easy items looks best on those, but is worst."""
    easy, hard = noisy(0.1, 60, 0), noisy(0.9, 60, 1)
    systems = {
        "whole": items(range(120), tvd=easy + hard),
        "easy": items(range(60), tvd=[value + 0.2 for value in easy]),
    }
    values, n_items = ItemEvidence(systems, {}, 0).values("tvd", ["whole", "easy"])
    assert n_items == 60
    assert values["whole"] == pytest.approx(np.mean(easy))
    family = compared(["tvd"], **systems)
    assert order_of("tvd", family) == ("whole", "easy")
    assert letters_of(("whole", "easy"), family, 0.05) == {"whole": "a", "easy": "b"}


def test_systems_without_shared_items_are_ranked_by_pairs() -> None:
    level = noisy(0.0, 90, 2)
    systems = {
        "first": items(range(60), tvd=[v + 0.2 for v in level[0:60]]),
        "second": items(range(30, 90), tvd=[v + 0.4 for v in level[30:90]]),
        "third": items(range(60, 120), tvd=0.6),
    }
    values, n_items = ItemEvidence(systems, {}, 0).values("tvd", list(systems))
    assert (values, n_items) == (dict.fromkeys(systems), 0)
    family = compared(["tvd"], **systems)
    assert order_of("tvd", family) == ("first", "second", "third")
    # First and third share no item: letters would say that they do not differ.
    assert letters_of(order_of("tvd", family), family, 0.05) == {}


def test_overlap_of_pair_is_ratio_of_sums_over_common_items() -> None:
    rng = np.random.default_rng(3)
    human = rng.random(60)
    sides = [(rng.random(60), rng.random(60)) for _ in range(2)]
    systems = {
        name: items(range(60), agreement_H=human, agreement_M=model, agreement_C=cross)
        for name, (model, cross) in zip("ab", sides, strict=True)
    }
    (one,) = compared(["overlap"], **systems)
    naive = [2 * cross.sum() / (human + model).sum() for model, cross in sides]
    assert one.value == pytest.approx(naive[0] - naive[1])
    assert one.paired.effect is None
    found, n_items = ItemEvidence(systems, {}, 0).values("overlap", "ab")
    assert ([*found.values()], n_items) == (pytest.approx(naive), 60)


def test_infinite_log_loss_is_not_excluded() -> None:
    finite = items(range(20), log_loss=noisy(2.0, 20, 0), confidence=0.5)
    infinite = items(range(20), log_loss=[math.nan, *noisy(1.0, 19, 1)], confidence=0.5)
    (one,) = compared(["log_loss"], finite=finite, infinite=infinite)
    assert (one.value, one.paired.test, one.paired.reason) == (None, None, INFINITE)
    assert any(INFINITE in note for note in notes(["log_loss"], a=finite, b=infinite))


def test_pairs_with_the_same_reason_share_a_note() -> None:
    lossy = items(range(20), log_loss=[math.nan, *noisy(1.0, 19, 1)], confidence=0.5)
    (note,) = (n for n in notes(["log_loss"], **dict.fromkeys("abcd", lossy)) if INFINITE in n)
    assert note == f"log_loss, a v b, a v c, a v d, b v c and 2 more: {INFINITE}"


def test_finite_log_loss_is_compared_as_mean() -> None:
    sides = noisy(2.0, 20, 0), noisy(1.0, 20, 1)
    one, other = (items(range(20), log_loss=own, confidence=0.5) for own in sides)
    (found,) = compared(["log_loss"], one=one, other=other)
    assert found.value == pytest.approx(np.mean(sides[0]) - np.mean(sides[1]))
    assert found.paired.effect.share_lower == 0
    assert found.is_significant(0.05)


def test_contradicting_metrics_are_noted_with_significance() -> None:
    wide = np.random.default_rng(5).normal(0, 1, 40)
    wide -= wide.mean()
    first = items(range(40), sq_distance=noisy(0.1, 40, 0), log_loss=3.01, confidence=1)
    second = items(range(40), sq_distance=noisy(0.2, 40, 1), log_loss=3 + wide, confidence=1)
    found = notes(["sq_distance", "log_loss"], first=first, second=second)
    assert found == [
        "sq_distance and log_loss order first and second differently: first is closer to people by "
        "sq_distance (significant), second is closer to people by log_loss (not significant)"
    ]
    agreeing = items(range(40), sq_distance=noisy(0.05, 40, 2), log_loss=3 + wide, confidence=1)
    assert not notes(["sq_distance", "log_loss"], first=first, second=agreeing)


def test_overlapping_tvd_brackets_do_not_identify_ranking() -> None:
    def system(low: float, high: float, seed: int) -> ItemStatistics:
        return items(range(40), tvd=noisy(high, 40, seed), tvd_debiased=noisy(low, 40, seed))

    systems = {"a": system(0.3, 0.5, 0), "b": system(0.4, 0.6, 1), "c": system(0.8, 0.9, 2)}
    assert notes(["tvd"], **systems) == [
        "tvd: the brackets [tvd_debiased, tvd] of a v b overlap: the order of these systems by TVD "
        "is not identified"
    ]


def test_overlapping_bounds_of_log_loss_do_not_identify_ranking() -> None:
    def system(low: float, high: float, seed: int) -> ItemStatistics:
        ends = {"log_loss_low": noisy(low, 40, seed), "log_loss_high": noisy(high, 40, seed)}
        middle = noisy((low + high) / 2, 40, seed)
        return items(range(40), log_loss=middle, confidence=np.full(40, 0.5), **ends)

    systems = {"a": system(3.1, 3.5, 0), "b": system(3.4, 3.8, 1), "c": system(4.4, 4.5, 2)}
    assert notes(["log_loss"], **systems) == [
        "log_loss: the brackets [log_loss_low, log_loss_high] of a v b overlap: the order of these "
        "systems by log loss is not identified"
    ]


def test_smallest_adjusted_p_value_is_reached_by_full_separation() -> None:
    """Ten groups, three pairs: 3 / 2^9, and a clear difference reaches it."""
    systems = {n: items(range(40), tvd=noisy(i, 40, i)) for i, n in enumerate("abc")}
    for one in compared(["tvd"], **systems):
        assert one.smallest == pytest.approx(3 / 2**9)
        assert one.p_holm == pytest.approx(one.smallest)


def test_pair_without_power_removes_letters() -> None:
    systems = {n: items(range(40), tvd=noisy(i, 40, i)) for i, n in enumerate("ab")}
    systems["few"] = items(range(3), tvd=noisy(9, 3, 9))
    family = compared(["tvd"], **systems)
    assert letters_of(order_of("tvd", family), family, 0.05) == {}
    (note,) = notes(["tvd"], **systems)
    assert note == (
        "tvd: a v few, b v few: with 3 groups and 3 tests no adjusted p-value below 0.5 is "
        "possible: this comparison cannot find a difference at 0.05"
    )
