"""Comparing runs: what is tested, rejected and noted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aleatoric.errors import UsageError
from aleatoric.inference.paired import IDENTICAL, NO_ITEMS, ONE_GROUP
from aleatoric.inference.two_samples import holm
from aleatoric.levels import word_results
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob, results
from aleatoric.reporting.comparisons import comparison_tables, summary
from aleatoric.runs.run import Store
from aleatoric.studies.compare import compare

CORPUS = "simulated:contexts=120,people=20,passage=6"
COLD, FLAT = "toy:temperature=0.5", "toy:temperature=3"


def word_run(folder: Path, *models: str, corpus: str = CORPUS, **how: object) -> Store:
    return run_job(WordJob(corpus, models, samples=20, **how), folder)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return word_run(tmp_path_factory.mktemp("runs") / "three", "toy", COLD, FLAT)


def test_every_pair_is_compared_by_every_metric(three: Store) -> None:
    found = compare([three])
    pairs = {(c.first, c.second) for c in found.comparisons if c.metric == "tvd"}
    assert pairs == {("toy", COLD), ("toy", FLAT), (COLD, FLAT)}
    metrics = list(dict.fromkeys(c.metric for c in found.comparisons))
    assert metrics == ["overlap", "sq_distance", "agreement_M", "tvd"]
    assert all(c.p_holm >= c.p_bh >= c.paired.test.p for c in found.comparisons)


def test_difference_matches_results_if_all_items_are_common(three: Store) -> None:
    values = {(r.system, r.metric): r.estimate.value for r in results(three)}
    metrics = ["overlap", "tvd", "sq_distance", "ece_*"]
    found = compare([three], metrics=metrics)
    assert {"overlap", "ece_oracle", "ece_debiased_human"} <= found.values.keys()
    for one in found.comparisons:
        expected = values[one.first, one.metric] - values[one.second, one.metric]
        assert one.paired.difference.value == pytest.approx(expected)
    for metric, own in found.values.items():
        assert own == pytest.approx({name: values[name, metric] for name in own})
        assert found.n_items[metric] == 120


@pytest.mark.parametrize("metric", ["tvd_excess", "js_excess", "w1_C_excess/lexical-1"])
def test_excess_metrics_are_rejected(three: Store, metric: str) -> None:
    with pytest.raises(UsageError, match=f"no metric '{metric}'"):
        compare([three], metrics=[metric])


def test_best_system_is_first_for_either_metric_direction(three: Store) -> None:
    found = compare([three], metrics=["overlap", "sq_distance"])
    overlap, distance = (found.values[metric] for metric in ("overlap", "sq_distance"))
    assert found.order["overlap"] == tuple(sorted(overlap, key=overlap.get, reverse=True))
    assert found.order["sq_distance"] == tuple(sorted(distance, key=distance.get))
    for metric in ("overlap", "sq_distance"):
        assert found.order[metric][0] == "toy"
        assert found.letters[metric]["toy"] == "a"
        assert "a" not in found.letters[metric][COLD]


def test_metric_without_direction_does_not_rank(three: Store) -> None:
    found = compare([three], metrics=["agreement_M"])
    assert all(one.paired.test for one in found.comparisons)
    assert (found.order["agreement_M"], found.letters["agreement_M"]) == ((), {})


def test_p_values_are_adjusted_within_each_metric(three: Store) -> None:
    alone = compare([three], metrics=["sq_distance"]).comparisons
    found = compare([three], metrics=["sq_distance", "tvd", "js", "entropy_model"])
    assert found.comparisons[:3] == alone
    assert set(found.families.values()) == {3}
    p_values = [one.paired.test.p for one in alone]
    assert [one.p_holm for one in alone] == holm(p_values)


def test_two_runs_match_two_systems_of_one_run(three: Store, tmp_path: Path) -> None:
    apart = [word_run(tmp_path / "a", "toy"), word_run(tmp_path / "b", COLD)]
    (one,) = compare(apart, metrics=["tvd"]).comparisons
    (same,) = compare([three], ["toy", COLD], ["tvd"]).comparisons
    assert one.paired == same.paired


def test_control_can_be_selected(three: Store) -> None:
    found = compare([three], ["oracle", FLAT], ["tvd", "ece_oracle"])
    assert [c.metric for c in found.comparisons] == ["tvd", "ece_oracle"]


def test_systems_with_same_name_are_labelled_with_run(tmp_path: Path) -> None:
    runs = [word_run(tmp_path / "a", "toy"), word_run(tmp_path / "b", "toy", seed=7)]
    (one,) = compare(runs, metrics=["tvd"]).comparisons
    assert one.first == f"{tmp_path / 'a'}:toy"


def test_identical_systems_are_not_tested(tmp_path: Path) -> None:
    runs = [word_run(tmp_path / name, "toy") for name in "ab"]
    found = compare(runs, metrics=["tvd"])
    (one,) = found.comparisons
    assert (one.paired.difference.value, one.paired.test) == (0, None)
    assert one.paired.reason == IDENTICAL
    assert set(found.letters["tvd"].values()) == {"a"}
    assert IDENTICAL in found.notes[0]


def test_one_group_is_not_tested(tmp_path: Path) -> None:
    run = word_run(tmp_path / "r", "toy", COLD, corpus="simulated:contexts=9,passage=9")
    (one,) = compare([run], metrics=["tvd"]).comparisons
    assert one.paired.reason == ONE_GROUP
    assert one.paired.difference.interval is None
    assert one.p_holm is None


def test_too_few_groups_give_note_and_no_letters(tmp_path: Path) -> None:
    run = word_run(tmp_path / "r", "toy", FLAT, COLD, corpus="simulated:contexts=40,passage=10")
    found = compare([run], ["toy", FLAT], ["overlap", "tvd"])
    assert found.notes[0] == (
        "overlap, tvd: with 4 groups no adjusted p-value below 0.125 is possible: this comparison "
        "cannot find a difference at 0.05"
    )
    assert found.letters == {"overlap": {}, "tvd": {}}
    assert found.order["overlap"][0] == "toy"
    assert compare([run], ["toy", FLAT], ["overlap"], alpha=0.125).letters["overlap"]
    three = compare([run], metrics=["overlap"], alpha=0.2)
    assert "with 4 groups and 3 tests no adjusted p-value below 0.375" in three.notes[0]
    assert three.letters == {"overlap": {}}


def test_missing_common_items_are_reported(tmp_path: Path) -> None:
    corpus, models = tmp_path / "c.jsonl", [tmp_path / "x.jsonl", tmp_path / "y.jsonl"]
    corpus.write_text(
        '{"id": 1, "context": "There", "responses": ["is", "are"]}\n'
        '{"id": 2, "context": "It", "responses": ["is", "was"]}\n'
    )
    for i, model in enumerate(models):
        model.write_text(f'{{"id": {i + 1}, "samples": {{"is": 3}}}}\n')
    with word_run(tmp_path / "r", *(f"recorded:{m}" for m in models), corpus=str(corpus)) as run:
        (one,) = compare([run], metrics=["tvd"]).comparisons
    assert one.paired.reason == NO_ITEMS
    assert one.paired.difference.value is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"corpus": "simulated:contexts=60,people=20,passage=6"}, r"corpus \(simulated#"),
        ({"choose": ("rule=paper",)}, r"rule \(corrected v paper\)"),
        ({"protocol": "paper"}, r"protocol \(corrected v paper\).*bins"),
        ({"n_splits": 5}, r"n_splits \(20 v 5\)"),
    ],
)
def test_incomparable_runs_are_rejected_by_field(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    runs = [word_run(tmp_path / "a", "toy"), word_run(tmp_path / "b", COLD, **change)]
    with pytest.raises(UsageError, match=field):
        compare(runs)


def test_different_numbers_of_draws_are_noted(tmp_path: Path) -> None:
    few = word_run(tmp_path / "few", "toy")
    many = run_job(WordJob(CORPUS, (COLD,), samples=200), tmp_path / "many")
    note, *_ = compare([few, many], metrics=["tvd"]).notes
    assert "toy 20" in note
    assert "rely on overlap and sq_distance, or use --matched" in note


def test_unknown_names_list_the_known_ones(three: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no system 'tyo'; there are: .*toy"):
        compare([three], ["tyo", "toy"])
    with pytest.raises(UsageError, match="no metric 'tdv'; there are: overlap"):
        compare([three], metrics=["tdv"])
    with pytest.raises(UsageError, match="1 system to compare"):
        compare([word_run(tmp_path / "one", "toy")])


def test_tables_have_one_row_per_pair_and_per_system(three: Store) -> None:
    pairs, systems = comparison_tables(compare([three], metrics=["tvd"]))
    assert [row[1] for row in pairs.rows] == [f"toy − {COLD}", f"toy − {FLAT}", f"{COLD} − {FLAT}"]
    assert [row[0] for row in systems.rows] == ["toy", COLD, FLAT]
    assert all(len(row) == len(pairs.columns) for row in pairs.rows)


def test_interval_method_is_respected(three: Store) -> None:
    found = {
        method: compare([three], ["toy", COLD], ["tvd"], interval=method).comparisons[0].paired
        for method in ("t", "percentile")
    }
    assert {m: p.difference.interval.method for m, p in found.items()} == {
        "t": "Student's t, jackknife over groups",
        "percentile": "group bootstrap, percentile",
    }
    with pytest.raises(UsageError, match="no interval 'exact'"):
        compare([three], interval="exact")


def _withhold(monkeypatch: pytest.MonkeyPatch, *metrics: str) -> None:
    monkeypatch.setattr(word_results, "unknown_metrics", lambda found: {*metrics} & found.keys())


def test_no_system_is_named_best_if_leading_metrics_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = word_run(tmp_path / "wide", "toy", COLD)
    _withhold(monkeypatch, "overlap", "sq_distance")
    found = compare([store], only_leading=True)
    assert {c.metric for c in found.comparisons} == {"agreement_M", "tvd"}
    assert [*summary(found)] == []
    assert found.notes[:2] == (
        f"overlap and sq_distance of toy and {COLD} are not reported, because the bounds are too "
        "wide; use --estimator mc",
        "the systems are not ranked: no two of them have overlap or sq_distance or log_loss",
    )
    asked = compare([store], metrics=["tvd"])
    assert "tvd" in " ".join(summary(asked))
    assert not any("ranked" in note for note in asked.notes)
    with pytest.raises(
        UsageError, match=r"overlap of toy and .* is not reported, because .* mc, or"
    ):
        compare([store], metrics=["overlap"])


def test_comparison_without_any_reported_metric_gives_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = word_run(tmp_path / "wide", "toy", COLD)
    _withhold(monkeypatch, "overlap", "sq_distance", "agreement_M", "tvd")
    with pytest.raises(UsageError, match=r"tvd of toy and .* are not reported, because the bounds"):
        compare([store])


def test_file_under_another_name_is_the_same_corpus(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "group": i // 2, "context": f"They saw the {i}", "responses": ["a", "b"]}
        for i in range(12)
    ]
    stores = []
    for name, limit in (("first", None), ("copy", None), ("part", 8)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        stores.append(word_run(tmp_path / name, "toy", corpus=str(path), limit=limit))
    first, copy, part = stores
    assert compare([first, copy]).n_items["sq_distance"] == 12
    with pytest.raises(UsageError, match=r"corpus \(first#.* v part\[limit=8\]#.*\) differs"):
        compare([first, part])
