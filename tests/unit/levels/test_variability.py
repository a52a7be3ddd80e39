"""Statistics per input compared with statistics of individual pairs."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from opened_probes import open_probes
from scipy.stats import ks_2samp, wasserstein_distance

from aleatoric.levels.text_variability import ScoredTexts, score_blocks
from aleatoric.metrics.distances import ks, w1
from aleatoric.probes.base import Block
from aleatoric.rng import stream

DIVERGENCES = {"w1": w1, "ks": ks}
PROBES = open_probes(["lexical-1", "lexical-2"], tokeniser="whitespace")
SYSTEMS = ("one", "two")


def made(n: int) -> list[ScoredTexts]:
    """Inputs with unequal numbers of texts, some of them empty."""
    items = []
    for i in range(n):
        rng = stream(0, i)
        sizes = rng.integers(0, 5, 3)
        texts = [
            tuple(" ".join(rng.choice(list("abcde"), rng.integers(0, 6))) for _ in range(size))
            for size in sizes
        ]
        items.append(ScoredTexts(str(i), texts[0], (texts[1], texts[2])))
    return items


def distance(left: str, right: str, probe: int) -> float:
    (matrix,) = PROBES[probe].matrices([Block((left, right), (2,))])
    return float(matrix[0, 1])


def kept(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("probe", [0, 1])
def test_every_statistic_matches_pairwise_computation(place: int, probe: int) -> None:
    items = made(60)
    scores = score_blocks(items, SYSTEMS, PROBES, DIVERGENCES)
    label, name = PROBES[probe].name, SYSTEMS[place]
    found = scores.systems[name]
    for row, item in enumerate(items):
        texts = item.systems[place]
        pairs = {
            "H": [distance(a, b, probe) for a, b in combinations(item.people, 2)],
            "M": [distance(a, b, probe) for a, b in combinations(texts, 2)],
            "C": [distance(a, b, probe) for a, b in product(texts, item.people)],
        }
        for side, values in pairs.items():
            own = kept(values)
            mean = np.mean(own) if own else math.nan
            np.testing.assert_allclose(found[f"mean_{side}/{label}"][row], mean, atol=1e-12)
            owner = scores.people if side == "H" else found
            missing = owner[f"undefined_{side}/{label}"][row]
            assert missing == len(values) - len(own)
        for side in ("M", "C"):
            check_divergences(found, f"_{side}/{label}", row, kept(pairs[side]), kept(pairs["H"]))
    np.testing.assert_array_equal(scores.people[f"mean_H/{label}"], found[f"mean_H/{label}"])


def check_divergences(found, suffix: str, row: int, left: list[float], right: list[float]) -> None:  # type: ignore[no-untyped-def]
    if not left or not right:
        assert all(math.isnan(found[m + suffix][row]) for m in (*DIVERGENCES, "dmu"))
        return
    expected = {
        "w1": wasserstein_distance(left, right),
        "ks": ks_2samp(left, right).statistic,
        "dmu": np.mean(left) - np.mean(right),
    }
    for metric, value in expected.items():
        assert found[metric + suffix][row] == pytest.approx(value, abs=1e-7)


def test_result_does_not_depend_on_batch_size() -> None:
    items = made(30)
    whole = score_blocks(items, SYSTEMS, PROBES, DIVERGENCES)
    batches = [items[start : start + 7] for start in range(0, 30, 7)]
    parts = [score_blocks(batch, SYSTEMS, PROBES, DIVERGENCES) for batch in batches]
    for name in SYSTEMS:
        for metric, values in whole.systems[name].items():
            joined = np.concatenate([part.systems[name][metric] for part in parts])
            np.testing.assert_array_equal(joined, values)


def test_human_variability_without_systems() -> None:
    scores = score_blocks([ScoredTexts("1", ("a b", "a c"))], (), PROBES, DIVERGENCES)
    assert scores.people["mean_H/lexical-1"].tolist() == [0.5]
    assert scores.systems == {}


def test_two_empty_texts_are_undefined_and_counted() -> None:
    item = ScoredTexts("1", ("a", "", ""), (("", "a"), ("b",)))
    scores = score_blocks([item], SYSTEMS, PROBES[:1], {"w1": w1})
    assert scores.people["mean_H/lexical-1"].tolist() == [1.0]
    assert scores.people["undefined_H/lexical-1"].tolist() == [1]
    assert scores.systems["one"]["undefined_C/lexical-1"].tolist() == [2]
    # One text alone has no pair: undefined, though nothing is missing.
    assert math.isnan(scores.systems["two"]["mean_M/lexical-1"][0])
    assert scores.systems["two"]["undefined_M/lexical-1"].tolist() == [0]


def test_reference_distances_can_be_selected() -> None:
    item = ScoredTexts("1", ("a b", "a c", "d"), (("a b", "a b"),))
    found = score_blocks([item], ("one",), PROBES[:1], {"w1": w1}, reference=lambda h: h[:, :1])
    assert found.systems["one"]["w1_M/lexical-1"].tolist() == [0.5]
    assert found.systems["one"]["mean_H/lexical-1"].tolist() == [pytest.approx(2.5 / 3)]


def test_distances_between_one_system_and_references() -> None:
    (group,) = score_blocks([ScoredTexts("1", ("a", "b"), (("a",), ("b",)))], SYSTEMS, PROBES[:1],
                            {}).groups  # fmt: skip
    assert group.with_people(1)[0, 0].tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert math.isnan(group.distances[0, 0, 2, 3])


def test_no_inputs_give_no_scores() -> None:
    assert score_blocks([], SYSTEMS, PROBES, DIVERGENCES).systems == {"one": {}, "two": {}}
