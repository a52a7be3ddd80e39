"""Runs compared: what is tested, what is refused, what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from aleatoric.comparing import compare
from aleatoric.errors import UsageError
from aleatoric.inference.paired import IDENTICAL, NO_ITEMS, ONE_GROUP
from aleatoric.pipeline import WordJob, choose, results, run_word
from aleatoric.report.comparison import comparison_tables
from aleatoric.store import Store

CORPUS = "simulated:contexts=120,people=20,passage=6"
COLD, FLAT = "toy:temperature=0.5", "toy:temperature=3"


def word_run(folder: Path, *models: str, corpus: str = CORPUS, **how: object) -> Store:
    return run_word(WordJob(corpus, models, samples=20, **how), folder)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return word_run(tmp_path_factory.mktemp("runs") / "three", "toy", COLD, FLAT)


def test_every_pair_is_compared_by_every_metric(three: Store) -> None:
    found = compare([three])
    pairs = {(c.first, c.second) for c in found.comparisons if c.metric == "tvd"}
    assert pairs == {("toy", COLD), ("toy", FLAT), (COLD, FLAT)}
    assert {"tvd", "tvd_excess", "sq_distance", "ece_human"} <= {
        c.metric for c in found.comparisons
    }
    assert all(c.p_holm >= c.p_bh >= c.paired.test.p for c in found.comparisons)


def test_a_difference_is_that_of_the_results_where_all_items_are_common(three: Store) -> None:
    values = {(r.system, r.metric): r.estimate.value for r in results(three)}
    for one in compare([three], metrics=["tvd", "sq_distance", "ece_*"]).comparisons:
        expected = values[one.first, one.metric] - values[one.second, one.metric]
        assert one.paired.difference.value == pytest.approx(expected)


def test_the_excess_is_compared_above_the_floor_of_each_item(three: Store) -> None:
    (one,) = compare([three], ["toy", FLAT], ["tvd_excess"]).comparisons
    excess = {r.system: r.excess for r in results(three) if r.metric == "tvd"}
    assert one.paired.difference.value == pytest.approx(excess["toy"] - excess[FLAT])


def test_the_best_system_has_a_letter_of_its_own(three: Store) -> None:
    found = compare([three], metrics=["sq_distance"])
    assert found.letters["sq_distance"]["toy"] == "a"
    assert "a" not in found.letters["sq_distance"][COLD]
    assert found.values["sq_distance"]["toy"] < found.values["sq_distance"][COLD]


def test_two_runs_are_compared_like_two_systems_of_one(three: Store, tmp_path: Path) -> None:
    apart = [word_run(tmp_path / "a", "toy"), word_run(tmp_path / "b", COLD)]
    (one,) = compare(apart, metrics=["tvd"]).comparisons
    (same,) = compare([three], ["toy", COLD], ["tvd"]).comparisons
    assert one.paired == same.paired


def test_a_control_can_be_named(three: Store) -> None:
    found = compare([three], ["oracle", FLAT], ["tvd", "ece_oracle"])
    assert [c.metric for c in found.comparisons] == ["tvd", "ece_oracle"]


def test_systems_of_one_name_carry_their_run(tmp_path: Path) -> None:
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


def test_few_groups_cannot_tell_anything_apart(tmp_path: Path) -> None:
    run = word_run(tmp_path / "r", "toy", FLAT, corpus="simulated:contexts=40,passage=10")
    found = compare([run], metrics=["tvd"])
    assert any("no p-value below 0.125" in note for note in found.notes)


def test_no_common_item_is_said(tmp_path: Path) -> None:
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
        ({"choices": choose("corrected", ["rule=paper"])}, r"rule \(corrected v paper\)"),
        ({"choices": choose("paper", [])}, r"protocol \(corrected v paper\).*bins"),
        ({"n_splits": 5}, r"n_splits \(20 v 5\)"),
    ],
)
def test_runs_that_measure_differently_are_refused_by_field(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    runs = [word_run(tmp_path / "a", "toy"), word_run(tmp_path / "b", COLD, **change)]
    with pytest.raises(UsageError, match=field):
        compare(runs)


def test_different_numbers_of_draws_are_warned_of(tmp_path: Path) -> None:
    few = word_run(tmp_path / "few", "toy")
    many = run_word(WordJob(CORPUS, (COLD,), samples=200), tmp_path / "many")
    (note,) = compare([few, many], metrics=["tvd"]).notes
    assert "toy 20" in note
    assert "tvd_excess" in note


def test_unknown_names_list_the_known_ones(three: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no system 'tyo'; there are: .*toy"):
        compare([three], ["tyo", "toy"])
    with pytest.raises(UsageError, match="no metric 'tdv'; there are: tvd"):
        compare([three], metrics=["tdv"])
    with pytest.raises(UsageError, match="1 system to compare"):
        compare([word_run(tmp_path / "one", "toy")])


def test_tables_hold_a_row_a_pair_and_a_row_a_system(three: Store) -> None:
    pairs, systems = comparison_tables(compare([three], metrics=["tvd"]))
    assert [row[1] for row in pairs.rows] == [f"toy − {COLD}", f"toy − {FLAT}", f"{COLD} − {FLAT}"]
    assert [row[0] for row in systems.rows] == ["toy", COLD, FLAT]
    assert all(len(row) == len(pairs.columns) for row in pairs.rows)


def test_the_excess_of_different_numbers_of_draws_is_that_of_the_results(tmp_path: Path) -> None:
    """Floors differ with the draws: results and pairs must subtract the same one."""
    few = word_run(tmp_path / "few", "toy")
    many = run_word(WordJob(CORPUS, (COLD,), samples=200), tmp_path / "many")
    (one,) = compare([few, many], metrics=["tvd_excess"]).comparisons
    own, other = (
        next(r.excess for r in results(store) if r.metric == "tvd" and r.system in ("toy", COLD))
        for store in (few, many)
    )
    assert one.paired.difference.value == pytest.approx(own - other)


def test_intervals_are_made_as_asked(three: Store) -> None:
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
