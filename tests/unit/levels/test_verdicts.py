"""Verdicts computed from results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aleatoric.levels.base import results, run_job
from aleatoric.levels.text import GAPPY, TextJob
from aleatoric.levels.text_variability import (
    ALIKE,
    CLOSE,
    DEPENDENT,
    DIFFERS,
    LESS,
    MORE,
    UNKNOWN,
    sentences,
    verdicts,
)
from aleatoric.result_types import Result
from aleatoric.types import Estimate, Interval, Signature

SIGNED = Signature("c", "0" * 64, "m", "ancestral", "sampled", {}, "10x10", 0, "", "0")


def result(metric: str, value: float, low: float | None, high: float | None) -> Result:
    interval = None if low is None or high is None else Interval(low, high, 0.95, "t")
    reason = None if interval else "one group: no interval"
    return Result("bot", metric, SIGNED, Estimate(value, interval, 30, 30, reason=reason))


@pytest.mark.parametrize(
    ("energy", "dmu", "closeness", "variability"),
    [
        ((0.1, 0.05, 0.15), (0.1, 0.05, 0.15), DIFFERS, MORE),
        ((0.1, 0.05, 0.15), (-0.1, -0.15, -0.05), DIFFERS, LESS),
        ((0.0, -0.1, 0.1), (0.0, -0.1, 0.1), CLOSE, ALIKE),
        ((-0.1, -0.2, -0.01), (0.0, -0.1, 0.1), DEPENDENT, ALIKE),
        ((0.1, None, None), (0.1, None, None), UNKNOWN, UNKNOWN),
    ],
)
def test_verdicts_follow_intervals(
    energy: tuple[float, float | None, float | None],
    dmu: tuple[float, float | None, float | None],
    closeness: str,
    variability: str,
) -> None:
    # Far from people, whatever the variability.
    far = result("dmu_C/p", 0.4, 0.3, 0.5)
    (found,) = verdicts([far, result("energy/p", *energy), result("dmu_M/p", *dmu)])
    assert (found.closeness, found.variability) == (closeness, variability)
    if closeness == UNKNOWN:
        assert found.reason == "one group: no interval"
        assert sentences([found]) == ["bot: no verdict, one group: no interval (p)."]


def test_statistics_of_one_text_are_not_judged_on_cut_texts() -> None:
    metrics = [result("length_H", 10, 9, 11), result("length_M", 20, 19, 21)]
    for probe in ("p", "length"):
        metrics += [result(f"energy/{probe}", 1, 0.5, 1.5), result(f"dmu_M/{probe}", 1, 0.5, 1.5)]
    metrics += [result("dmu_M_same_length/p", -1, -1.5, -0.5), result("value_H/length", 10, 9, 11)]
    of_p, of_length = verdicts(metrics)
    assert (of_p.basis, of_p.variability) == ("dmu_M_same_length/p", LESS)
    assert (of_length.basis, of_length.variability) == ("dmu_M/length", MORE)
    [said] = sentences([of_p, of_length])
    assert "varies more than people (length);" in said
    assert "varies less than people (p, on texts cut to the same lengths)." in said


def test_verdict_uses_length_matched_texts_if_lengths_differ() -> None:
    plain = [result("energy/p", 0.2, 0.1, 0.3), result("dmu_M/p", 0.2, 0.15, 0.25)]
    lengths = [result("length_H", 100, None, None), result("length_M", 40, None, None)]
    (found,) = verdicts([*plain, *lengths, result("dmu_M_same_length/p", 0.01, -0.1, 0.1)])
    assert found.variability == ALIKE
    assert found.basis == "dmu_M_same_length/p"
    assert "lengths differ" in (found.reason or "")
    # Significant at 95% alone is not enough there.
    (found,) = verdicts([*plain, *lengths, result("dmu_M_same_length/p", 0.1, 0.01, 0.19)])
    assert found.variability == ALIKE
    (found,) = verdicts([*plain, *lengths, result("dmu_M_same_length/p", 0.1, 0.08, 0.12)])
    assert found.variability == MORE
    (found,) = verdicts([*plain, *lengths])
    assert found.variability == UNKNOWN


def test_summary_sentence_groups_probes_per_system() -> None:
    some = [
        result("energy/a", 0.2, 0.1, 0.3),
        result("energy/b", 0.0, -0.1, 0.1),
        result("dmu_M/a", -0.2, -0.3, -0.1),
        result("dmu_M/b", -0.2, -0.3, -0.1),
    ]
    assert sentences(verdicts(some)) == [
        "bot: differs from people (a); no significant difference from people (b); "
        "varies less than people (all probes)."
    ]


def test_no_verdict_if_most_pairs_are_undefined(tmp_path: Path) -> None:
    """Nine one-word texts and one of two words: only pairs with the latter have bigrams."""
    people = [
        f"the {w} is {v} today" for w, v in (("sea", "wild"), ("sky", "blue"), ("day", "long"))
    ]
    rows = [{"id": str(i), "input": f"x{i}", "references": people} for i in range(8)]
    texts = [{"id": str(i), "texts": ["apple"] * 9 + ["an apple"]} for i in range(8)]
    corpus, model = tmp_path / "people.jsonl", tmp_path / "collapsed.jsonl"
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    model.write_text("".join(f"{json.dumps(row)}\n" for row in texts))
    job = TextJob(str(corpus), (f"recorded:{model}",), probes=("lexical-1", "lexical-2"))
    with run_job(job, tmp_path / "run") as store:
        found = {(one.system, one.probe): one for one in verdicts(results(store))}
    assert found["collapsed", "lexical-2"].variability == UNKNOWN
    assert found["collapsed", "lexical-2"].reason == GAPPY


def test_one_of_many_energies_below_0_is_not_called_dependent() -> None:
    below = result("energy/p", -0.1, -0.19, -0.01), result("dmu_M/p", 0.0, -0.1, 0.1)
    others = [
        one
        for name in "abcdef"
        for one in (result(f"energy/{name}", 0.0, -0.1, 0.1), result(f"dmu_M/{name}", 0, -0.1, 0.1))
    ]
    assert [v.closeness for v in verdicts(below)] == [DEPENDENT]
    assert {v.closeness for v in verdicts([*below, *others])} == {CLOSE}
