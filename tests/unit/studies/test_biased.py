"""The table of the biased estimator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.nextword.answers import renormalised
from aleatoric.studies import people
from aleatoric.studies.people import split_tvds
from aleatoric.types import Case, Categorical


@pytest.fixture
def cases(make_case: Callable[..., Case]) -> list[Case]:
    logprobs = {"dog": math.log(0.3), "Dog": math.log(0.1), "cat": math.log(0.1)}
    model = renormalised(logprobs)
    people = {"dog": 6, "cat": 2, "cow": 2}
    originals = ("Dog.", "cat", None)
    return [
        replace(make_case(f"{i}:1", people, model, original=word), renormalised=True)
        for i, word in enumerate(originals)
    ]


def test_table_compares_model_with_both_halves(cases: list[Case]) -> None:
    study = people.run(cases, seed=0)
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    # |.6-.8| + |.2-.2| + .2, halved.
    assert rows["model (renormalized)"][0].startswith("0.200")
    # Confidence .8, right with one of two known originals, and with every majority.
    assert rows["model (renormalized)"][1:] == ("0.300", "0.200")
    assert set(rows) == {"model (renormalized)", "oracle 1", "oracle 2"}
    heights = study.figures["fig5_biased"].heights
    assert set(heights) == {"model (renormalized)", "oracle 2"}


def test_exact_probabilities_are_not_labelled_renormalised(make_case: Callable[..., Case]) -> None:
    exact = make_case("1:1", {"a": 2, "b": 2}, Categorical(("a",), (0.5,), rest=0.5))
    (table,) = people.run([exact], seed=0).tables
    assert table.rows[0][0] == "model (exact)"
    assert table.rows[0][1].startswith("0.500")
    assert table.title == "Exact probabilities beside halves of the people"
    assert any("nothing is renormalized" in note for note in table.notes)


def test_recorded_log_probabilities_are_labelled_renormalised(
    cli: Callable, tmp_path: Path
) -> None:
    corpus, recorded = tmp_path / "people.jsonl", tmp_path / "model.jsonl"
    corpus.write_text('{"id": "1", "context": "the", "responses": ["a", "b", "a"]}\n')
    recorded.write_text('{"id": "1", "logprobs": {"a": -1.0, "b": -2.0}}\n')
    asked = ("--model", f"recorded:{recorded}", "--out", tmp_path / "run")
    assert cli("word", "--corpus", corpus, *asked).status == 0
    assert "model (renormalized)" in cli("score", tmp_path / "run", "--analysis", "biased").out


def test_both_halves_have_equal_distance_to_all_answers(cases: list[Case]) -> None:
    tvds = split_tvds(cases, seed=0)
    # Ten answers: the halves are of one size, and all people stand in the middle between them.
    assert people._target_to_all(tvds) == pytest.approx(tvds.oracle_all)


def test_correctness_is_undefined_without_an_original(cases: list[Case]) -> None:
    answers = people.model_answers(cases)
    assert answers.original[:, 0].tolist()[:2] == [1.0, 0.0]
    assert np.isnan(answers.original[2, 0])


def test_sampled_models_are_rejected(make_case: Callable[..., Case]) -> None:
    sampled = make_case("1:1", {"a": 2}, Categorical.from_counts({"a": 3}))
    with pytest.raises(UsageError, match="log-probabilities"):
        people.run([sampled], seed=0)
    with pytest.raises(UsageError, match="log-probabilities"):
        people.run([], seed=0)
