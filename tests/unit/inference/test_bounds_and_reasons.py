"""Intervals are clipped to metric bounds; missing values have a reason, up to the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from aleatoric.inference.estimate import (
    CUT_NOTE,
    GroupSums,
    at_level,
    bounded,
    bounded_difference,
    bounds_of,
    estimate,
    with_cut_note,
)
from aleatoric.inference.noise import ONE_ANSWER
from aleatoric.levels import word_results
from aleatoric.metrics.reduction import Mean
from aleatoric.reporting.tables import with_interval
from aleatoric.result_types import Table
from aleatoric.types import Estimate, Interval

METHOD = "group bootstrap, studentised"


@pytest.mark.parametrize(
    ("metric", "ends", "expected"),
    [
        ("ece_human", (-0.1, 0.3), (0.0, 0.3)),
        ("tvd", (0.1, 1.2), (0.1, 1.0)),
        ("js", (-0.1, 1.0), (0.0, np.log(2))),
        ("tvd_debiased", (-0.1, 0.3), (-0.1, 0.3)),
        ("sq_distance", (-0.1, 0.3), (-0.1, 0.3)),
        ("w1_C/lexical-1", (-0.1, 0.3), (0.0, 0.3)),
        ("mean_H/lexical-2", (0.8, 1.1), (0.8, 1.0)),
        ("energy/lexical-2", (-0.1, 1.1), (-0.1, 1.1)),
        ("energy/lexical-1", (-0.1, 0.3), (-0.1, 0.3)),
        ("agreement_H", (-0.1, 1.3), (0.0, 1.0)),
        ("agreement_gap", (-0.1, 0.3), (-0.1, 0.3)),
        ("log_loss", (-0.1, 7.3), (0.0, 7.3)),
        ("overlap", (-0.1, 1.3), (0.0, 1.0)),
        ("w1_C/lexical-1", (0.1, 1.3), (0.1, 1.0)),
        ("w1_M/semantic", (-0.1, 2.3), (0.0, 2.0)),
        ("dmu_M/syntactic-2", (-1.1, 0.3), (-1.0, 0.3)),
    ],
)
def test_intervals_are_clipped_to_bounds(metric: str, ends: Any, expected: Any) -> None:
    found = bounded(Estimate(0.2, Interval(*ends, 0.95, METHOD), 9, 3), metric).interval
    assert (found.low, found.high) == pytest.approx(expected)
    assert ("cut" in found.method) == (ends != expected)


@pytest.mark.parametrize(
    ("metrics", "low", "high"),
    [
        (["tvd", "tvd_exact", "overlap", "agreement_H", "agreement_M", "mass_on_human"], 0, 1),
        (["mode_certified", "accuracy", "ece", "e_ece", "mce", "sce_predicted", "ace_k"], 0, 1),
        (["mean_C/lexical-1", "mean_H/syntactic-3"], 0, 1),
        (["ks_M/lexical-1", "ks_M/semantic", "vocabulary_unseen"], 0, 1),
        (["tvd_debiased", "agreement_gap"], -1, 1),
        (["js"], 0, np.log(2)),
        (["brier", "mean_M/semantic", "w1_M/semantic"], 0, 2),
        (["log_loss", "nll", "entropy_human", "length_C"], 0, np.inf),
        (["rank_of_human_mode"], 1, np.inf),
        (["sq_distance", "energy/semantic", "anything"], -np.inf, np.inf),
    ],
)
def test_metric_bounds(metrics: list[str], low: float, high: float) -> None:
    assert {bounds_of(metric) for metric in metrics} == {(low, high)}


def test_overlap_estimate_above_one_is_kept() -> None:
    estimate = Estimate(1.02, Interval(0.96, 1.08, 0.95, METHOD), 9, 3)
    found = bounded(estimate, "overlap")
    assert found.value == 1.02
    assert (found.interval.low, found.interval.high) == (0.96, 1.02)
    assert found.interval.method == f"{METHOD}, cut at 1.02"


@pytest.mark.parametrize("value", [1 + 1e-15, -1e-17])
def test_rounding_does_not_move_mean_out_of_bounds(value: float) -> None:
    assert bounded(Estimate(value, None, 9, 3), "tvd").value == round(value)


def test_clipped_interval_of_difference_is_marked_in_table() -> None:
    wide = Interval(-1.2, 0.1, 0.95, METHOD)
    found = bounded_difference(Estimate(-0.8, wide, 9, 3), "tvd")
    assert found.interval == Interval(-1.0, 0.1, 0.95, f"{METHOD}, cut at -1")
    table = with_cut_note(Table("t", ("difference",), ((with_interval(found),),)))
    assert table.rows == (("-0.800 [-1.000, 0.100]\u2020",),)
    assert table.notes == (CUT_NOTE,)


def test_difference_bounds_are_the_metric_range() -> None:
    wide = Interval(-2.5, 1.5, 0.95, METHOD)
    found = bounded_difference(Estimate(0.1, wide, 9, 3), "tvd_debiased")
    assert found.interval == Interval(-2.0, 1.5, 0.95, f"{METHOD}, cut at -2")


def test_table_by_agreement_clips_and_marks_intervals(cli: Callable, tmp_path: Path) -> None:
    rows = [(f"{g}:{i}", str(g), g % 3) for g in range(1, 7) for i in range(2, 6)]
    words = ["a"] * 6 + ["b"] * 3 + ["c", "d"]
    corpus = write(
        tmp_path / "people.jsonl",
        [{"id": k, "group": g, "context": k, "responses": words[n:]} for k, g, n in rows],
    )
    draws = [{"id": k, "counts": {"a": 5, "b": 5 - 2 * n, "c": 1}} for k, _, n in rows]
    model = f"recorded:{write(tmp_path / 'm.jsonl', draws)}"
    run = str(tmp_path / "run")
    assert cli("word", "--corpus", str(corpus), "--model", model, "--out", run).status == 0
    [table] = json.loads(cli("score", run, "--by", "agreement", "--json").out)["tables"]
    place = table["columns"].index("overlap \u2191")
    cells = [row[place] for row in table["rows"]]
    cut = [cell for cell in cells if cell.endswith("\u2020")]
    assert cut
    assert CUT_NOTE in table["notes"]
    for cell in cells:
        value, low, high = map(float, re.findall(r"[\d.-]+", cell.rstrip("\u2020")))
        assert 0 <= low <= value <= high <= max(1, value)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def word_run(cli: Callable, folder: Path, answers: dict[str, int], groups: int, each: int) -> Any:
    """A run of equal items; groups have several items each."""
    places = [(g, i) for g in range(1, groups + 1) for i in range(2, each + 2)]
    corpus = write(
        folder / "corpus.jsonl",
        [
            {"passage": g, "position": i, "context": "so it " * i, "original": "is"}
            | {"human": answers}
            for g, i in places
        ],
    )
    model = write(
        folder / "model.jsonl",
        [{"passage": g, "position": i, "samples": {"is": 5, "was": 5}} for g, i in places],
    )
    corpus_spec, out = f"provo:{corpus}", folder / "run"
    ran = cli(
        "word", "--corpus", corpus_spec, "--model", f"recorded:{model}", "--out", out, "--json"
    )
    assert ran.status == 0, ran.err
    return ran.results


def test_single_item_has_no_interval_and_a_reason(cli: Callable, tmp_path: Path) -> None:
    found = word_run(cli, tmp_path, {"is": 3, "are": 2}, groups=1, each=1)
    for result in found.values():
        estimate = result["estimate"]
        assert estimate["interval"] is None
        assert "one group" in estimate["reason"] or "too few items: 1" in estimate["reason"]
        perfect = result["perfect"]
        assert perfect is None or 0 <= perfect["low"] <= perfect["high"]
    assert found["model", "ece_debiased_human"]["estimate"]["value"] is None
    assert "too few items" in found["model", "ece_debiased_human"]["estimate"]["reason"]


def test_one_answer_per_context_is_undefined_with_reason(cli: Callable, tmp_path: Path) -> None:
    found = word_run(cli, tmp_path, {"is": 1}, groups=3, each=2)
    perfect = found["model", "tvd"]["perfect"]
    assert (perfect["low"], perfect["reason"]) == (None, ONE_ANSWER)
    for system, metric in (("oracle", "tvd"), ("oracle", "sq_distance"), ("model", "sq_distance")):
        estimate = found[system, metric]["estimate"]
        assert estimate["value"] is None
        assert "undefined on all 6 items" in estimate["reason"]
    ran = cli("plan", tmp_path / "run", "--se", 0.01)
    assert (ran.status, "no context has two answers" in ran.err) == (2, True)
    ran = cli("compare", tmp_path / "run", "--system", "oracle", "--system", "model")
    assert (ran.status, "no item has a value in both" in ran.err) == (0, True)


def test_equal_items_have_no_interval_and_a_reason(cli: Callable, tmp_path: Path) -> None:
    found = word_run(cli, tmp_path, {"is": 3, "are": 2}, groups=6, each=2)
    tvd = found["model", "tvd"]["estimate"]
    assert (tvd["value"], tvd["interval"]) == (0.5, None)
    assert "no spread" in tvd["reason"]
    ran = cli("plan", tmp_path / "run", "--se", 0.01)
    assert (ran.status, "the same value" in ran.err) == (2, True)
    ran = cli("score", tmp_path / "run", "--analysis", "distinguish")
    assert "0.000 [–]" in ran.out


def test_interval_of_two_groups_uses_one_degree_of_freedom() -> None:
    narrow = Estimate(0.5, Interval(0.4, 0.6, 0.95, "t"), 10, 2)
    interval = at_level(narrow, 0.99).interval
    assert interval is not None
    factor = stats.t.ppf(0.995, 1) / stats.t.ppf(0.975, 1)
    assert (interval.low, interval.high) == pytest.approx((0.5 - 0.1 * factor, 0.5 + 0.1 * factor))


def test_empty_estimate_has_zero_counts() -> None:
    empty = estimate(GroupSums(), Mean("tvd"), 0)
    assert (empty.value, empty.n_items, empty.n_groups, empty.n_undefined) == (None, 0, 0, 0)


def test_note_on_wide_log_loss_says_where_its_value_is(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"log_loss_low": np.array([1.0]), "log_loss_high": np.array([2.34])}
    monkeypatch.setattr(word_results, "stat_columns", lambda *_: (None, columns))
    (note,) = word_results._loss_notes(cast(Any, None), ["m"])
    assert "1.34 nats for m" in note
    assert "beyond that --json has log_loss_low and log_loss_high alone" in note
