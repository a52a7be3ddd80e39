"""Comparing tasks: unpaired tests of people and of systems between corpora."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from task_runs import task_run

from aleatoric.errors import UsageError
from aleatoric.inference.two_samples import holm
from aleatoric.inference.unpaired import unpaired
from aleatoric.runs.run import Store
from aleatoric.studies.compare import Compared
from aleatoric.studies.compare_statistics import read_statistics
from aleatoric.studies.tasks import PEOPLE, ComparedTasks, compare_runs


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    same = {"near": 12, "far": 200}
    return {
        "narrow": task_run(folder, "narrow", 6, same),
        "wide": task_run(folder, "wide", 60, same),
        "wider": task_run(folder, "wider", 70, {"near": 12}, probes=("lexical-1",)),
        "cut": task_run(folder, "cut", 60, same, max_length=5),
    }


@pytest.fixture
def stores(folders: dict[str, Path]) -> Iterator[dict[str, Store]]:
    with ExitStack() as opened:
        yield {name: opened.enter_context(Store.open(path)) for name, path in folders.items()}


@pytest.fixture
def compared(stores: dict[str, Store]) -> ComparedTasks:
    found = compare_runs([stores[name] for name in ("narrow", "wide", "wider")])
    assert isinstance(found, ComparedTasks)
    return found


def test_difference_is_that_of_the_saved_statistics(
    compared: ComparedTasks, stores: dict[str, Store]
) -> None:
    facts = {(c.system, c.metric, c.first, c.second): c for c in compared.comparisons}
    for label, system, metric in (
        (PEOPLE, "control", "mean_H/lexical-1"),
        ("far", "far", "energy/lexical-2"),
    ):
        found = facts[label, metric, "narrow", "wide"].paired
        sides = [read_statistics(stores[name], system) for name in ("narrow", "wide")]
        first, second = (side.values[metric][:, 0] for side in sides)
        assert found.difference.value == pytest.approx(np.nanmean(first) - np.nanmean(second))
        expected = unpaired((first, sides[0].groups), (second, sides[1].groups), 0)
        assert found.test == expected.test
        assert found.difference.interval == expected.difference.interval


def test_planted_differences_are_found(compared: ComparedTasks) -> None:
    assert compared.letters[PEOPLE, "mean_H/lexical-1"]["narrow"] == "b"
    # People who choose among 60 or 70 words vary about as much.
    assert compared.letters[PEOPLE, "mean_H/lexical-1"]["wide"] == "a"
    assert compared.letters[PEOPLE, "mean_H/lexical-1"]["wider"] == "a"
    assert compared.letters["far", "energy/lexical-1"] == {"wide": "a", "narrow": "b"}


def test_holm_is_within_a_metric_over_all_systems(compared: ComparedTasks) -> None:
    family = [c for c in compared.comparisons if c.metric == "energy/lexical-1"]
    assert [(c.system, c.first, c.second) for c in family].count(("near", "wide", "wider")) == 1
    assert len(family) == 3 + 1  # three pairs of tasks for near, one for far
    assert compared.families["energy/lexical-1"] == 4
    p_values = [c.paired.test.p for c in family if c.paired.test]
    assert [c.p_holm for c in family] == pytest.approx(holm(p_values))


def test_what_a_task_lacks_is_noted(compared: ComparedTasks) -> None:
    notes = " | ".join(compared.notes)
    assert "unpaired" in notes
    assert "wider: has no far" in notes
    assert "wider: not measured: mean_H/lexical-2, energy/lexical-2, dmu_M/lexical-2" in notes


def test_facts_of_tasks(compared: ComparedTasks) -> None:
    assert [dict(task.facts) for task in compared.tasks] == [
        {"inputs": 24, "texts": 4, "tokens": 6}
    ] * 3


def test_numbers_on_other_scales_are_not_tested(stores: dict[str, Store]) -> None:
    found = compare_runs([stores["wide"], stores["cut"]], metrics=["mean_H/lexical-1"])
    assert isinstance(found, ComparedTasks)
    (one,) = found.comparisons
    assert one.paired.test is None
    assert one.value is None
    assert one.paired.reason == "not on one scale: max_length (100 v 5) differs"
    assert found.families == {"mean_H/lexical-1": 0}
    assert any("max_length (100 v 5)" in note for note in found.notes)


def test_one_corpus_is_compared_as_before(stores: dict[str, Store]) -> None:
    assert isinstance(compare_runs([stores["wide"]]), Compared)


def test_systems_and_metrics_are_chosen(stores: dict[str, Store]) -> None:
    pair = [stores["narrow"], stores["wide"]]
    found = compare_runs(pair, systems=["far"], metrics=["w1_?/lexical-1"])
    assert isinstance(found, ComparedTasks)
    assert found.metrics == {"far": ("w1_M/lexical-1", "w1_C/lexical-1")}
    everything = compare_runs(pair, only_leading=True)
    assert isinstance(everything, ComparedTasks)
    # The probes of the paper's figures first; of these, the runs have lexical-1.
    assert everything.metrics[PEOPLE] == ("mean_H/lexical-1",)
    with pytest.raises(UsageError, match="no task has a system 'nobody'"):
        compare_runs(pair, systems=["nobody"])
    with pytest.raises(UsageError, match="there is no metric 'overlap'"):
        compare_runs(pair, metrics=["overlap"])
    with pytest.raises(UsageError, match="--matched compares one corpus only"):
        compare_runs(pair, matched=True)


def test_corpora_of_one_name_are_told_apart(tmp_path: Path) -> None:
    first = task_run(tmp_path / "a", "same", 6, {}, inputs=5)
    second = task_run(tmp_path / "b", "same", 60, {}, inputs=6)
    with Store.open(first) as one, Store.open(second) as two:
        found = compare_runs([one, two])
        assert isinstance(found, ComparedTasks)
        assert [task.name for task in found.tasks] == [f"same ({first})", f"same ({second})"]


def test_document_is_plain(compared: ComparedTasks) -> None:
    document = compared.to_dict()
    assert document["tasks"]["wide"]["inputs"] == 24
    assert document["values"][PEOPLE]["mean_H/lexical-1"].keys() == {"narrow", "wide", "wider"}
    assert document["letters"]["far"]["energy/lexical-1"]["wide"] == "a"
    assert {"system", "metric", "first", "second", "difference", "p_holm"} <= document[
        "comparisons"
    ][0].keys()
    assert compared.to_pandas()["system"].iloc[0] == PEOPLE
    assert [table.title for table in compared.tables][-1] == "Pairs of tasks"


def test_inputs_that_two_tasks_share_are_noted(tmp_path: Path) -> None:
    runs = [task_run(tmp_path / f"{words}", "asset", words, {"bot": 9}) for words in (6, 60)]
    with Store.open(runs[0]) as first, Store.open(runs[1]) as second:
        notes = compare_runs([first, second]).notes
    assert any(note.startswith("warning: 24 of 24 inputs of") for note in notes)
