# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""Recorded log-probabilities at the token level: the numbers of the live model, or a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from forced_lms import saved

import aleatoric as al
from aleatoric.calibration.statistics import REASON
from aleatoric.errors import DataError
from aleatoric.models.base import Forcing
from aleatoric.models.forced import chunks
from aleatoric.models.recorded_tokens import load
from aleatoric.runs.engine import open_forced
from aleatoric.types import Document

TEXTS = (
    "The ferry left at seven and nobody waved. Bread is made of flour, water, salt and time.",
    "When the lights went out the old man kept reading.",
    "A dog runs, and then another dog runs, and nobody waved at seven.",
)
SCHEMES = ("temperature=0.5", "ancestral,samples=2", "greedy", "top_k=5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded")
    saved("gpt2", path)
    rows = [{"id": f"d{i}", "text": text} for i, text in enumerate(TEXTS)]
    (path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def recorded(folder: Path) -> list[dict[str, Any]]:
    """The live model's log-probabilities, one row per token, in any order."""
    model = open_forced(f"hf:{folder / 'gpt2'}", Forcing())
    items = [Document(f"d{i}", text) for i, text in enumerate(TEXTS)]
    strips = [strip for of_item in model.strips(items) for strip in of_item]
    found = []
    for chunk in chunks(model, strips, 100):
        values = chunk.logits.double().log_softmax(-1).tolist()
        places = zip(chunk.groups, chunk.positions.tolist(), chunk.targets.tolist(), strict=True)
        for (group, position, target), row in zip(places, values, strict=True):
            found.append({"id": group, "position": position, "target": target, "logprobs": row})
    return found


def written(rows: list[dict[str, Any]], path: Path) -> str:
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"recorded:{path}"


def top(row: dict[str, Any], size: int) -> dict[str, Any]:
    """A row with the most likely tokens only."""
    values = np.array(row["logprobs"])
    ids = np.argsort(-values, kind="stable")[:size]
    fields = {name: row[name] for name in ("id", "position", "target")}
    fields |= {"ids": ids.tolist(), "logprobs": values[ids].tolist()}
    return fields | {"target_logprob": row["logprobs"][row["target"]]}


def values(run: Any) -> dict[str, float | None]:
    return {result.metric: result.estimate.value for result in run.results}


def scored(folder: Path, model: str, **options: Any) -> Any:
    return al.token(corpus=str(folder / "docs.jsonl"), model=model, schemes=SCHEMES, **options)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_recorded_vectors_give_the_numbers_of_the_live_model(
    folder: Path, recorded: list[dict[str, Any]], tmp_path: Path, name: str
) -> None:
    live = values(scored(folder, f"hf:{folder / 'gpt2'}"))
    found = values(scored(folder, written(recorded, tmp_path / name)))
    assert found.keys() == live.keys()
    assert {"ece", "e_ece", "sce", "ace", "brier", "nll", "agreement_M"} <= found.keys()
    for metric in live:
        assert found[metric] == pytest.approx(live[metric], abs=2e-5), metric


def test_most_likely_tokens_give_exact_metrics_and_leave_others_undefined(
    folder: Path, recorded: list[dict[str, Any]], tmp_path: Path
) -> None:
    live = values(scored(folder, f"hf:{folder / 'gpt2'}"))
    rows = [top(row, 120) for row in recorded]
    run = scored(folder, written(rows, tmp_path / "top.jsonl"))
    found = values(run)
    undefined = {result.metric for result in run.results if result.estimate.value is None}
    assert undefined == {
        *("e_ece", "e_ece[temperature=0.5]", "e_ece[ancestral,samples=2]", "brier", "entropy"),
        *("agreement_M", "sce", "ace", "vocabulary_unseen"),
    }
    assert all(r.estimate.reason == REASON for r in run.results if r.metric in undefined)
    assert found.keys() == live.keys()
    exact = found.keys() - undefined
    assert {
        "ece",
        "nll",
        "accuracy",
        "agreement_C",
        "e_ece_p",
        "e_ece_k",
        "e_ece[top_k=5]",
        "ece_smooth",
    } <= exact
    for metric in exact:
        assert found[metric] == pytest.approx(live[metric], abs=2e-5), metric


def test_few_tokens_leave_truncated_schemes_undefined(
    folder: Path, recorded: list[dict[str, Any]], tmp_path: Path
) -> None:
    rows = [top(row, 6) for row in recorded]
    found = values(scored(folder, written(rows, tmp_path / "top.jsonl")))
    assert found["e_ece_p"] is None
    assert found["e_ece_k"] is None
    assert found["e_ece[top_k=5]"] is not None


def test_runs_of_most_likely_tokens_are_compared_by_exact_metrics(
    folder: Path, recorded: list[dict[str, Any]], tmp_path: Path
) -> None:
    spec = written([top(row, 120) for row in recorded], tmp_path / "top.jsonl")
    first = scored(folder, spec, out=str(tmp_path / "a"))
    second = scored(folder, f"hf:{folder / 'gpt2'}", out=str(tmp_path / "b"))
    text = str(al.compare(first, second))
    assert "ece" in text
    al.report(first, html=str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size > 1000


ROW = {"id": "d0", "position": 1, "target": 0, "logprobs": [-0.1, -2.3522]}
TOP = {"id": "d0", "position": 1, "target": 5, "ids": [3, 4], "logprobs": [-0.5, -1.5]}


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (ROW | {"logprobs": [0.9, 0.1]}, "holds 0.9, which is no log-probability; give natural"),
        (ROW | {"logprobs": [-0.1, -0.1]}, "sum to 1.81; give natural logarithms"),
        (ROW | {"logprobs": [-0.5, -3.0]}, "sum to 0.6563; .* or name the tokens in ids"),
        (ROW | {"logprobs": "x"}, "is no list of numbers"),
        (ROW | {"logprobs": [None, -0.1]}, "is no list of numbers"),
        (ROW | {"logprobs": [[-0.1], [-2.3522]]}, "is no list of numbers"),
        (ROW | {"target": 2}, "target 2 is not in a vocabulary of 2"),
        (ROW | {"position": -1}, "position -1 is too small"),
        ({k: v for k, v in ROW.items() if k != "target"}, "target"),
        (TOP, "target 5 is not among ids, and target_logprob is not given"),
        (TOP | {"target_logprob": -0.6}, "above the smallest"),
        (TOP | {"target_logprob": -9999.0}, "-9999 is what servers write .*; record the real"),
        (ROW | {"logprobs": [0.0, -12000]}, "-12000 is what servers write .* leave this row out"),
        (TOP | {"target": 3, "target_logprob": -0.6}, "is -0.6, and logprobs has -0.5 for the"),
        (ROW | {"target_logprob": -0.2}, "is -0.2, and logprobs has -0.1 for the target; correct"),
        (ROW | {"target_logprob": "x"}, "is no list of numbers"),
        (TOP | {"target": 3, "ids": [3, 3]}, "names a token twice"),
        (TOP | {"target": 3, "ids": [3]}, "differ in length"),
        (TOP | {"target": 3, "logprobs": [-0.1, -0.2]}, "sum to 1.724"),
    ],
)
def test_bad_rows_are_refused_with_file_line_and_fix(
    tmp_path: Path, row: dict[str, Any], match: str
) -> None:
    path = tmp_path / "bad.jsonl"
    written([row], path)
    with pytest.raises(DataError, match=match) as caught:
        load(str(path))
    assert f"{path}, line 1: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_probability_zero_is_no_placeholder(tmp_path: Path) -> None:
    columns = {"id": ["d0"], "position": [1], "target": [0], "logprobs": [[-np.inf, 0.0]]}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    model = load(str(tmp_path / "rows.parquet"))
    assert model.logits(model.strips([Document("d0", "x")])[0]).tolist() == [[[-np.inf, 0.0]]]


def test_inconsistent_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    cases = {
        "occurs twice": [ROW, ROW],
        "has 3 numbers, and the first row has 2": [
            ROW,
            ROW | {"position": 2, "logprobs": [-0.1, -2.3522, -30.0]},
        ],
        "in one form": [ROW, TOP | {"position": 2, "target": 3}],
    }
    for match, rows in cases.items():
        written(rows, path)
        with pytest.raises(DataError, match=rf"line 2: .*{match}"):
            load(str(path))
    path.write_text("")
    with pytest.raises(DataError, match="holds no row"):
        load(str(path))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load(str(tmp_path / "bad.parquet"))


def test_documents_without_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written([ROW, ROW | {"position": 2}, ROW | {"position": 5}], path)
    model = load(str(path))
    first, second = model.strips([Document("d0", "x")])[0]
    assert (first.offset, first.given, second.offset, second.given) == (1, (0, 1), 5, (2,))
    with pytest.raises(DataError, match="has no row with the id 'd1'"):
        model.strips([Document("d1", "x")])


def test_recordings_with_equal_names_are_named_alike_in_any_order(
    folder: Path, recorded: list[dict[str, Any]], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    specs = [written(recorded, tmp_path / name / "rows.v1.jsonl") for name in ("a", "b")]
    for order in (specs, specs[::-1]):
        systems = al.token(folder / "docs.jsonl", order).systems
        assert sorted(systems) == ["a/rows.v1", "b/rows.v1"]


def test_rows_that_are_not_used_and_gaps_are_noted(
    folder: Path, recorded: list[dict[str, Any]], tmp_path: Path
) -> None:
    rows = [row for row in recorded if (row["id"], row["position"]) != ("d1", 3)]
    rows += [rows[0] | {"id": "elsewhere", "position": position} for position in (0, 1)]
    model = written(rows, tmp_path / "rows.jsonl")
    notes = al.token(folder / "docs.jsonl", model).notes
    assert "rows.jsonl: ignored 2 rows of documents that this run does not read" in notes
    assert "rows.jsonl: 1 position is not scored, without a row between recorded ones" in notes
